"""Reading a range of one partition as Arrow record batches, with the next fetch under way while one is decoded.

All of the range is read, or an error is raised (`fetching`). Needs the extra `client`; `scanning` does not.
"""

from collections.abc import Iterator
from typing import Any

from fencepost.client.cluster import Cluster
from fencepost.client.decode import DEFAULT_BATCH_BYTES, Decoder
from fencepost.client.fetching import DEFAULT_FETCH_BYTES, OnDataLoss, RangeReader, aborted_in
from fencepost.wire.terms import Isolation, TopicPartition

__all__ = ["DEFAULT_FETCH_BYTES", "OnDataLoss", "read_range"]


def read_range(
    cluster: Cluster,
    where: TopicPartition,
    start: int,
    end: int,
    *,
    isolation: Isolation = Isolation.READ_COMMITTED,
    include_headers: bool = False,
    on_data_loss: OnDataLoss = OnDataLoss.FAIL,
    batch_bytes: int = DEFAULT_BATCH_BYTES,
    fetch_bytes: int = DEFAULT_FETCH_BYTES,
) -> Iterator[Any]:
    """The records with offsets from `start` to before `end`, as RecordBatches of `decode.SCHEMA`.

    A RecordBatch holds about `batch_bytes`. As much again is in memory at a time, beside the fetched bytes.
    Raises OffsetsOutOfRange if some records are gone, and GaveUp if the partition does not reach `end` in time.
    """
    if start >= end:
        return
    decoder = Decoder(where, end, include_headers=include_headers, batch_bytes=batch_bytes)
    reader = RangeReader(cluster, where, start, end, isolation, on_data_loss, fetch_bytes)
    try:
        while (answer := reader.receive()) is not None:
            scanned = decoder.scan(answer.records or memoryview(b""), reader.position, aborted_in(answer))
            reader.advance(answer, scanned.next_offset)
            yield from decoder.columns(scanned)
    finally:
        reader.close()
