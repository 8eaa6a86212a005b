"""One transactional id as the coordinator knows it, and its record in `__transaction_state`.

The record is Kafka's own, so `kafka-dump-log --transaction-log-decoder` reads it: key `int16 0, transactional id` and
value `int16 1, TransactionLogValue v1`. We add one tagged field, `last_producer_epoch` (tag 10000, which other readers
skip). Kafka keeps it in memory only. After a crash Kafka takes a producer for a zombie if it repeats an InitProducerId
that was carried out before. With the field in the record, state depends on the log alone.

A new version of the value begins with a new number. A value with an unknown number stops the loading.
"""

import enum
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fencepost.coordinator.txn.states import TransactionState
from fencepost.errors import Malformed
from fencepost.wire import messages
from fencepost.wire.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP
from fencepost.wire.frame import new_tuple
from fencepost.wire.records import Record
from fencepost.wire.terms import TopicPartition

KEY_VERSION = 0
VALUE_VERSION = 1

MAX_EPOCH = 2**15 - 1
#: A client is never given an epoch above this: the one beyond is kept for fencing it.
LAST_CLIENT_EPOCH = MAX_EPOCH - 1

NO_PARTITIONS: frozenset[TopicPartition] = frozenset()

_VERSION = struct.Struct(">h")


class TransactionVersion(enum.IntEnum):
    """The transaction protocol that a client spoke when it last changed its transaction (`transaction.version`)."""

    V0 = 0  #: partitions are registered by the client, the epoch stays
    V1 = 1  #: the same; records of `__transaction_state` are flexible
    V2 = 2  #: KIP-890: Produce registers partitions, every end raises the epoch


@dataclass(frozen=True, slots=True)
class Transaction:
    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    updated_ms: int
    partitions: frozenset[TopicPartition] = NO_PARTITIONS
    start_ms: int = NO_TIMESTAMP
    previous_producer_id: int = NO_PRODUCER_ID  #: the producer id before the last change, mostly the same one
    next_producer_id: int = NO_PRODUCER_ID  #: takes over at completion, when this one's epochs are used up
    last_producer_epoch: int = NO_PRODUCER_EPOCH  #: the epoch that the *same* producer had before, -1 for a new one
    client_version: TransactionVersion = TransactionVersion.V0
    offset: int = -1  #: of the record that says all this; not part of the record

    @property
    def epoch_is_exhausted(self) -> bool:
        return self.producer_epoch >= LAST_CLIENT_EPOCH


def encode(transaction: Transaction) -> Record:
    return Record(encode_key(transaction.transactional_id), _encode_value(transaction))


def tombstone(transactional_id: str) -> Record:
    return Record(encode_key(transactional_id), None)


def encode_key(transactional_id: str) -> bytes:
    schema = messages.data("transaction_log_key")
    return bytes(schema.encode(0, {"transactional_id": transactional_id}, bytearray(_VERSION.pack(KEY_VERSION))))


def decode_key(key: bytes) -> str | None:
    """The transactional id, or None for a kind of record that is not known here."""
    if len(key) < 2 or _VERSION.unpack_from(key)[0] != KEY_VERSION:
        return None
    transactional_id: str = messages.data("transaction_log_key").decode(0, key, 2).transactional_id
    return transactional_id


def decode(transactional_id: str, value: bytes, offset: int) -> Transaction:
    schema = messages.data("transaction_log_value")
    version = _VERSION.unpack_from(value)[0] if len(value) >= 2 else -1
    if version not in schema.versions:
        raise Malformed(f"a value of version {version} for transactional id {transactional_id}: from a newer broker?")
    read = schema.decode(version, value, 2)
    try:
        state = TransactionState(read.transaction_status)
        client_version = TransactionVersion(read.client_transaction_version)
    except ValueError as error:
        raise Malformed(f"transactional id {transactional_id}: {error}") from None
    return Transaction(
        transactional_id=transactional_id,
        producer_id=read.producer_id,
        producer_epoch=read.producer_epoch,
        timeout_ms=read.transaction_timeout_ms,
        state=state,
        updated_ms=read.transaction_last_update_timestamp_ms,
        partitions=_flatten(read.transaction_partitions),
        start_ms=read.transaction_start_timestamp_ms,
        previous_producer_id=read.previous_producer_id,
        next_producer_id=read.next_producer_id,
        last_producer_epoch=read.last_producer_epoch,
        client_version=client_version,
        offset=offset,
    )


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partitions grouped for the wire, in a fixed order."""
    grouped: dict[str, list[int]] = {}
    for topic, partition in partitions:
        grouped.setdefault(topic, []).append(partition)
    return {topic: sorted(grouped[topic]) for topic in sorted(grouped)}


def _encode_value(transaction: Transaction) -> bytes:
    is_empty = transaction.state is TransactionState.EMPTY
    values: Mapping[str, Any] = {
        "producer_id": transaction.producer_id,
        "previous_producer_id": transaction.previous_producer_id,
        "next_producer_id": transaction.next_producer_id,
        "producer_epoch": transaction.producer_epoch,
        "transaction_timeout_ms": transaction.timeout_ms,
        "transaction_status": transaction.state,
        "transaction_partitions": None
        if is_empty
        else [{"topic": topic, "partition_ids": ids} for topic, ids in by_topic(transaction.partitions).items()],
        "transaction_last_update_timestamp_ms": transaction.updated_ms,
        "transaction_start_timestamp_ms": transaction.start_ms,
        "client_transaction_version": transaction.client_version,
        "last_producer_epoch": transaction.last_producer_epoch,
    }
    out = bytearray(_VERSION.pack(VALUE_VERSION))
    return bytes(messages.data("transaction_log_value").encode(VALUE_VERSION, values, out))


def _flatten(topics: Iterable[Any] | None) -> frozenset[TopicPartition]:
    if not topics:
        return NO_PARTITIONS
    return frozenset(
        new_tuple(TopicPartition, (topic.topic, partition)) for topic in topics for partition in topic.partition_ids
    )
