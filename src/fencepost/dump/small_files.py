"""Indexes, producer snapshots and leader epochs, as entries.

Apache Kafka reserves space for the index of the segment that it writes to: entries end where zeros begin.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fencepost.errors import Malformed
from fencepost.log import snapshot
from fencepost.log.epochs import LeaderEpochs
from fencepost.log.producers import Producers
from fencepost.log.txn_index import AbortedTransaction, TxnIndex
from fencepost.wire.batch import HEADER_BYTES, MAGIC, read_header

_INDEX = struct.Struct(">ii")
_TIME_INDEX = struct.Struct(">qi")


@dataclass(frozen=True, slots=True)
class IndexEntry:
    offset: int
    position: int
    problem: str = ""


@dataclass(frozen=True, slots=True)
class TimeEntry:
    timestamp: int
    offset: int


@dataclass(frozen=True, slots=True)
class ProducerEntry:
    producer_id: int
    epoch: int
    coordinator_epoch: int
    txn_first_offset: int | None  #: of an open transaction
    last_sequence: int
    last_offset: int
    last_timestamp: int


@dataclass(frozen=True, slots=True)
class EpochEntry:
    epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class TopicIdEntry:
    topic_id: str  #: as Kafka writes it: URL-safe base64 without padding


def read_index(path: Path) -> Iterator[IndexEntry]:
    """Each is checked against the `.log` beside it, if there is one."""
    base = base_offset(path)
    log = path.with_suffix(".log")
    data = log.read_bytes() if log.exists() else None
    for relative, position in _entries(path, _INDEX):
        yield IndexEntry(base + relative, position, "" if data is None else _problem(data, base + relative, position))


def _problem(log: bytes, offset: int, position: int) -> str:
    if not 0 <= position <= len(log) - HEADER_BYTES:
        return "its position is beyond the log"
    header = read_header(log, position)
    if header.magic != MAGIC or header.size > len(log) - position:
        return "no batch begins at its position"
    if header.base_offset > offset:
        return f"the batch at its position begins later, at offset {header.base_offset}"
    return ""


def read_time_index(path: Path) -> Iterator[TimeEntry]:
    base = base_offset(path)
    for timestamp, relative in _entries(path, _TIME_INDEX):
        yield TimeEntry(timestamp, base + relative)


def read_txn_index(path: Path) -> Iterator[AbortedTransaction]:
    data = path.read_bytes()
    size = TxnIndex.LAYOUT.size
    rest = len(data) % size
    for _, *fields in TxnIndex.LAYOUT.iter_unpack(data[: len(data) - rest]):
        yield AbortedTransaction(*fields)
    if rest:
        raise Malformed(f"it ends within an entry, after {rest} of {size} bytes")


def read_snapshot(path: Path) -> Iterator[ProducerEntry]:
    producers = Producers()
    snapshot.decode(path.read_bytes(), producers, 0)
    for producer_id, producer in producers.by_id.items():
        yield ProducerEntry(
            producer_id,
            producer.epoch,
            producer.coordinator_epoch,
            producer.txn_first_offset if producer.txn_first_offset >= 0 else None,
            producer.last_sequence,
            producer.last_offset,
            producer.last_timestamp,
        )


def read_epochs(path: Path) -> Iterator[EpochEntry]:
    for epoch, start in LeaderEpochs.decode(path.read_bytes()).entries:
        yield EpochEntry(epoch, start)


def read_topic_id(path: Path) -> Iterator[TopicIdEntry]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise Malformed(f"{path.name} is no text") from None
    found = dict(line.split(": ", 1) for line in lines if ": " in line)
    if "topic_id" not in found:
        raise Malformed(f"{path.name} names no topic id")
    yield TopicIdEntry(found["topic_id"])


def base_offset(path: Path) -> int:
    """Of a segment's file: its name. Raises Malformed."""
    if not path.stem.isdecimal():
        raise Malformed(f"{path.name} is not named after an offset, so its entries cannot be read")
    return int(path.stem)


def _entries(path: Path, layout: struct.Struct) -> Iterator[tuple[int, int]]:
    data = path.read_bytes()
    for first, second in layout.iter_unpack(data[: len(data) - len(data) % layout.size]):
        if first == 0 and second == 0:
            return
        yield first, second
