"""Copies topics with Spark, one query after the other in one session: how long their batches take, as a line of JSON.

    python -m bench.clients.copy_job --config FILE --points '[{"topic": "a", "to": "b", "batch": 1000, "batches": 5}]'

Nothing is computed, so what is measured is source, sink and Spark between them. The first point runs twice, and the
first batch of each query is not counted: code is compiled and workers start meanwhile. The limit of a batch counts
offsets, so a batch has a few records less where markers of transactions lie between them.
"""

import argparse
import json
import time
from typing import Any

from bench.clients.spark_job import source, spark_session, start
from bench.harness.brokers import read_client_file

WARM_UP = 1
TIMEOUT_S = 600.0
#: Of the limit: a smaller batch was the last one, with what was left.
FULL = 0.5


def copy(spark: Any, options: argparse.Namespace, point: dict[str, Any]) -> list[dict[str, Any]]:
    """The batches after the first: their rows, and the milliseconds of their triggers."""
    options.topic = point["topic"]
    rows = source(spark, options, maxOffsetsPerTrigger=str(point["batch"]))
    copied = rows.selectExpr(f"'{point['to']}' AS topic", "key", "value")
    query = start(copied, None, options, processingTime="0 seconds")
    deadline_s = time.monotonic() + TIMEOUT_S
    found: list[dict[str, Any]] = []
    while len(found) < point["batches"] + WARM_UP and time.monotonic() < deadline_s and query.isActive:
        time.sleep(0.05)
        found = [
            {"rows": each.numInputRows, "ms": each.durationMs["triggerExecution"]}
            for each in query.recentProgress
            if each.numInputRows >= FULL * point["batch"]
        ]
    if query.exception() is not None:
        raise query.exception()
    query.stop()
    if len(found) <= WARM_UP:
        raise RuntimeError(f"{point}: no second full batch within {TIMEOUT_S:.0f} s")
    return found[WARM_UP : WARM_UP + point["batches"]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--system", choices=["fencepost", "spark"], default="fencepost")
    parser.add_argument("--config", required=True, type=read_client_file, help="options of the connection, in a file")
    parser.add_argument("--points", required=True, type=json.loads)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--master", default="", help="default: local[CORES]")
    parser.add_argument("--plain", action="store_true", help="Spark with its own settings instead of ours")
    options = parser.parse_args()
    spark = spark_session(options)
    copy(spark, options, options.points[0])
    print(json.dumps([copy(spark, options, point) for point in options.points]), flush=True)


if __name__ == "__main__":
    main()
