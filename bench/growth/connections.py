"""Open connections: what many idle ones cost the broker in memory and CPU, and what they do to the one that is used.

The client is a bare socket for each, that has asked once and been answered, so that its own cost is small. Beside them
one connection asks again and again, and new ones are opened (`bench.connections`).
"""

import argparse
import resource
import socket
import time
from typing import Any

from bench.connections import connect
from bench.growth.show import TITLES, Axes, add
from bench.harness.arena import arena
from bench.harness.brokers import Flush, Server
from bench.harness.process import usage
from bench.harness.report import Report, median
from fencepost.client.connection import PLAINTEXT, Channel
from fencepost.wire import messages
from fencepost.wire.frame import API_VERSIONS_KEY

REQUESTS = 300
IDLE_S = 3.0
MEGABYTE = 1024 * 1024
#: For everything that is not one of the many connections.
OTHER_FILES = 1_000


def greeting() -> bytes:
    """ApiVersions as it goes over the wire: size, then header (key, version, correlation id, client id), then body."""
    body = messages.api(API_VERSIONS_KEY).request.encode(0, {})
    header = API_VERSIONS_KEY.to_bytes(2) + bytes(2) + (1).to_bytes(4) + (4).to_bytes(2) + b"idle"
    return (len(header) + len(body)).to_bytes(4) + header + body


def open_one(server: Server) -> socket.socket:
    made = socket.create_connection(server.address, 30)
    made.sendall(greeting())
    size = int.from_bytes(_exactly(made, 4))
    _exactly(made, size)
    return made


def _exactly(made: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        got = made.recv(count - len(found))
        if not got:
            raise RuntimeError("the broker hung up")
        found += got
    return found


def ask(server: Server) -> list[float]:
    """Milliseconds of requests over one connection, one after the other."""
    taken = []
    with Channel(server.address, "bench", 30, 30, PLAINTEXT) as channel:
        for _ in range(REQUESTS):
            before_s = time.perf_counter()
            channel.receive(channel.request(API_VERSIONS_KEY, 0, {}))
            taken.append(1000 * (time.perf_counter() - before_s))
    return sorted(taken)


def measure(server: Server, there: list[socket.socket], count: int) -> dict[str, float]:
    before_s = time.perf_counter()
    opened = count - len(there)
    there += [open_one(server) for _ in range(opened)]
    open_ms = 1000 * (time.perf_counter() - before_s) / max(1, opened)
    cpu_s = usage(server.pid).cpu_s
    time.sleep(IDLE_S)
    used = usage(server.pid)
    asked, new = ask(server), [connect(server) for _ in range(REQUESTS // 3)]
    return {
        "open_ms": open_ms,
        "rss_mb": used.rss_bytes / MEGABYTE,
        "idle_cpu": 100 * (used.cpu_s - cpu_s) / IDLE_S,
        "p50_ms": median(asked),
        "p99_ms": asked[int(0.99 * len(asked))],
        "new_ms": median(new),
    }


def connections(options: argparse.Namespace, report: Report) -> None:
    """10,000 open connections."""
    points = options.points or [1, 100, 1_000, 10_000]
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if most != resource.RLIM_INFINITY and max(points) + OTHER_FILES > most:
        raise SystemExit(f"{max(points):,} connections need more open files than {most:,}: raise `ulimit -Hn`")
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # for us, and for the brokers that we start
    rows: list[list[Any]] = []
    series: dict[str, list[tuple[float, float]]] = {}
    for kind in options.brokers:
        there: list[socket.socket] = []
        with arena([kind], Flush.NEVER.settings) as where:
            server = where.servers[0]
            ask(server)  # warm
            for count in points:
                found = measure(server, there, count)
                rows.append([TITLES[kind], f"{count:,}", *found.values()])
                series.setdefault(TITLES[kind], []).append((count, found["rss_mb"]))
                report.raw.append({"curve": "connections", "broker": kind, "connections": count, **found})
            for each in there:
                each.close()
    columns = ["broker", "open connections", "to open one, ms", "broker MB", "idle CPU %"]
    columns += ["a request p50, ms", "p99, ms", "a new connection, ms"]
    add(report, "connections", "Open connections", Axes("open connections", "MB"), columns, rows, series)
