"""Growth: how cost grows with size, one curve after the other, each a table and a plot.

    python -m bench.growth                         all curves on both brokers
    python -m bench.growth commit-partitions producers
    python -m bench.growth output-partitions --brokers kafka --points 1 16 256
    python -m bench.growth --list
    python -m bench.growth --quick                 few and small points, to see that everything runs
    python -m bench.growth record-size client --write

The exponent in a caption is the slope of the upper half of the curve on logarithmic axes: 0 is flat, 1 is in
proportion, more is worse. Curves of Spark are of a plain copy from topic to topic, in a warm session, by Spark's own
account of its batches. `commit-*` measure until a `read_committed` consumer has seen the last record.
"""

import argparse
import sys
from collections.abc import Callable
from importlib.metadata import version

from bench.growth.commits import commit_open, commit_partitions, commit_records
from bench.growth.connections import connections
from bench.growth.groups import groups
from bench.growth.pipelines import batch_size, executors, input_partitions, output_partitions, record_size
from bench.growth.producers import producers
from bench.growth.records import client
from bench.harness import options as shared
from bench.harness.report import Report, environment

CURVES: dict[str, Callable[[argparse.Namespace, Report], None]] = {
    "output-partitions": output_partitions,
    "input-partitions": input_partitions,
    "record-size": record_size,
    "client": client,
    "batch-size": batch_size,
    "executors": executors,
    "commit-records": commit_records,
    "commit-partitions": commit_partitions,
    "commit-open": commit_open,
    "producers": producers,
    "connections": connections,
    "groups": groups,
}
#: Points of a quick run.
QUICK: dict[str, list[int]] = {
    "output-partitions": [1, 16],
    "input-partitions": [1, 8],
    "record-size": [100, 100_000],
    "client": [100, 10_000],
    "batch-size": [1_000, 10_000],
    "executors": [1],
    "commit-records": [1, 1_000],
    "commit-partitions": [1, 100],
    "commit-open": [0, 20],
    "producers": [10, 50],
    "connections": [1, 500],
    "groups": [10, 200],
}
#: Words that stand for several curves.
FAMILIES = {"commit": ["commit-records", "commit-partitions", "commit-open"]}


def chosen(words: list[str]) -> list[str]:
    named = [name for word in words for name in FAMILIES.get(word, [word])]
    return list(dict.fromkeys(named)) or list(CURVES)


def main() -> None:
    parser = shared.parser(__doc__)
    parser.add_argument("curves", nargs="*", metavar="CURVE", choices=[*CURVES, *FAMILIES, []], help="default: all")
    parser.add_argument("--list", action="store_true", help="name the curves")
    parser.add_argument("--points", nargs="+", type=int, metavar="N", help="instead of the curve's own")
    parser.add_argument("--systems", nargs="+", choices=["fencepost", "spark"], default=["fencepost"])
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--batch", type=int, default=100_000, help="records in a batch, where that is not the curve")
    parser.add_argument("--batch-bytes", type=int, default=32_000_000, help="of a batch of `record-size`")
    parser.add_argument("--total-bytes", type=int, default=128_000_000, help="of a transaction of `client`")
    parser.add_argument("--commits", type=int, default=15, help="of each point of `commit-*`")
    parser.add_argument("--seconds", type=int, default=20, help="that `producers` count")
    options = shared.parse(parser)
    if options.list:
        print("\n".join(f"{name}: {curve.__doc__}" for name, curve in CURVES.items()))
        return
    names = chosen(options.curves)
    if options.points and len(names) > 1:
        parser.error("--points are for one curve")
    if options.quick:
        options.batch, options.batch_bytes, options.total_bytes, options.seconds = 10_000, 2_000_000, 16_000_000, 3
    given = options.points
    for name in names:
        print(f"{name} …", file=sys.stderr, flush=True)
        options.points = given or (QUICK[name] if options.quick else None)
        report = Report(f"growth-{name}", f"Growth: {name}", [*environment(), f"Spark {version('pyspark')}"])
        CURVES[name](options, report)
        # One after the other, so that an hour's work is not lost with the last curve.
        report.publish(options)


if __name__ == "__main__":
    main()
