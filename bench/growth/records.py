"""The client alone, without Spark: encoding and sending by record size, to see whether time grows faster than bytes.

Encoding is CPU time of one thread. Sending is the time from the first write to the last acknowledgement in one
transaction, and what it takes the client and the broker. The same bytes for every size.
"""

import argparse
import time
import uuid
from typing import Any

from bench.client import rows as payload
from bench.growth.show import TITLES, Axes, add
from bench.harness.arena import Arena, arena
from bench.harness.brokers import Flush, Server
from bench.harness.process import usage
from bench.harness.report import Report, median
from fencepost.client.cluster import Cluster
from fencepost.client.encode import Encoder
from fencepost.client.shapes import shape_of
from fencepost.client.transaction import SharedTransaction
from fencepost.client.writing import TransactionWriter
from fencepost.wire.terms import TopicPartition

PARTITIONS = 6
#: What the encoder is given at a time, as Arrow batches come from Spark.
CHUNK_BYTES = 8_000_000


def once(server: Server, topic: str, size: int, total_bytes: int) -> dict[str, float]:
    """Seconds per GB of records."""
    chunk = payload(max(1, CHUNK_BYTES // size), size)
    chunks = max(1, total_bytes // (len(chunk) * size))
    gigabytes = chunks * len(chunk) * size / 1e9
    with Cluster(server.client_config("java")) as cluster:
        transaction = SharedTransaction(cluster, f"bench-{uuid.uuid4().hex[:8]}")
        transaction.init()
        encoder = Encoder({topic: shape_of(cluster, topic)})
        before_s = time.thread_time()
        blobs = [encoder.encode(chunk) for _ in range(chunks)]
        encode_s = time.thread_time() - before_s
        broker_s, thread_s, wall_s = usage(server.pid).cpu_s, time.thread_time(), time.perf_counter()
        with TransactionWriter(cluster, transaction.begin()) as writer:
            for blob in (blob for each in blobs for blob in each):
                writer.write(TopicPartition(topic, blob.partition), blob.data)
        found = {
            "encode": encode_s,
            "send": time.perf_counter() - wall_s,
            "send_cpu": time.thread_time() - thread_s,
            "broker_cpu": usage(server.pid).cpu_s - broker_s,
        }
        transaction.commit()
    return {name: seconds / gigabytes for name, seconds in found.items()}


def measure(where: Arena, options: argparse.Namespace, size: int) -> dict[str, list[dict[str, float]]]:
    def run(server: Server) -> dict[str, float]:
        with where.topic(server, PARTITIONS) as topic:
            return once(server, topic, size, options.total_bytes)

    return where.alternate(options.repetitions, run)


def client(options: argparse.Namespace, report: Report) -> None:
    """Encode and send alone, by record size."""
    rows: list[list[Any]] = []
    series: dict[str, list[tuple[float, float]]] = {}
    with arena(options.brokers, Flush.NEVER.settings) as where:
        for size in options.points or [100, 300, 1_000, 3_000, 10_000, 100_000, 1_000_000]:
            for kind, runs in measure(where, options, size).items():
                middles = {name: median([run[name] for run in runs]) for name in runs[0]}
                rows.append([TITLES[kind], f"{size:,}", *middles.values(), 1000 / middles["send"]])
                series.setdefault("encode, CPU", []).append((size, middles["encode"]))
                series.setdefault(f"send to {TITLES[kind]}", []).append((size, middles["send"]))
                report.raw.append({"curve": "client", "broker": kind, "bytes": size, "runs": runs})
    series["encode, CPU"] = sorted(dict(series["encode, CPU"]).items())
    columns = ["broker", "bytes in a record", "encode, CPU s/GB", "send, s/GB", "client CPU s/GB", "broker CPU s/GB"]
    caption = f"Encode and send alone: {options.total_bytes // 1_000_000} MB in a transaction"
    add(report, "client", caption, Axes("bytes in a record", "s/GB"), [*columns, "send, MB/s"], rows, series)
