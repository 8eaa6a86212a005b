"""The client's codecs and its reader: record batches made from Arrow and read into it, and a partition read to its end.

    python -m bench.client                       encoding, decoding and reading, 100 B and 1 KB records
    python -m bench.client --brokers kafka       read from Apache Kafka
    python -m bench.client --only codecs

Encoding counts routing by key, sorting by partition, encoding, and with a compression compressing; decoding counts
checksums, unfolding and laying records into Arrow columns. Both are CPU time of one thread, on data that fits the
cache, as it does when rows come in Arrow batches. Reading is wall-clock time of one process that reads one partition,
against confluent-kafka's `consume` in lists of 10,000 whose values are looked at.
"""

import time
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.cimpl import OFFSET_BEGINNING

from bench.harness import options as shared
from bench.harness.arena import Arena, arena
from bench.harness.brokers import Flush, Server
from bench.harness.report import Report, environment, median, ratio, spread
from fencepost.client import Cluster, ProducerIdentity, TransactionProtocol
from fencepost.client.decode import Decoder
from fencepost.client.encode import Blob, Encoder
from fencepost.client.offsets import latest
from fencepost.client.reading import read_range
from fencepost.client.shapes import TopicShape
from fencepost.client.stamp import stamp
from fencepost.client.transaction import SharedTransaction
from fencepost.client.writing import TransactionWriter
from fencepost.wire import terms
from fencepost.wire.compression import Compression

SIZES = (100, 1000)
KEY_BYTES = 8
PARTITIONS = 6
BATCH_BYTES = 4_000_000
IDENTITY = ProducerIdentity("bench", 1, 0, TransactionProtocol.V2)


def rows(count: int, size: int) -> Any:
    """Distinct keys; values of words, so that compressions have something to do."""
    rng = np.random.default_rng(7)
    words = rng.integers(97, 123, 4096, dtype=np.uint8).tobytes()
    starts = rng.integers(0, 4096 - 64, count * (size // 50 + 1))
    text = b"".join(words[start : start + 50] for start in starts.tolist())
    length = size - KEY_BYTES
    keys = np.arange(count, dtype=np.int64).tobytes()
    return pa.record_batch(
        {"key": fixed(keys, count, KEY_BYTES), "value": fixed(text[: count * length], count, length)}
    )


def fixed(data: bytes, count: int, length: int) -> Any:
    starts = np.arange(0, (count + 1) * length, length, dtype=np.int32)
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(starts), pa.py_buffer(data)])


def cpu_s(work: Callable[[], object], repetitions: int) -> list[float]:
    work()
    taken = []
    for _ in range(repetitions):
        before = time.thread_time()
        work()
        taken.append(time.thread_time() - before)
    return taken


def decode(data: bytes) -> int:
    decoder = Decoder(terms.TopicPartition("t", 0), 1 << 62)
    return sum(len(part) for part in decoder.columns(decoder.scan(memoryview(data), 0, ())))


def whole(blob: Blob) -> bytes:
    stamped = stamp(blob.data, IDENTITY, 0)
    return bytes(stamped.header) + bytes(stamped.records)


def measure_codecs(report: Report, repetitions: int) -> None:
    table = []
    for size in SIZES:
        count = BATCH_BYTES // size
        batch = rows(count, size)
        for codec in (Compression.NONE, Compression.LZ4, Compression.ZSTD):
            encoder = Encoder({"t": TopicShape(PARTITIONS)}, compression=codec)
            data = b"".join(whole(blob) for blob in encoder.encode(batch))
            # Bound now: the loop goes on.
            encoding = cpu_s(lambda made=encoder, given=batch: made.encode(given), repetitions)  # type: ignore[misc]
            decoding = cpu_s(lambda given=data: decode(given), repetitions)  # type: ignore[misc]
            speeds = [[count / taken / 1e6 for taken in each] for each in (encoding, decoding)]
            cells = [cell for each in speeds for cell in (spread(each), size * median(each))]
            table.append([size, codec.name.lower(), *cells])
            report.raw.append({"bytes": size, "codec": codec.name, "encode_s": encoding, "decode_s": decoding})
    columns = ["record bytes", "compression", "encode M records/s", "MB/s", "decode M records/s", "MB/s"]
    report.table(f"Codecs, one thread, {PARTITIONS} partitions", columns, table)


def fill(server: Server, topic: str, count: int, size: int) -> None:
    """Through our own writer, in one transaction."""
    with Cluster(server.bootstrap) as there:
        transaction = SharedTransaction(there, f"bench-{uuid.uuid4().hex[:8]}")
        transaction.init()
        encoder = Encoder({topic: TopicShape(1)})
        with TransactionWriter(there, transaction.begin()) as writer:
            for first in range(0, count, BATCH_BYTES // size):
                for blob in encoder.encode(rows(min(BATCH_BYTES // size, count - first), size)):
                    writer.write(terms.TopicPartition(topic, 0), blob.data)
        transaction.commit()


def read_ours(server: Server, topic: str, count: int) -> float:
    before = time.perf_counter()
    with Cluster(server.bootstrap) as there:
        where = terms.TopicPartition(topic, 0)
        end = latest(there, [where], terms.Isolation.READ_UNCOMMITTED)[where]
        got = sum(len(part) for part in read_range(there, where, 0, end))
    if got != count:
        raise RuntimeError(f"read {got} of {count} records")
    return time.perf_counter() - before


def read_confluent(server: Server, topic: str, count: int) -> float:
    before = time.perf_counter()
    settings = {"bootstrap.servers": server.bootstrap, "group.id": "bench", "isolation.level": "read_committed"}
    consumer: Any = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    got = size = 0
    while got < count:
        messages = consumer.consume(10_000, 1.0)
        got += len(messages)
        size += sum(len(message.value()) for message in messages)
    taken = time.perf_counter() - before
    consumer.close()
    return taken


READERS = {"read_range": read_ours, "confluent-kafka": read_confluent}


def measure_reading(where: Arena, report: Report, options: Any) -> None:
    table = []
    for size in SIZES:
        count = options.megabytes * 1_000_000 // size
        for server in where.servers:
            taken: dict[str, list[float]] = {name: [] for name in READERS}
            with where.topic(server, 1) as topic:
                fill(server, topic, count, size)
                for repetition in range(options.repetitions + 1):
                    for name, read in READERS.items():
                        seconds = read(server, topic, count)
                        if repetition:
                            taken[name].append(seconds)
            speeds = {name: [count * size / 1e6 / seconds for seconds in each] for name, each in taken.items()}
            ours, theirs = (median(each) for each in speeds.values())
            millions = count / median(taken["read_range"]) / 1e6
            table.append(
                [server.name, size, *(spread(each) for each in speeds.values()), ratio(ours, theirs), millions]
            )
            report.raw.append({"broker": server.name, "bytes": size, "seconds": taken})
    columns = ["broker", "record bytes", *(f"{name} MB/s" for name in READERS), "ratio", "read_range M records/s"]
    report.table(f"Reading one partition of {options.megabytes} MB, read_committed", columns, table)


def main() -> None:
    parser = shared.parser(__doc__)
    parser.set_defaults(brokers=["fencepost"])
    parser.add_argument("--only", choices=("codecs", "reading"))
    parser.add_argument("--megabytes", type=int, default=200, help="how much is read (default 200)")
    options = parser.parse_args()
    report = Report("client", "The client's codecs and reader", environment())
    if options.only != "reading":
        measure_codecs(report, options.repetitions * 5)
    if options.only != "codecs":
        with arena(options.brokers, Flush.NEVER.settings) as where:
            measure_reading(where, report, options)
    report.publish(options)


if __name__ == "__main__":
    main()
