"""Produce and Fetch by hand: every version, every refusal, fetch sessions, and idempotence to the letter."""

import time
from collections.abc import Callable

import pytest

from fencepost.client.raw import produce_fields
from tests.clients.raw import Key, Wire, batch, errors, stored
from tests.clients.raw_records import NOWHERE, ask_fetch, fetch, fetch_fields, id_of, produce
from tests.clients.raw_transactions import init, settled
from tests.conftest import MakeTopic, unique

OpenWire = Callable[[], Wire]


class TestProduce:
    @pytest.mark.parametrize("version", range(3, 14))
    def test_every_version_appends_and_tells_the_offset(self, wire: Wire, topic: MakeTopic, version: int) -> None:
        name = topic()
        topic_id = id_of(wire, name)
        assert produce(wire, name, batch(b"a", b"b"), version, topic_id=topic_id).base_offset == 0
        answer = produce(wire, name, batch(b"c"), version, topic_id=topic_id)
        assert errors(answer) == set()
        assert answer.base_offset == 2
        assert stored(fetch(wire, name).records)[1].values == (b"c",)

    def test_without_acknowledgement_there_is_no_answer(self, wire: Wire, topic: MakeTopic) -> None:
        name = topic()
        data, _ = wire.frame(Key.PRODUCE, 9, produce_fields({(name, 0): batch(b"a")}, acks=0))
        wire.send_bytes(data)
        assert wire.is_open()
        assert stored(fetch(wire, name, max_wait_ms=5000, min_bytes=1).records)[0].values == (b"a",)

    def test_what_is_not_there_is_refused(self, wire: Wire, topic: MakeTopic) -> None:
        name = topic()
        for nobody, partition in [(unique("unknown"), 0), ("", 0), ("a/../b", 0), ("__no", 3), (name, -1), (name, 99)]:
            assert errors(produce(wire, nobody, batch(b"a"), partition=partition)) == {"UNKNOWN_TOPIC_OR_PARTITION"}
            assert errors(ask_fetch(wire, 12, {nobody: {partition: 0}})) == {"UNKNOWN_TOPIC_OR_PARTITION"}
        assert errors(produce(wire, name, batch(b"a"), 13, topic_id=NOWHERE)) == {"UNKNOWN_TOPIC_ID"}

    @pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
    def test_a_compacted_topic_takes_no_record_without_a_key(
        self, wire: Wire, topic: MakeTopic, compression: str
    ) -> None:
        name = topic(config={"cleanup.policy": "compact"})
        assert errors(produce(wire, name, batch(b"a", compression=compression))) == {"INVALID_RECORD"}

    def test_zstd_needs_a_version_that_knows_it(self, wire: Wire, topic: MakeTopic) -> None:
        name = topic()
        records = batch(b"a" * 100, compression="zstd")
        assert errors(produce(wire, name, records, 6)) == {"UNSUPPORTED_COMPRESSION_TYPE"}
        assert errors(produce(wire, name, records, 7)) == set()

    def test_append_time_is_told_to_the_producer(self, wire: Wire, topic: MakeTopic) -> None:
        name = topic(config={"message.timestamp.type": "LogAppendTime"})
        before = time.time()
        answer = produce(wire, name, batch(b"a"))
        assert before - 0.01 <= answer.log_append_time.timestamp() <= time.time() + 0.01


class TestIdempotence:
    @pytest.fixture
    def producer(self, wire: Wire) -> tuple[int, int]:
        return settled(wire, None)

    def test_any_of_the_last_five_batches_is_answered_with_its_offset_and_not_appended(
        self, wire: Wire, topic: MakeTopic, producer: tuple[int, int]
    ) -> None:
        name = topic()
        batches = [batch(b"a%d" % n, b"b%d" % n, producer=producer, sequence=2 * n) for n in range(7)]
        for number, records in enumerate(batches):
            assert produce(wire, name, records).base_offset == 2 * number
        for number in range(2, 7):
            answer = produce(wire, name, batches[number])
            assert (errors(answer), answer.base_offset) == (set(), 2 * number)
        assert errors(produce(wire, name, batches[0])) == {"OUT_OF_ORDER_SEQUENCE_NUMBER"}
        assert fetch(wire, name).high_watermark == 14

    def test_a_gap_is_refused_and_the_right_batch_then_accepted(
        self, wire: Wire, topic: MakeTopic, producer: tuple[int, int]
    ) -> None:
        name = topic()
        assert errors(produce(wire, name, batch(b"a", producer=producer, sequence=0))) == set()
        gap = batch(b"c", producer=producer, sequence=2)
        assert errors(produce(wire, name, gap)) == {"OUT_OF_ORDER_SEQUENCE_NUMBER"}
        assert errors(produce(wire, name, batch(b"b", producer=producer, sequence=1))) == set()
        assert produce(wire, name, gap).base_offset == 2

    def test_an_older_epoch_is_refused_and_a_new_one_begins_at_zero(
        self, wire: Wire, topic: MakeTopic, producer: tuple[int, int]
    ) -> None:
        name, newer = topic(), (producer[0], producer[1] + 1)
        assert errors(produce(wire, name, batch(b"a", producer=producer, sequence=0))) == set()
        skipping = batch(b"b", producer=newer, sequence=1)
        assert errors(produce(wire, name, skipping)) == {"OUT_OF_ORDER_SEQUENCE_NUMBER"}
        assert errors(produce(wire, name, batch(b"b", producer=newer, sequence=0))) == set()
        late = batch(b"c", producer=producer, sequence=1)
        assert errors(produce(wire, name, late)) == {"INVALID_PRODUCER_EPOCH"}

    def test_sequences_wrap_around(self, wire: Wire, topic: MakeTopic, producer: tuple[int, int]) -> None:
        name, last = topic(), 2**31 - 1
        assert errors(produce(wire, name, batch(b"a", producer=producer, sequence=last))) == set()
        assert errors(produce(wire, name, batch(b"b", producer=producer, sequence=0))) == set()
        assert produce(wire, name, batch(b"a", producer=producer, sequence=last)).base_offset == 0

    def test_each_partition_has_sequences_of_its_own(
        self, wire: Wire, topic: MakeTopic, producer: tuple[int, int]
    ) -> None:
        name = topic(partitions=2)
        for partition in range(2):
            records = batch(b"a", producer=producer, sequence=0)
            assert produce(wire, name, records, partition=partition).base_offset == 0

    def test_recovery_gives_the_same_id_with_the_next_epoch(self, wire: Wire, producer: tuple[int, int]) -> None:
        answer = init(wire, None, producer)
        assert errors(answer) == set()
        assert (answer.producer_id, answer.producer_epoch) != producer


class TestFetch:
    @pytest.mark.parametrize("version", range(4, 19))
    def test_every_version_reads_what_is_stored(self, wire: Wire, topic: MakeTopic, version: int) -> None:
        name = topic()
        topic_ids = {name: id_of(wire, name)}
        produce(wire, name, batch(b"a", b"b"))
        produce(wire, name, batch(b"c", compression="gzip"))
        found = fetch(wire, name, 0, version, topic_ids=topic_ids)
        assert [each.values for each in stored(found.records)] == [(b"a", b"b"), (b"c",)]
        assert (found.high_watermark, found.last_stable_offset) == (3, 3)
        # A batch is given whole, also to a reader that asks for its second record.
        found = fetch(wire, name, 1, version, topic_ids=topic_ids)
        assert [each.base_offset for each in stored(found.records)] == [0, 2]
        assert stored(fetch(wire, name, 3, version, topic_ids=topic_ids).records) == []

    def test_what_is_not_there_is_refused(self, wire: Wire, topic: MakeTopic) -> None:
        assert errors(fetch(wire, unique("unknown"))) == {"UNKNOWN_TOPIC_OR_PARTITION"}
        assert errors(fetch(wire, "", version=13)) == {"UNKNOWN_TOPIC_ID"}
        answer = ask_fetch(wire, 12, {topic(): {7: 0}})
        assert errors(answer) == {"UNKNOWN_TOPIC_OR_PARTITION"}

    def test_a_leader_epoch_from_the_future_is_refused(self, wire: Wire, topic: MakeTopic) -> None:
        found = fetch(wire, topic(), partition={"current_leader_epoch": 99})
        assert errors(found) == {"UNKNOWN_LEADER_EPOCH"}

    def test_a_reader_of_another_history_is_told_where_it_parts(self, wire: Wire, topic: MakeTopic) -> None:
        name = topic()
        produce(wire, name, batch(b"a", b"b"))
        found = fetch(wire, name, 9, partition={"last_fetched_epoch": 0})
        assert errors(found) == set()
        assert (found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == (0, 2)

    def test_the_first_batch_comes_whole_however_small_the_limit(self, wire: Wire, topic: MakeTopic) -> None:
        name = topic()
        for letter in (b"a", b"b"):
            produce(wire, name, batch(letter * 1000))
        for limits in ({"max_bytes": 10}, {"partition": {"partition_max_bytes": 10}}):
            assert [each.values for each in stored(fetch(wire, name, **limits).records)] == [(b"a" * 1000,)]

    def test_a_limit_over_all_partitions_is_kept(self, wire: Wire, topic: MakeTopic) -> None:
        name = topic(partitions=3)
        for partition in range(3):
            produce(wire, name, batch(b"x" * 1000), partition=partition)
        answer = ask_fetch(wire, 12, {name: {0: 0, 1: 0, 2: 0}}, max_bytes=1500)
        sizes = [len(each.records or b"") for each in answer.responses[0].partitions]
        assert sizes[0] > 1000
        assert sum(sizes) <= 1500

    def test_a_fetch_waits_for_records_and_no_longer(self, open_wire: OpenWire, wire: Wire, topic: MakeTopic) -> None:
        name = topic()
        waiting = wire.request(Key.FETCH, 12, fetch_fields({name: {0: 0}}, max_wait_ms=15_000, min_bytes=1))
        began = time.monotonic()
        produce(open_wire(), name, batch(b"a"))
        answer = wire.receive(waiting)
        assert time.monotonic() - began < 10
        assert stored(answer.responses[0].partitions[0].records)[0].values == (b"a",)

    def test_a_fetch_of_nothing_ends_after_its_time(self, wire: Wire, topic: MakeTopic) -> None:
        began = time.monotonic()
        found = fetch(wire, topic(), max_wait_ms=300, min_bytes=1)
        assert stored(found.records) == []
        assert 0.29 <= time.monotonic() - began < 5

    def test_a_fetch_waits_until_there_is_as_much_as_it_wants(
        self, open_wire: OpenWire, wire: Wire, topic: MakeTopic
    ) -> None:
        name = topic()
        options = {"max_wait_ms": 15_000, "min_bytes": 2500}
        waiting = wire.request(Key.FETCH, 12, fetch_fields({name: {0: 0}}, **options))
        other = open_wire()
        for _ in range(3):
            produce(other, name, batch(b"x" * 1000))
        answer = wire.receive(waiting)
        assert len(stored(answer.responses[0].partitions[0].records)) == 3

    def test_many_waiting_fetches_are_all_woken(self, open_wire: OpenWire, wire: Wire, topic: MakeTopic) -> None:
        name, wires = topic(), [open_wire() for _ in range(20)]
        fields = fetch_fields({name: {0: 0}}, max_wait_ms=15_000, min_bytes=1)
        waiting = [each.request(Key.FETCH, 12, fields) for each in wires]
        produce(wire, name, batch(b"a"))
        for each, sent in zip(wires, waiting, strict=True):
            assert len(stored(each.receive(sent).responses[0].partitions[0].records)) == 1

    def test_waiting_fetches_of_many_partitions_see_each_record_once(
        self, open_wire: OpenWire, wire: Wire, topic: MakeTopic
    ) -> None:
        name, count, written = topic(partitions=250), 250, {3, 7, 249}
        offsets: dict[int, int] = dict.fromkeys(range(count), 0)
        seen: set[int] = set()
        waiting = wire.request(Key.FETCH, 12, fetch_fields({name: offsets}, max_wait_ms=15_000, min_bytes=1))
        other = open_wire()
        other.call(Key.PRODUCE, 12, **produce_fields({(name, index): batch(b"%d" % index) for index in written}))
        while seen != written:
            told = {each.partition_index: each for each in wire.receive(waiting).responses[0].partitions}
            assert told.keys() == offsets.keys() and errors(list(told.values())) == set()
            new = {index: stored(each.records)[0].values for index, each in told.items() if each.records}
            assert new and new == {index: (b"%d" % index,) for index in new.keys() & written - seen}
            seen |= new.keys()
            offsets |= dict.fromkeys(new, 1)
            assert {told[index].high_watermark for index in seen} == {1}
            waiting = wire.request(Key.FETCH, 12, fetch_fields({name: offsets}, max_wait_ms=15_000, min_bytes=1))
        produce(other, name, batch(b"end"), partition=100)
        (last,) = [each for each in wire.receive(waiting).responses[0].partitions if each.records]
        assert (last.partition_index, stored(last.records)[0].values) == (100, (b"end",))

    def test_a_waiting_fetch_of_many_partitions_ends_when_one_of_them_cannot_be_read_any_more(
        self, wire: Wire, topic: MakeTopic, open_wire: OpenWire
    ) -> None:
        name, gone = topic(partitions=250), topic()
        wanted = {name: dict.fromkeys(range(250), 0), gone: {0: 0}}
        waiting = wire.request(Key.FETCH, 12, fetch_fields(wanted, max_wait_ms=1_000, min_bytes=1))
        open_wire().call(Key.DELETE_TOPICS, 1, topic_names=[gone], timeout_ms=5_000)
        assert "UNKNOWN_TOPIC_OR_PARTITION" in errors(wire.receive(waiting))


class TestFetchSessions:
    def test_a_session_tells_only_what_has_changed(self, wire: Wire, topic: MakeTopic) -> None:
        one, two = topic(), topic()
        first = ask_fetch(wire, 12, {one: {0: 0}, two: {0: 0}}, session=(0, 0))
        session = first.session_id
        assert session != 0
        assert {each.topic for each in first.responses} == {one, two}
        assert ask_fetch(wire, 12, {}, session=(session, 1)).responses == ()
        produce(wire, two, batch(b"a"))
        (changed,) = ask_fetch(wire, 12, {}, session=(session, 2)).responses
        assert changed.topic == two
        assert stored(changed.partitions[0].records)[0].values == (b"a",)
        # The offset is the client's to move on.
        assert ask_fetch(wire, 12, {two: {0: 1}}, session=(session, 3)).responses == ()

    def test_a_session_by_topic_ids_takes_up_and_forgets(self, wire: Wire, topic: MakeTopic) -> None:
        one, two = topic(), topic()
        topic_ids = {name: id_of(wire, name) for name in (one, two)}
        first = ask_fetch(wire, 17, {one: {0: 0}}, topic_ids=topic_ids, session=(0, 0))
        for name in (one, two):
            produce(wire, name, batch(name.encode()))
        second = ask_fetch(
            wire, 17, {two: {0: 0}}, topic_ids=topic_ids, session=(first.session_id, 1), forgotten={one: [0]}
        )
        (told,) = second.responses
        assert told.topic_id.bytes == topic_ids[two]

    def test_an_unknown_session_is_refused(self, wire: Wire) -> None:
        assert errors(ask_fetch(wire, 12, {}, session=(123_456_789, 1))) == {"FETCH_SESSION_ID_NOT_FOUND"}

    def test_a_deleted_topic_in_a_session_is_told(self, wire: Wire, topic: MakeTopic) -> None:
        name = topic()
        first = ask_fetch(wire, 12, {name: {0: 0}}, session=(0, 0))
        wire.call(Key.DELETE_TOPICS, 5, topic_names=[name], timeout_ms=5000)
        for epoch in range(1, 200):
            answer = ask_fetch(wire, 12, {}, session=(first.session_id, epoch), max_wait_ms=20, min_bytes=1)
            if errors(answer):
                break
        assert errors(answer) <= {"UNKNOWN_TOPIC_OR_PARTITION", "NOT_LEADER_OR_FOLLOWER"}
        assert errors(answer)


class TestListOffsets:
    @pytest.mark.parametrize(
        ("timestamp", "version", "offset"), [(-1, 1, 3), (-2, 1, 0), (-3, 7, 1), (-4, 8, 0), (-5, 9, -1)]
    )
    def test_every_special_timestamp_has_its_offset(
        self, wire: Wire, topic: MakeTopic, timestamp: int, version: int, offset: int
    ) -> None:
        name = topic(config={"retention.ms": -1})
        for at in (1000, 3000, 2000):
            produce(wire, name, batch(b"a", timestamp=at))
        answer = wire.call(
            Key.LIST_OFFSETS,
            version,
            replica_id=-1,
            topics=[{"name": name, "partitions": [{"partition_index": 0, "timestamp": timestamp}]}],
        )
        (found,) = answer.topics[0].partitions
        assert (errors(found), found.offset) == (set(), offset)

    def test_the_end_of_an_epoch_is_the_end_of_the_log(self, wire: Wire, topic: MakeTopic) -> None:
        name = topic()
        produce(wire, name, batch(b"a", b"b"))
        partition = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
        answer = wire.call(
            Key.OFFSET_FOR_LEADER_EPOCH, 4, replica_id=-1, topics=[{"topic": name, "partitions": [partition]}]
        )
        (found,) = answer.topics[0].partitions
        assert (found.leader_epoch, found.end_offset) == (0, 2)
