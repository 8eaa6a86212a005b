"""Consuming: the same records read again and again by new groups, through Kafka's perf tool and confluent-kafka.

    python -m bench.consume                        both clients, 1 and 6 partitions
    python -m bench.consume --isolation-level read_committed
    python -m bench.consume --security SASL_SSL

The records are written once for each broker (1 KB, acks=all) and lie in the page cache, as those of a reader that keeps
up do. Time counts from the end of the group's rebalance.
"""

import contextlib
from typing import Any

from bench.clients import perf, rdkafka
from bench.clients.outcome import Outcome, Work, observe
from bench.harness import options as shared
from bench.harness.arena import Arena, arena
from bench.harness.brokers import Flush, Server
from bench.harness.report import Report, environment
from bench.produce import COLUMNS, row

CLIENTS = ("perf", "confluent")


def consume(client: str, server: Server, topic: str, options: Any) -> Work:
    if client == "perf":
        return perf.consume(server, topic, options.records, isolation_level=options.isolation_level)
    isolation = ("--isolation-level", options.isolation_level)
    return rdkafka.run(server, "consume", topic, options.records, options.record_size, *isolation)


def measure(where: Arena, options: Any, partitions: int) -> dict[str, dict[str, list[Outcome]]]:
    """By client, by broker."""
    results = {}
    with contextlib.ExitStack() as stack:
        topics = {}
        for server in where.servers:
            topics[server.name] = stack.enter_context(where.topic(server, partitions))
            perf.produce(server, topics[server.name], options.records, options.record_size)

        def once(server: Server) -> Outcome:
            return observe(server, lambda: consume(client, server, topics[server.name], options))

        for client in options.clients:
            results[client] = where.alternate(options.repetitions, once)
    return results


def main() -> None:
    parser = shared.parser(__doc__)
    parser.add_argument("--clients", nargs="+", choices=CLIENTS, default=list(CLIENTS))
    parser.add_argument("--partitions", nargs="+", type=int, default=[1, 6], metavar="N")
    parser.add_argument("--records", type=int, default=1_500_000)
    parser.add_argument("--record-size", type=int, default=1024)
    parser.add_argument("--isolation-level", choices=("read_uncommitted", "read_committed"), default="read_uncommitted")
    shared.add_security(parser)
    options = shared.parse(parser)
    title = f"Consuming, {options.isolation_level}, {options.security or 'PLAINTEXT'}"
    report = Report("consume", title, environment())
    report.notes.append(
        f"{options.records} records of {options.record_size} bytes, median of {options.repetitions} (least–most)"
    )
    rows = []
    with arena(options.brokers, Flush.NEVER.settings, options.security) as where:
        for partitions in options.partitions:
            for client, results in measure(where, options, partitions).items():
                rows.append(row(Flush.NEVER, client, partitions, results))
                labels = {"client": client, "partitions": partitions}
                report.raw += [o.raw(broker=kind, **labels) for kind, each in results.items() for o in each]
    report.table("Throughput and what it costs the broker", COLUMNS, rows)
    report.publish(options)


if __name__ == "__main__":
    main()
