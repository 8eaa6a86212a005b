"""The batches of a `.log` file, one after the other, with what is wrong with them.

A batch whose checksum is wrong is given, and marked. Where no batch begins, or one is cut off, the reading ends with a
`Damage`: nobody can know where the next one begins.
"""

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fencepost.errors import Malformed
from fencepost.wire.batch import HEADER_BYTES, LOG_OVERHEAD, MAGIC, BatchHeader, checksum, read_header
from fencepost.wire.records import Marker, Record, decode_batch, decode_marker


@dataclass(frozen=True, slots=True)
class BatchAt:
    position: int  #: in the file
    header: BatchHeader
    is_valid: bool  #: its checksum
    marker: Marker | None  #: of a control batch
    records: tuple[Record, ...] | None  #: None if they were not asked for, or cannot be read
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Damage:
    position: int
    text: str


def read_batches(path: Path, *, records: bool) -> Iterator[BatchAt | Damage]:
    if path.stat().st_size == 0:
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        data = memoryview(mapped)
        try:
            yield from _batches(data, records)
        finally:
            data.release()


def _batches(data: memoryview, records: bool) -> Iterator[BatchAt | Damage]:
    position = 0
    while position < len(data):
        left = len(data) - position
        if left < HEADER_BYTES:
            yield _tail(data, position)
            return
        header = read_header(data, position)
        if header.magic != MAGIC or header.batch_length < HEADER_BYTES - LOG_OVERHEAD:
            yield _tail(data, position)
            return
        if header.size > left:
            yield Damage(position, f"the batch at offset {header.base_offset} has {header.size} bytes, {left} are left")
            return
        with data[position : position + header.size] as batch:
            yield _batch(position, header, bytes(batch), records)
        position += header.size


def _tail(data: memoryview, position: int) -> Damage:
    if not any(data[position:]):
        return Damage(position, f"{len(data) - position} zeros: space that was reserved, or a file that was not synced")
    if len(data) - position < HEADER_BYTES:
        text = f"the file ends within the header of a batch, {len(data) - position} of {HEADER_BYTES} bytes"
        return Damage(position, text)
    return Damage(position, "no batch of magic 2 begins here")


def _batch(position: int, header: BatchHeader, data: bytes, records: bool) -> BatchAt:
    is_valid = checksum(data) == header.crc
    problem = "" if is_valid else "its checksum is wrong"
    marker, found = None, None
    try:
        marker = decode_marker(data) if header.is_control else None
        found = tuple(decode_batch(data, header)) if records else None
    except Malformed as error:
        problem = problem or str(error)
    return BatchAt(position, header, is_valid, marker, found, problem)
