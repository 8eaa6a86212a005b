"""Reading a range of one partition batch by batch, in plain Python: for tools, which must start fast and need no extra.

Owns what a read_committed reader does not get: markers, and the records of aborted transactions. All batches of the
range are given, each with its content's kind, so that a caller can also see what is missing between them.
"""

import enum
from collections.abc import Iterator
from typing import NamedTuple

from fencepost.client.cluster import Cluster
from fencepost.client.fetching import DEFAULT_FETCH_BYTES, OnDataLoss, RangeReader, aborted_in
from fencepost.errors import Malformed
from fencepost.wire.batch import HEADER_BYTES, LOG_OVERHEAD, MAGIC, BatchHeader, checksum, read_header
from fencepost.wire.fetch import Aborted
from fencepost.wire.records import Record, decode_batch, decode_marker
from fencepost.wire.terms import Isolation, TopicPartition


class Content(enum.Enum):
    RECORDS = enum.auto()  #: for every reader
    ABORTED = enum.auto()  #: records that read_committed readers skip
    CONTROL = enum.auto()  #: a transaction's marker


class ScannedBatch(NamedTuple):
    header: BatchHeader
    data: memoryview  #: the whole batch; valid until the next one is asked for
    content: Content

    def records(self) -> Iterator[Record]:
        """Raises Malformed if the checksum is wrong."""
        if checksum(self.data) != self.header.crc:
            raise Malformed(f"the batch at offset {self.header.base_offset} has a wrong checksum")
        return decode_batch(self.data, self.header)


def scan_batches(
    cluster: Cluster,
    where: TopicPartition,
    start: int,
    end: int,
    *,
    fetch_bytes: int = DEFAULT_FETCH_BYTES,
    isolation: Isolation = Isolation.READ_COMMITTED,
) -> Iterator[ScannedBatch]:
    """The batches that have offsets from `start` to before `end`. Waits for transactions that are open before `end`.

    With READ_UNCOMMITTED it waits for none, and no batch is known to be aborted.
    """
    if start >= end:
        return
    reader = RangeReader(cluster, where, start, end, isolation, OnDataLoss.FAIL, fetch_bytes)
    try:
        while (answer := reader.receive()) is not None:
            found = [
                each
                for each in split(memoryview(answer.records or b""), aborted_in(answer))
                if each.header.last_offset >= reader.position
            ]
            yield from (each for each in found if each.header.base_offset < end)
            reader.advance(answer, found[-1].header.last_offset + 1 if found else reader.position)
    finally:
        reader.close()


def read_records(cluster: Cluster, where: TopicPartition, start: int, end: int) -> Iterator[Record]:
    """The committed records with offsets from `start` to before `end`."""
    for batch in scan_batches(cluster, where, start, end):
        if batch.content is Content.RECORDS:
            yield from (record for record in batch.records() if start <= record.offset < end)


def split(data: memoryview, aborted: list[Aborted]) -> Iterator[ScannedBatch]:
    """The whole batches of an answer to Fetch. Its last one may be cut."""
    waiting = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
    open_ids: set[int] = set()  #: producers whose records are aborted from here to their marker
    position = 0
    while len(data) - position >= HEADER_BYTES:
        header = read_header(data, position)
        if header.magic != MAGIC or header.batch_length < HEADER_BYTES - LOG_OVERHEAD:
            raise Malformed(f"the batch at offset {header.base_offset} has magic {header.magic}; only {MAGIC} is read")
        if header.size > len(data) - position:
            return
        batch = data[position : position + header.size]
        position += header.size
        while waiting and waiting[-1].first_offset <= header.last_offset:
            open_ids.add(waiting.pop().producer_id)
        if header.is_control:
            marker = decode_marker(batch) if header.producer_id in open_ids else None
            if marker is not None and not marker.commit:
                open_ids.discard(header.producer_id)
            yield ScannedBatch(header, batch, Content.CONTROL)
        else:
            is_aborted = header.is_transactional and header.producer_id in open_ids
            yield ScannedBatch(header, batch, Content.ABORTED if is_aborted else Content.RECORDS)
