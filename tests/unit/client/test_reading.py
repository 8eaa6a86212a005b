"""Reading a range from a leader that is told what to answer: all of it, once, in order, or an error."""

from typing import Any

import pytest

from fencepost.client import Cluster
from fencepost.client.reading import OnDataLoss, read_range
from fencepost.errors import ErrorCode, GaveUp, Malformed, OffsetsOutOfRange, Refused
from fencepost.wire.records import Record, encode_batch, encode_marker
from fencepost.wire.terms import Isolation, TopicPartition
from tests.fakes.frames import HANG_UP, SILENCE
from tests.unit.client.scripted import METADATA, TOPIC, TOPIC_ID, ScriptedBroker, settings

FETCH, LIST_OFFSETS, DESCRIBE_CONFIGS = 1, 2, 32
WHERE = TopicPartition(TOPIC, 0)


def three_records(base: int) -> bytes:
    return bytes(encode_batch([Record(None, b"%d" % (base + index)) for index in range(3)], base_offset=base))


class Log:
    """Batches of three records each. `troubles` are answered first, one for each fetch."""

    def __init__(self, batches: int = 4) -> None:
        self.batches = [(base, three_records(base)) for base in range(0, 3 * batches, 3)]
        self.end = 3 * batches
        self.start = 0
        self.is_remote = "false"
        self.troubles: list[Any] = []
        self.fetched: list[int] = []

    def __call__(self, api_key: int, request: Any) -> Any:
        if api_key == LIST_OFFSETS:
            time_ms = request.topics[0].partitions[0].timestamp
            entry = {"partition_index": 0, "offset": self.start if time_ms == -2 else self.end}
            return {"topics": [{"name": TOPIC, "partitions": [entry]}]}
        if api_key == DESCRIBE_CONFIGS:
            config = {"name": "remote.storage.enable", "value": self.is_remote}
            return {"results": [{"resource_type": 2, "resource_name": TOPIC, "configs": [config]}]}
        if api_key != FETCH:
            return None
        wanted = request.topics[0].partitions[0]
        self.fetched.append(wanted.fetch_offset)
        trouble = self.troubles.pop(0) if self.troubles else None
        if trouble is HANG_UP or trouble is SILENCE:
            return trouble
        if isinstance(trouble, ErrorCode):
            return self.answer(trouble, b"")
        if isinstance(trouble, dict):
            return {"error_code": 0, "responses": [], **trouble}
        if isinstance(trouble, int):
            return self.answer(ErrorCode.NONE, b"", end=trouble)
        return self.answer(ErrorCode.NONE, self.from_offset(wanted.fetch_offset))

    def from_offset(self, offset: int) -> bytes:
        return next((data for base, data in self.batches if base + 3 > offset), b"")

    def answer(self, code: ErrorCode, data: bytes, end: int | None = None) -> dict[str, Any]:
        end = self.end if end is None else end
        partition = {
            "partition_index": 0, "error_code": code, "high_watermark": end, "last_stable_offset": end,
            "log_start_offset": self.start, "aborted_transactions": [], "records": data,
        }  # fmt: skip
        return {"responses": [{"topic": TOPIC, "topic_id": TOPIC_ID, "partitions": [partition]}]}


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def world(log: Log):
    with ScriptedBroker(log) as broker, Cluster(settings(broker)) as cluster:
        yield cluster, broker


def read(cluster: Cluster, start: int = 0, end: int = 12, **options: Any) -> list[int]:
    parts = read_range(cluster, WHERE, start, end, **options)
    return [int(value) for part in parts for value in part.column("value").to_pylist()]


def test_a_range_is_fetched_batch_by_batch(world, log):
    cluster, _ = world
    assert read(cluster, 1, 11) == list(range(1, 11))
    assert log.fetched == [1, 3, 6, 9]


def test_the_next_fetch_is_sent_before_the_last_answer_is_decoded(world, log):
    cluster, _ = world
    parts = read_range(cluster, WHERE, 0, 12)
    next(parts)
    next(parts)
    assert len(log.fetched) >= 2
    parts.close()


@pytest.mark.parametrize(
    "trouble",
    [
        HANG_UP,
        SILENCE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        {"error_code": ErrorCode.UNKNOWN_TOPIC_ID},
        {"throttle_time_ms": 5},
        ErrorCode.OFFSET_OUT_OF_RANGE,
    ],
    ids=["hung up", "silent", "moved", "fenced", "unknown", "unknown id", "over quota", "behind"],
)
@pytest.mark.parametrize("at", [0, 2])
def test_a_leader_in_trouble_is_asked_again_and_nothing_is_read_twice(world, log, trouble, at):
    cluster, _ = world
    log.troubles = [None] * at + [trouble]
    assert read(cluster) == list(range(12))


def test_a_partition_that_cannot_be_read_says_why(world, log):
    cluster, _ = world
    log.troubles = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    with pytest.raises(Refused, match="TOPIC_AUTHORIZATION_FAILED: reading t-0 at offset 0"):
        read(cluster)


def test_a_leader_that_does_not_know_its_end_yet_is_waited_for(world, log):
    """A new leader's high watermark may lag: to stop there would skip records for ever."""
    cluster, _ = world
    log.troubles = [None, None, 6, 6]
    assert read(cluster) == list(range(12))
    assert log.fetched == [0, 3, 6, 6, 6, 9]


@pytest.mark.parametrize("isolation", list(Isolation))
def test_a_range_that_is_never_reached_is_given_up_with_both_ends(world, log, isolation):
    cluster, _ = world
    with pytest.raises(GaveUp, match=r"t-0.*up to offset 99, but what can be read ends at 12"):
        read(cluster, 0, 99, isolation=isolation)


def test_a_range_whose_last_offsets_are_gone_ends_where_the_log_goes_on(world, log):
    """As after compaction: nothing lies between 12 and an end far beyond."""
    cluster, _ = world
    log.end = 1000
    assert read(cluster, 0, 500) == list(range(12))


@pytest.mark.parametrize("is_remote", ["true", None])
def test_tiered_storage_that_finds_nothing_in_time_is_no_proof(world, log, is_remote):
    """Not even when it finds nothing for long: that would skip records. None stands for a broker that will not say."""
    cluster, broker = world
    log.is_remote = is_remote or "true"
    log.troubles = [None, 12, 12]
    if is_remote is None:
        refused = {"results": [{"resource_type": 2, "resource_name": TOPIC, "error_code": 29}]}
        broker.script = lambda key, request: refused if key == DESCRIBE_CONFIGS else log(key, request)
    assert read(cluster) == list(range(12))
    log.troubles = [12] * 100_000
    with pytest.raises(GaveUp, match="nothing was found from offset 0 on"):
        read(cluster)


def test_a_range_of_markers_alone_is_empty():
    log = Log(0)
    marker = encode_marker(commit=True, coordinator_epoch=0, producer_id=1, producer_epoch=0, timestamp=0)
    log.batches, log.end = [(0, bytes(marker))], 1
    with ScriptedBroker(log) as broker, Cluster(settings(broker)) as cluster:
        assert read(cluster, 0, 1) == []


def test_a_corrupt_answer_is_an_error_that_names_the_place(world, log):
    cluster, _ = world
    base, data = log.batches[2]
    log.batches[2] = (base, data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(Malformed, match="t-0: the batch at offset 6 is corrupt"):
        read(cluster)


def test_bytes_without_a_whole_batch_are_an_error_and_no_endless_loop(world, log):
    cluster, _ = world
    log.batches[0] = (0, log.batches[0][1][:70])
    with pytest.raises(Malformed, match="contain no complete batch"):
        read(cluster)


def test_records_that_are_gone_are_an_error_or_skipped(world, log):
    cluster, _ = world
    log.start, log.troubles = 6, [ErrorCode.OFFSET_OUT_OF_RANGE]
    with pytest.raises(OffsetsOutOfRange, match="records from offset 0 on are gone"):
        read(cluster)
    log.troubles = [ErrorCode.OFFSET_OUT_OF_RANGE]
    assert read(cluster, on_data_loss=OnDataLoss.SKIP) == list(range(6, 12))


def test_a_topic_that_was_made_anew_is_not_read_on(world, log):
    cluster, broker = world
    parts = read_range(cluster, WHERE, 0, 12)
    next(parts)

    def anew(api_key: int, request: Any) -> Any:
        if api_key == METADATA:
            partition = {"partition_index": 0, "leader_id": 7}
            topic = {"name": TOPIC, "topic_id": bytes(15) + b"x", "partitions": [partition]}
            return {"brokers": [{"node_id": 7, "host": "127.0.0.1", "port": broker.port}], "topics": [topic]}
        return {"error_code": ErrorCode.UNKNOWN_TOPIC_ID} if api_key == FETCH else log(api_key, request)

    broker.script = anew
    with pytest.raises(OffsetsOutOfRange, match="deleted and created again"):
        list(parts)


def test_a_fetch_asks_for_about_as_much_as_is_left(world, log):
    cluster, broker = world
    read(cluster, 0, 12, fetch_bytes=50_000_000)
    sizes = [request.max_bytes for key, request in broker.asked if key == FETCH]
    assert max(sizes) < 100_000
