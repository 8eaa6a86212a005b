"""Producing: records of 1 KB with acks=all, through Kafka's own perf tool and through confluent-kafka.

    python -m bench.produce                        both clients, 1 and 6 partitions, without and with fdatasync
    python -m bench.produce --batch-kb 128 --clients perf --partitions 1 --flush never
    python -m bench.produce --quick                a first impression in a few minutes
    python -m bench.produce --clients perf --partitions 1 --flush never --repetitions 5
    python -m bench.produce --security SASL_SSL --flush never

The perf tool runs with `linger.ms=5` and batches of at most 16 KB, Kafka's defaults, and again with 128 KB.
confluent-kafka has batches of up to 1 MB, its default. Throughput is the client's own figure. CPU seconds are the
broker process's, all threads, per GB of record bytes.
"""

from dataclasses import dataclass
from typing import Any

from bench.clients import perf, rdkafka
from bench.clients.outcome import Outcome, Work, observe
from bench.harness import options as shared
from bench.harness.arena import Arena, arena
from bench.harness.brokers import Flush, Server
from bench.harness.report import Report, environment, median, ratio, spread

CLIENTS = ("perf", "confluent")
#: Of the records, with fdatasync: the perf tool's small batches are an order of magnitude slower then.
FLUSHED_SHARE = {"perf": 0.1, "confluent": 1.0}


@dataclass(frozen=True, slots=True)
class Client:
    name: str
    batch_kb: int = 0  #: the most in a batch; 0 is the client's own default

    def __str__(self) -> str:
        return f"{self.name}, {self.batch_kb} KB batches" if self.batch_kb else self.name


def produce(client: Client, server: Server, topic: str, records: int, record_size: int) -> Work:
    if client.name == "confluent":
        return rdkafka.run(server, "produce", topic, records, record_size)
    properties = {"batch.size": str(1024 * client.batch_kb), "linger.ms": "5"}
    return perf.produce(server, topic, records, record_size, properties=properties)


def clients(options: Any) -> list[Client]:
    sized = [Client("perf", batch_kb) for batch_kb in options.batch_kb]
    return [client for client in (*sized, Client("confluent")) if client.name in options.clients]


def measure(where: Arena, options: Any, client: Client, partitions: int, records: int) -> dict[str, list[Outcome]]:
    def once(server: Server) -> Outcome:
        with where.topic(server, partitions) as topic:
            return observe(server, lambda: produce(client, server, topic, records, options.record_size))

    return where.alternate(options.repetitions, once)


def row(flush: Flush, client: str, partitions: int, results: dict[str, list[Outcome]]) -> list[Any]:
    def middle(kind: str, name: str) -> float | None:
        return median([getattr(outcome, name) for outcome in results[kind]]) if kind in results else None

    def shown(kind: str, name: str) -> str:
        return spread([getattr(outcome, name) for outcome in results[kind]]) if kind in results else ""

    every = [outcome for outcomes in results.values() for outcome in outcomes]
    return [
        flush.value,
        client,
        partitions,
        shown("fencepost", "mb_s"),
        shown("kafka", "mb_s"),
        ratio(middle("fencepost", "mb_s"), middle("kafka", "mb_s")),
        shown("fencepost", "broker_cpu_s_per_gb"),
        shown("kafka", "broker_cpu_s_per_gb"),
        ratio(middle("fencepost", "broker_cpu_s_per_gb"), middle("kafka", "broker_cpu_s_per_gb")),
        median([outcome.client_cores for outcome in every]),
        median([outcome.others_cores for outcome in every]),
    ]


COLUMNS = (
    *("disk", "client", "partitions", "fencepost MB/s", "kafka MB/s", "ratio"),
    *("fencepost CPU s/GB", "kafka CPU s/GB", "ratio ", "client cores", "other cores"),
)


def main() -> None:
    parser = shared.parser(__doc__)
    shared.add_flush(parser, ["never", "always"])
    shared.add_security(parser)
    parser.add_argument("--clients", nargs="+", choices=CLIENTS, default=list(CLIENTS))
    parser.add_argument("--partitions", nargs="+", type=int, default=[1, 6], metavar="N")
    parser.add_argument("--batch-kb", nargs="+", type=int, default=[16, 128], metavar="KB", help="of the perf tool")
    parser.add_argument(
        "--records", type=int, default=1_500_000, help="a run (a tenth of it through the perf tool with fdatasync)"
    )
    parser.add_argument("--record-size", type=int, default=1024)
    options = shared.parse(parser)
    report = Report("produce", f"Producing, acks=all, {options.security or 'PLAINTEXT'}", environment())
    report.notes.append(
        f"{options.records} records of {options.record_size} bytes a run, median of {options.repetitions} (least–most)"
    )
    rows = []
    for name in options.flush:
        flush = Flush[name.upper()]
        with arena(options.brokers, flush.settings, options.security) as where:
            for client in clients(options):
                share = 1.0 if flush is Flush.NEVER else FLUSHED_SHARE[client.name]
                records = round(options.records * share)
                for partitions in options.partitions:
                    results = measure(where, options, client, partitions, records)
                    rows.append(row(flush, str(client), partitions, results))
                    labels = {"flush": flush.value, "client": str(client), "partitions": partitions}
                    report.raw += [o.raw(broker=kind, **labels) for kind, each in results.items() for o in each]
    report.table("Throughput and what it costs the broker", COLUMNS, rows)
    report.publish(options)


if __name__ == "__main__":
    main()
