"""Whether a letter can be written again, and where: by the letter and what is known of the topics. Pure.

Invariant: what is written is the record as it was. So a letter that was cut is never written, and a partition that the
query chose is kept.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from fencepost.client.partitioner import partition_for
from fencepost.client.shapes import DEFAULT_MAX_MESSAGE_BYTES, TopicShape
from fencepost.dead_letters import letter as names
from fencepost.dead_letters.letter import Letter
from fencepost.wire.compression import Compression
from fencepost.wire.records import Record, encode_batch
from fencepost.wire.terms import TopicPartition

#: Record batches are filled up to this size.
BATCH_BYTES = 512 << 10


class Obstacle(enum.StrEnum):
    """Why a letter cannot be written again, for people."""

    NOT_OURS = "it is no dead letter of fencepost: it has no header fencepost.error.reason"
    CUT = "only a part of the record was kept"
    NO_TOPIC = "its topic was null: name one with --to"
    UNKNOWN_TOPIC = "its topic does not exist: create it, or name another with --to"
    UNKNOWN_PARTITION = "its topic does not have the partition that it asks for: name another topic with --to"
    NO_KEY = "it has no key, and its topic is compacted: name another with --to"
    TIMESTAMP = "its timestamp is too far from now for its topic: name another with --to"
    TOO_LARGE = "it is larger than max.message.bytes of its topic: raise that, or name another with --to"


@dataclass(frozen=True, slots=True)
class Ready:
    """A letter as a record again."""

    letter: Letter
    where: TopicPartition
    record: Record
    compression: Compression  #: it must have to be small enough
    size: int  #: of a batch of its own
    batch_bytes_max: int  #: of a batch with others


def judge(letter: Letter, to: str | None, shapes: Mapping[str, TopicShape], now_ms: int) -> Ready | Obstacle:
    """`shapes` has the topics that exist. `to` is for all letters, instead of their own topics."""
    if not letter.reason:
        return Obstacle.NOT_OURS
    if letter.is_cut:
        return Obstacle.CUT
    topic = to if to is not None else letter.topic
    if topic is None:
        return Obstacle.NO_TOPIC
    shape = shapes.get(topic)
    if shape is None:
        return Obstacle.UNKNOWN_TOPIC
    partition = _partition(letter, shape.partitions, is_own=to is None)
    if partition is None:
        return Obstacle.UNKNOWN_PARTITION
    if shape.needs_key and letter.key is None:
        return Obstacle.NO_KEY
    own_ms = letter.number(names.TIMESTAMP)
    if own_ms is not None and not now_ms - shape.past_max_ms <= own_ms <= now_ms + shape.future_max_ms:
        return Obstacle.TIMESTAMP
    record = Record(letter.key, letter.value, now_ms if own_ms is None else own_ms, 0, letter.headers)
    for compression in (Compression.NONE, Compression.GZIP):
        size = len(encode_batch([record], compression=compression))
        if shape.max_message_bytes is None or size <= shape.max_message_bytes:
            limit = min(BATCH_BYTES, shape.max_message_bytes or DEFAULT_MAX_MESSAGE_BYTES)
            return Ready(letter, TopicPartition(topic, partition), record, compression, size, limit)
    return Obstacle.TOO_LARGE


def _partition(letter: Letter, count: int, *, is_own: bool) -> int | None:
    """The one that the query asked for, in the letter's own topic; else as Kafka's partitioner chooses."""
    asked = letter.number(names.PARTITION) if is_own else None
    if asked is not None:
        return asked if 0 <= asked < count else None
    return letter.offset % count if letter.key is None else partition_for(letter.key, count)
