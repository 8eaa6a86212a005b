"""Connections: how long a new one takes until it is logged in and answered, and what that costs the broker.

    python -m bench.connections                    SASL_SSL (TLS 1.3, SCRAM-SHA-512), SASL_PLAINTEXT and SSL
    python -m bench.connections --protocols SASL_PLAINTEXT --connections 500

The client is ours for both brokers, one connection after the other. Its own share is the same for both: SCRAM makes it
hash the password 4,096 times. Then a few threads open connections at the same time.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bench.harness import options as shared
from bench.harness.arena import arena
from bench.harness.brokers import Server
from bench.harness.process import usage
from bench.harness.report import Report, environment, median, ratio, spread
from fencepost.lab.kit.servers import ServerFailed, answers
from fencepost.security.names import Protocol

THREADS = 4


def connect(server: Server) -> float:
    """Milliseconds until the answer to the first request."""
    before_s = time.perf_counter()
    if not answers(server, timeout_s=30):
        raise ServerFailed(f"{server.name} does not answer")
    return (time.perf_counter() - before_s) * 1000


def measure(server: Server, connections: int) -> dict[str, float]:
    cpu_s = usage(server.pid).cpu_s
    alone = [connect(server) for _ in range(connections)]
    cpu_s = usage(server.pid).cpu_s - cpu_s
    before_s = time.perf_counter()
    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(lambda _: connect(server), range(connections)))
    per_second = connections / (time.perf_counter() - before_s)
    return {"ms": median(alone), "cpu_ms": cpu_s / connections * 1000, "per_second": per_second}


def row(protocol: str, results: dict[str, list[dict[str, float]]], measured: str, label: str) -> list[Any]:
    values = {kind: [each[measured] for each in found] for kind, found in results.items()}
    shown = [spread(values[kind]) if kind in values else "" for kind in ("fencepost", "kafka")]
    middles = {kind: median(each) for kind, each in values.items()}
    return [protocol, label, *shown, ratio(middles.get("fencepost"), middles.get("kafka"))]


def main() -> None:
    parser = shared.parser(__doc__)
    parser.add_argument(
        "--protocols", nargs="+", type=Protocol, choices=shared.SECURED, default=shared.SECURED, metavar="PROTOCOL"
    )
    parser.add_argument("--connections", type=int, default=300, help="in a run, one after the other and again at once")
    options = shared.parse(parser)
    report = Report("connections", "New connections", environment())
    report.notes.append(f"{options.connections} connections a run, median of {options.repetitions} (least–most)")
    rows = []
    for protocol in options.protocols:
        with arena(options.brokers, security=protocol) as where:
            results = where.alternate(options.repetitions, lambda server: measure(server, options.connections))
        report.raw += [{"protocol": protocol, "broker": kind, "runs": found} for kind, found in results.items()]
        rows += [
            row(protocol, results, "ms", "until answered, ms"),
            row(protocol, results, "cpu_ms", "broker CPU, ms"),
            row(protocol, results, "per_second", f"a second, {THREADS} at a time"),
        ]
    report.table("A new connection", ["protocol", "measure", "fencepost", "kafka", "ratio"], rows)
    report.publish(options)


if __name__ == "__main__":
    main()
