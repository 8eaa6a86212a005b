"""Reading a range from a leader that is told what to answer: all of it, once, in order, or an error."""

from typing import Any

import pytest

from fencepost.client import Cluster
from fencepost.client.offsets import EARLIEST, EARLIEST_LOCAL
from fencepost.client.reading import read_range
from fencepost.errors import ErrorCode, GaveUp, Malformed, NotAuthorized, OffsetsOutOfRange
from fencepost.wire.records import Record, encode_batch
from fencepost.wire.terms import Isolation, TopicPartition
from tests.fakes.frames import HANG_UP, SILENCE
from tests.unit.client.scripted import METADATA, TOPIC, TOPIC_ID, ScriptedBroker

FETCH, LIST_OFFSETS = 1, 2
WHERE = TopicPartition(TOPIC, 0)


def three_records(base: int) -> bytes:
    return bytes(encode_batch([Record(None, b"%d" % (base + index)) for index in range(3)], base_offset=base))


def fetched(code: ErrorCode = ErrorCode.NONE, data: bytes = b"", *, end: int = 12) -> dict[str, Any]:
    """An answer to Fetch by a leader whose log ends at `end`."""
    partition = {"partition_index": 0, "error_code": code, "high_watermark": end, "last_stable_offset": end}
    partition |= {"aborted_transactions": [], "records": data}
    return {"responses": [{"topic": TOPIC, "topic_id": TOPIC_ID, "partitions": [partition]}]}


class Log:
    """Four batches of three records each."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self.batches = [(base, three_records(base)) for base in range(0, 12, 3)]
        self.end = 12
        self.local_start = 0
        self._broker = broker
        broker.answers |= {FETCH: self.fetch, LIST_OFFSETS: self.list_offsets}

    def fetch(self, request: Any) -> dict[str, Any]:
        offset = request.topics[0].partitions[0].fetch_offset
        data = next((data for base, data in self.batches if base + 3 > offset), b"")
        return fetched(data=data, end=self.end)

    def list_offsets(self, request: Any) -> dict[str, Any]:
        known = {EARLIEST: 0, EARLIEST_LOCAL: self.local_start}
        entry = {"partition_index": 0, "offset": known.get(request.topics[0].partitions[0].timestamp, self.end)}
        return {"topics": [{"name": TOPIC, "partitions": [entry]}]}

    @property
    def fetches(self) -> list[int]:
        """The offsets that were fetched from."""
        return [request.topics[0].partitions[0].fetch_offset for request in self._broker.requests(FETCH)]


@pytest.fixture(autouse=True)
def log(broker: ScriptedBroker) -> Log:
    return Log(broker)


def read(cluster: Cluster, start: int = 0, end: int = 12, **options: Any) -> list[int]:
    parts = read_range(cluster, WHERE, start, end, **options)
    return [int(value) for part in parts for value in part.column("value").to_pylist()]


def test_a_range_is_fetched_batch_by_batch(cluster, log):
    assert read(cluster, 1, 11) == list(range(1, 11))
    assert log.fetches == [1, 3, 6, 9]


def test_the_next_fetch_is_sent_before_the_last_answer_is_decoded(cluster, log):
    parts = read_range(cluster, WHERE, 0, 12)
    next(parts)
    next(parts)
    assert len(log.fetches) >= 2
    parts.close()


@pytest.mark.parametrize(
    "trouble",
    [
        HANG_UP,
        SILENCE,
        fetched(ErrorCode.NOT_LEADER_OR_FOLLOWER),
        fetched(ErrorCode.FENCED_LEADER_EPOCH),
        fetched(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ErrorCode.UNKNOWN_TOPIC_ID,
        {"throttle_time_ms": 5},
        fetched(ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
    ids=["hung up", "silent", "moved", "fenced", "unknown", "unknown id", "over quota", "behind"],
)
@pytest.mark.parametrize("at", [0, 2])
def test_a_leader_in_trouble_is_asked_again_and_nothing_is_read_twice(broker, cluster, trouble, at):
    broker.queued[FETCH] = [None] * at + [trouble]
    assert read(cluster) == list(range(12))


def test_a_partition_that_cannot_be_read_says_why(broker, cluster):
    broker.queued[FETCH] = [fetched(ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
    with pytest.raises(NotAuthorized, match=r"the right Read on topic 't' \(TOPIC_AUTHORIZATION_FAILED\)"):
        read(cluster)


def test_a_leader_that_does_not_know_its_end_yet_is_waited_for(broker, cluster, log):
    """A new leader's high watermark may lag: to stop there would skip records for ever."""
    broker.queued[FETCH] = [None, None, fetched(end=6), fetched(end=6)]
    assert read(cluster) == list(range(12))
    assert log.fetches == [0, 3, 6, 6, 6, 9]


@pytest.mark.parametrize("isolation", list(Isolation))
def test_a_range_that_is_never_reached_is_given_up_with_both_ends(impatient, isolation):
    with pytest.raises(GaveUp, match=r"t-0.*up to offset 99, but what can be read ends at 12"):
        read(impatient, 0, 99, isolation=isolation)


def test_a_range_whose_last_offsets_are_gone_ends_where_the_log_goes_on(cluster, log):
    """As after compaction: nothing lies between 12 and an end far beyond."""
    log.end = 1000
    assert read(cluster, 0, 500) == list(range(12))


def test_tiered_storage_that_finds_nothing_in_time_is_no_proof(broker, cluster, impatient, log):
    """Not even when it finds nothing for long: that would skip records."""
    log.local_start = 12
    broker.queued[FETCH] = [None, fetched(), fetched()]
    assert read(cluster) == list(range(12))
    broker.queued[FETCH] = [fetched()] * 100_000
    with pytest.raises(GaveUp, match="nothing was found from offset 0 on"):
        read(impatient)


def test_bytes_without_a_whole_batch_are_an_error_and_no_endless_loop(cluster, log):
    log.batches[0] = (0, log.batches[0][1][:70])
    with pytest.raises(Malformed, match="contain no complete batch"):
        read(cluster)


def test_a_topic_that_was_created_again_is_not_read_on(broker, cluster):
    parts = read_range(cluster, WHERE, 0, 12)
    next(parts)
    broker.answers |= {METADATA: broker.metadata(topic_id=bytes(15) + b"x"), FETCH: ErrorCode.UNKNOWN_TOPIC_ID}
    with pytest.raises(OffsetsOutOfRange, match="deleted and created again"):
        list(parts)


def test_a_fetch_asks_for_about_as_much_as_is_left(broker, cluster):
    read(cluster, 0, 12, fetch_bytes=50_000_000)
    assert max(request.max_bytes for request in broker.requests(FETCH)) < 100_000
