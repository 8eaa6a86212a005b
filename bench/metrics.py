"""What counting for metrics costs the broker: CPU per record, beside the same broker without it.

    python -m bench.metrics                        ten pairs of each load: three minutes
    python -m bench.metrics --repetitions 30
    python -m bench.metrics --quick                one pair: an impression, not a measurement

The other broker runs a copy of the package in which the statements that count are taken out, and nothing else. Both
are up all the time, and each takes its turn with the same load from one client, first the one, then the other. What is
compared is CPU time of the broker's process: on a busy machine it says more than throughput. No disk: nothing is
synced. The difference is the median of the pairs' ratios; half of the pairs are in the range beside it.

On a busy machine that range is wider than what is looked for. So the statements that count a Produce are also timed
alone, as the shortest of many short runs, which nobody interrupted. Their share is of the CPU that a request costs.
"""

import contextlib
import re
import shutil
import statistics
import sys
import tempfile
import timeit
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer

import fencepost
from bench.harness import options as shared
from bench.harness.brokers import Flush
from bench.harness.process import usage
from bench.harness.report import Report, environment
from fencepost.broker.counts import BrokerCounts
from fencepost.child import Child
from fencepost.clock import SystemClock
from fencepost.lab.kit.servers import free_ports

#: By module: statements that only count, each with how often it is there.
COUNTING = {
    "broker/connection.py": {
        "self._observe_ns[call.api_key](self._now_ns() - call.began_ns)": 3,
        "entry.error_places.count(answer, self._counts.apis[call.api_key].errors)": 1,
        "self._counts.bytes_in += nbytes": 1,
    },
    "broker/outbox.py": {"self._counts.bytes_out += sent": 2},
    "log/partition.py": {"counts.batches += 1": 1, "counts.records += messages": 1, "counts.bytes += size": 1},
    "log/flush.py": {"self._counts.syncs.observe_ns(self._clock.monotonic_ns() - finished.began_ns)": 1},
}


class Load(NamedTuple):
    name: str
    records: int
    record_bytes: int
    settings: dict[str, object]


LOADS = (
    Load("1 KB records in batches of 16 KB", 100_000, 1024, {"linger.ms": 5, "batch.size": 16 * 1024}),
    Load("100 bytes, one record a request", 20_000, 100, {"linger.ms": 0, "batch.num.messages": 1}),
)
RUNS, RUN = 5_000, 500


class Counting:
    """What a broker counts of a Produce, as its code has it."""

    def __init__(self) -> None:
        self._counts = BrokerCounts([0], 0)
        self._log = self._counts.log
        self._observe_ns = self._counts.observe_ns
        self._now_ns = SystemClock().monotonic_ns
        self._began_ns = self._now_ns()

    def count(self) -> None:
        self._counts.bytes_in += 16_000
        log = self._log
        log.batches += 1
        log.records += 15
        log.bytes += 16_000
        self._observe_ns[0](self._now_ns() - self._began_ns)
        self._counts.bytes_out += 60

    def nothing(self) -> None:
        pass


def counting_us() -> float:
    """Of CPU, for one request."""
    one = Counting()
    counted, called = (min(timeit.repeat(each, number=RUN, repeat=RUNS)) for each in (one.count, one.nothing))
    return (counted - called) / RUN * 1e6


def without_counting(home: Path) -> Path:
    """A copy of the package that does not count. Gives the directory that it is in."""
    shutil.copytree(Path(fencepost.__file__).parent, home / "fencepost", ignore=shutil.ignore_patterns("__pycache__"))
    for module, statements in COUNTING.items():
        path = home / "fencepost" / module
        text = path.read_text()
        for statement, times in statements.items():
            if text.count(statement) != times:
                raise SystemExit(f"{module} no longer has {times} × {statement}: mend COUNTING")
            text = text.replace(statement, "pass")
        path.write_text(text)
    return home


class Running(NamedTuple):
    pid: int
    address: str
    metrics_url: str


@contextlib.contextmanager
def running(home: Path, package: Path) -> Iterator[Running]:
    """A broker of this package."""
    port, metrics = free_ports(2)
    settings = [word for name, value in Flush.NEVER.settings.items() for word in ("--set", f"{name}={value}")]
    where = ("--port", str(port), "--metrics", str(metrics))
    with Child(home.with_suffix(".log")) as child:
        command = [sys.executable, "-m", "fencepost.cli.main", "up", str(home), *where, *settings]
        child.start(command, {"PYTHONPATH": str(package)})
        if child.first_line(60) is None or child.pid is None:
            raise SystemExit(child.said())
        yield Running(child.pid, f"127.0.0.1:{port}", f"http://127.0.0.1:{metrics}/metrics")


def requests(broker: Running) -> int:
    """Produce requests that it has counted."""
    text = urllib.request.urlopen(broker.metrics_url).read().decode()
    found = re.search(r'^fencepost_request_seconds_count\{api="Produce"\} (\d+)$', text, re.MULTILINE)
    return int(found[1]) if found else 0


def cpu_us(broker: Running, load: Load) -> float:
    """Of the broker, per record."""
    producer = Producer({"bootstrap.servers": broker.address, "acks": "all", **load.settings})
    producer.produce("records", b"first")
    producer.flush(60)
    before_s, value = usage(broker.pid).cpu_s, b"x" * load.record_bytes
    for _ in range(load.records):
        while True:
            try:
                producer.produce("records", value)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(300):
        raise SystemExit("the broker does not answer any more")
    return (usage(broker.pid).cpu_s - before_s) / load.records * 1e6


def measure(counting: Running, silent: Running, load: Load, repetitions: int) -> dict[str, float]:
    before, pairs = requests(counting), []
    for number in range(repetitions + 1):
        turns = (counting, silent) if number % 2 else (silent, counting)
        found = {broker: cpu_us(broker, load) for broker in turns}
        pairs.append((found[counting], found[silent]))
    records_a_request = load.records * len(pairs) / (requests(counting) - before)
    del pairs[0]  # it warms up
    differences = sorted((with_it / without_it - 1) * 100 for with_it, without_it in pairs)
    low, middle, high = statistics.quantiles(differences, n=4) if len(pairs) > 1 else differences * 3
    with_it, without_it = (statistics.median(each) for each in zip(*pairs, strict=True))
    alone_us = counting_us()
    return {
        "counting_us": with_it,
        "silent_us": without_it,
        "difference": middle,
        "low": low,
        "high": high,
        "request_us": with_it * records_a_request,
        "alone_us": alone_us,
        "share": alone_us / (with_it * records_a_request) * 100,
    }


def main() -> None:
    parser = shared.parser(__doc__)
    parser.set_defaults(repetitions=10)
    options = shared.parse(parser)
    report = Report("metrics", "Counting", environment())
    rows = []
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        home = Path(directory)
        counting = stack.enter_context(running(home / "counting", Path(fencepost.__file__).parent.parent))
        silent = stack.enter_context(running(home / "silent", without_counting(home / "package")))
        for load in LOADS:
            found = measure(counting, silent, load, options.repetitions)
            report.raw.append({"load": load.name, **found})
            rows.append(
                [
                    load.name,
                    f"{found['counting_us']:.2f}",
                    f"{found['silent_us']:.2f}",
                    f"{found['difference']:+.1f} % ({found['low']:+.1f} to {found['high']:+.1f})",
                    f"{found['request_us']:.1f}",
                    f"{found['alone_us']:.2f}",
                    f"{found['share']:.1f} %",
                ]
            )
    columns = ["load", "CPU per record, µs", "without counting, µs", "difference"]
    report.table("Counting", [*columns, "CPU per request, µs", "counting alone, µs", "its share"], rows)
    report.publish(options)


if __name__ == "__main__":
    main()
