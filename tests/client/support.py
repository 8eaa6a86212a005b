"""What the tests of the client share: rows in, rows out."""

from collections.abc import Iterable, Sequence

import pyarrow as pa  # type: ignore[import-untyped]

from fencepost.client import Cluster, ProducerIdentity
from fencepost.client.encode import Encoder
from fencepost.client.offsets import earliest, latest, partitions_of
from fencepost.client.reading import read_range
from fencepost.client.shapes import TopicShape
from fencepost.client.transaction import SharedTransaction
from fencepost.client.writing import TransactionWriter
from fencepost.wire.compression import Compression
from fencepost.wire.terms import Isolation, TopicPartition
from tests.conftest import unique, wait_until


def rows(items: Sequence[str], partition: int | None = None) -> pa.RecordBatch:
    columns = {"key": pa.array(items), "value": pa.array(items)}
    if partition is not None:
        columns["partition"] = pa.array([partition] * len(items), pa.int32())
    return pa.record_batch(columns)


def started(cluster: Cluster) -> SharedTransaction:
    """A transactional id of its own, taken over."""
    transaction = SharedTransaction(cluster, unique("id"))
    transaction.init()
    return transaction


def write(
    cluster: Cluster,
    identity: ProducerIdentity,
    topic: str,
    items: Sequence[str],
    partition: int | None = None,
    *,
    compression: Compression = Compression.NONE,
    target_bytes: int = 16 << 10,
) -> None:
    shape = TopicShape(len(cluster.topic(topic).partitions))
    blobs = Encoder({topic: shape}, compression=compression, target_bytes=target_bytes).encode(rows(items, partition))
    with TransactionWriter(cluster, identity) as writer:
        for blob in blobs:
            writer.write(TopicPartition(topic, blob.partition), blob.data)


def values(parts: Iterable[pa.RecordBatch]) -> list[str]:
    return [value.decode() for part in parts for value in part.column("value").to_pylist()]


def read(
    cluster: Cluster, topic: str, partition: int = 0, isolation: Isolation = Isolation.READ_COMMITTED
) -> list[str]:
    """All values of a partition that a reader can see now."""
    where = TopicPartition(topic, partition)
    start, end = earliest(cluster, [where])[where], latest(cluster, [where], isolation)[where]
    return values(read_range(cluster, where, start, end, isolation=isolation))


def settle(cluster: Cluster, topic: str) -> None:
    """Wait until every transaction that wrote here has ended visibly: Kafka answers a commit before that."""
    partitions = partitions_of(cluster, [topic])
    wait_until(
        lambda: latest(cluster, partitions) == latest(cluster, partitions, Isolation.READ_UNCOMMITTED),
        f"the transactions in {topic} have ended",
    )


def read_settled(cluster: Cluster, topic: str, partition: int = 0) -> list[str]:
    settle(cluster, topic)
    return read(cluster, topic, partition)


def read_all(cluster: Cluster, topic: str) -> list[str]:
    """The values of all partitions, sorted, once every transaction has ended."""
    settle(cluster, topic)
    return sorted(value for _, index in partitions_of(cluster, [topic]) for value in read(cluster, topic, index))
