"""Starting: the time from the command to the first answered request, and the memory of an empty broker.

    python -m bench.startup

Both start with an empty data directory (Kafka's is formatted beforehand, which is not counted) and again with the same
one after a clean stop. Memory is the resident set a second after the start.
"""

import time
from dataclasses import dataclass

from bench.harness import options as shared
from bench.harness import process
from bench.harness.brokers import Server, made, start
from bench.harness.report import Report, environment, median, ratio, spread

MEGABYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Start:
    seconds: float
    cpu_s: float
    rss_mb: float


def start_once(server: Server) -> Start:
    taken_s = start(server)
    time.sleep(1.0)
    usage = process.usage(server.pid)
    return Start(taken_s, usage.cpu_s, usage.rss_bytes / MEGABYTE)


def measure(kind: str) -> tuple[Start, Start]:
    """Of an empty directory, then again of what that left."""
    with made(kind) as server:
        first = start_once(server)
        server.stop()
        return first, start_once(server)


def main() -> None:
    parser = shared.parser(__doc__)
    parser.set_defaults(repetitions=5)
    options = shared.parse(parser)
    report = Report("startup", "Starting", environment())
    report.notes.append(f"median of {options.repetitions} (least–most)")
    results: dict[str, list[tuple[Start, Start]]] = {kind: [] for kind in options.brokers}
    for repetition in range(options.repetitions):
        for kind in options.brokers if repetition % 2 == 0 else options.brokers[::-1]:
            results[kind].append(measure(kind))
    rows = []
    for index, what in enumerate(("empty directory", "started again")):
        for name, label in (("seconds", "start, s"), ("cpu_s", "CPU, s"), ("rss_mb", "resident, MB")):
            values = {kind: [getattr(pair[index], name) for pair in pairs] for kind, pairs in results.items()}
            middles = {kind: median(each) for kind, each in values.items()}
            shown = [spread(values[kind]) if kind in values else "" for kind in ("fencepost", "kafka")]
            rows.append([what, label, *shown, ratio(middles.get("fencepost"), middles.get("kafka"))])
            report.raw += [
                {"what": what, "measure": name, "broker": kind, "values": each} for kind, each in values.items()
            ]
    report.table("From the command to the first answer", ["", "measure", "fencepost", "kafka", "ratio"], rows)
    report.publish(options)


if __name__ == "__main__":
    main()
