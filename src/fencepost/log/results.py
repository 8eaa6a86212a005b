"""What a partition's log answers. Tuples, not dataclasses: one is made for every append and every read."""

from typing import NamedTuple

from fencepost.log.slices import FileSlice
from fencepost.log.txn_index import AbortedTransaction


class Appended(NamedTuple):
    base_offset: int
    last_offset: int
    append_time_ms: int  #: -1 where records keep the producer's time
    log_start_offset: int
    duplicate: bool


class Fetched(NamedTuple):
    records: bytes | FileSlice  #: a slice, read as it is sent, when there is much of it
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list[AbortedTransaction] | None  #: None unless read_committed; ascending by first offset


class ProducerState(NamedTuple):
    """What DescribeProducers tells of a producer."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int
