"""Recovery: a broker with many written partitions is killed, started again, stopped and started once more.

    python -m bench.recovery --partitions 1000

The times are the first acknowledged write to every partition of a new topic, the start after `kill -9` and the start
after a clean stop (both from the command to the first answered request), and the stop. After each start every
acknowledged record must be there.
"""

import time
from dataclasses import dataclass, fields

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from bench.harness import options as shared
from bench.harness.brokers import Server, made, start
from bench.harness.process import usage
from bench.harness.report import Report, environment, median, ratio, spread

TOPIC = "recovery"
WAIT_S = 300


@dataclass(frozen=True, slots=True)
class Run:
    first_writes_s: float
    killed_start_s: float
    killed_start_cpu_s: float
    stop_s: float
    clean_start_s: float


LABELS = {
    "first_writes_s": "first write to each partition, s",
    "killed_start_s": "start after kill -9, s",
    "killed_start_cpu_s": "its CPU, s",
    "stop_s": "stop, s",
    "clean_start_s": "start after a stop, s",
}


def write(server: Server, partitions: int) -> float:
    """One acknowledged record to each partition; returns the seconds that took."""
    producer = Producer({"bootstrap.servers": server.bootstrap, "acks": "all", "linger.ms": 0, "log_level": 0})
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: object) -> None:
        if error is not None:
            failed.append(error)

    before = time.perf_counter()
    for partition in range(partitions):
        producer.produce(TOPIC, b"x" * 100, partition=partition, on_delivery=delivered)
        producer.poll(0)
    if producer.flush(WAIT_S) or failed:
        raise RuntimeError(f"not every record was acknowledged: {failed[:3]}")
    return time.perf_counter() - before


def check(server: Server, partitions: int, records: int) -> None:
    """Fail unless every partition has that many records. A Kafka that has just started refuses some of its
    partitions for a moment (UNKNOWN_LEADER_EPOCH), so refusals are repeated until the deadline."""
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    missing = set(range(partitions))
    deadline = time.monotonic() + WAIT_S
    while missing:
        wanted = {TopicPartition(TOPIC, partition): latest for partition in missing}
        for asked, future in admin.list_offsets(wanted, request_timeout=WAIT_S).items():
            try:
                end = future.result().offset
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
                continue
            if end < records:
                raise RuntimeError(f"partition {asked.partition} has {end} of {records} acknowledged records")
            missing.discard(asked.partition)


def measure(kind: str, partitions: int) -> Run:
    with made(kind) as server:
        server.start()
        admin = AdminClient({"bootstrap.servers": server.bootstrap})
        admin.create_topics([NewTopic(TOPIC, partitions, 1)])[TOPIC].result(WAIT_S)
        first_writes_s = write(server, partitions)
        server.kill()
        killed_start_s = start(server)
        cpu_s = usage(server.pid).cpu_s
        check(server, partitions, 1)
        write(server, partitions)
        before = time.perf_counter()
        server.stop()
        stop_s = time.perf_counter() - before
        clean_start_s = start(server)
        check(server, partitions, 2)
        return Run(first_writes_s, killed_start_s, cpu_s, stop_s, clean_start_s)


def main() -> None:
    parser = shared.parser(__doc__)
    parser.add_argument("--partitions", type=int, default=1000, metavar="N", help="written partitions (default 1000)")
    options = shared.parse(parser)
    report = Report("recovery", f"Recovery with {options.partitions} partitions", environment())
    report.notes.append(f"median of {options.repetitions} (least–most)")
    results: dict[str, list[Run]] = {kind: [] for kind in options.brokers}
    for repetition in range(options.repetitions):
        for kind in options.brokers if repetition % 2 == 0 else options.brokers[::-1]:
            results[kind].append(measure(kind, options.partitions))
    rows = []
    for name in (field.name for field in fields(Run)):
        values = {kind: [getattr(run, name) for run in runs] for kind, runs in results.items()}
        middles = {kind: median(each) for kind, each in values.items()}
        shown = [spread(values[kind]) if kind in values else "" for kind in ("fencepost", "kafka")]
        rows.append([LABELS[name], *shown, ratio(middles.get("fencepost"), middles.get("kafka"))])
        report.raw += [{"measure": name, "broker": kind, "values": each} for kind, each in values.items()]
    report.table("Killed, started, stopped, started", ["measure", "fencepost", "kafka", "ratio"], rows)
    report.publish(options)


if __name__ == "__main__":
    main()
