"""Transactions by hand, in both protocols: the one that registers partitions, and that of KIP-890 which need not."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.clients.raw import Key, Wire, batch, errors, stored
from tests.clients.raw_records import fetch, produce
from tests.clients.raw_transactions import (
    Transactional,
    commit_plainly,
    committed,
    read_committed,
    settle,
    settled,
    stable,
)
from tests.conftest import unique, wait_until

MakeTopic = Callable[..., str]


#: The newest version of each request that a client of the first protocol sends.
FIRST_PROTOCOL_PRODUCE, FIRST_PROTOCOL_END = 11, 4


@pytest.fixture
def open_transactional(wire: Wire) -> Callable[..., Transactional]:
    def opened(transactional_id: str | None = None) -> Transactional:
        chosen = transactional_id or unique("tx")
        return Transactional(wire, chosen, settled(wire, chosen))

    return opened


@pytest.fixture
def transactional(open_transactional: Callable[..., Transactional]) -> Transactional:
    return open_transactional()


class TestSecondProtocol:
    def test_producing_registers_the_partition(self, transactional: Transactional, topic: MakeTopic) -> None:
        name = topic(partitions=2)
        assert transactional.produce(name, b"a", partition=1) == set()
        assert transactional.state() == ("Ongoing", {(name, 1)})

    @pytest.mark.parametrize("commit", [True, False])
    def test_ending_hands_out_the_next_epoch(
        self, wire: Wire, transactional: Transactional, topic: MakeTopic, commit: bool
    ) -> None:
        name, before = topic(), transactional.producer
        transactional.produce(name, b"a", b"b")
        answer = transactional.end(commit=commit)
        assert errors(answer) == set()
        assert (answer.producer_id, answer.producer_epoch) == (before[0], before[1] + 1)
        assert settle(wire, name, 3) == ([b"a", b"b"] if commit else [])
        assert transactional.produce(name, b"c") == set()
        transactional.end()
        assert settle(wire, name, 5)[-1:] == [b"c"]

    def test_a_transaction_begins_at_sequence_zero_on_every_partition(
        self, wire: Wire, transactional: Transactional, topic: MakeTopic
    ) -> None:
        name = topic()
        transactional.sequence = 1  # the batch before it did not arrive
        assert transactional.produce(name, b"b") == {"OUT_OF_ORDER_SEQUENCE_NUMBER"}
        transactional.sequence = 0
        assert transactional.produce(name, b"a") == set()
        assert transactional.produce(name, b"b") == set()

    def test_a_late_record_of_the_ended_transaction_is_refused(
        self, wire: Wire, transactional: Transactional, topic: MakeTopic
    ) -> None:
        name = topic()
        transactional.produce(name, b"a")
        late = batch(b"late", producer=transactional.producer, sequence=1, transactional=True)
        transactional.end(commit=False)
        settle(wire, name, 2)
        for version in (9, 12):
            found = produce(wire, name, late, version, transactional_id=transactional.transactional_id)
            assert errors(found) <= {"INVALID_PRODUCER_EPOCH", "INVALID_TXN_STATE", "PRODUCER_FENCED"}
            assert errors(found)
        assert settle(wire, name, 2) == []
        assert fetch(wire, name).high_watermark == 2

    def test_a_repeated_end_is_answered_as_the_first_was(self, transactional: Transactional, topic: MakeTopic) -> None:
        transactional.produce(topic(), b"a")
        first = transactional.end(move=False)
        again = transactional.end(move=False)
        assert errors(again) == set()
        assert (again.producer_id, again.producer_epoch) == (first.producer_id, first.producer_epoch)

    def test_a_late_end_does_not_end_the_next_transaction(
        self, wire: Wire, transactional: Transactional, topic: MakeTopic
    ) -> None:
        name = topic()
        transactional.produce(name, b"a")
        stale = Transactional(wire, transactional.transactional_id, transactional.producer)
        transactional.end()
        transactional.produce(name, b"b")
        for commit in (True, False):
            assert errors(stale.end(commit=commit)) & {"PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_TXN_STATE"}
        assert transactional.state()[0] == "Ongoing"
        assert read_committed(wire, name)[0] == [b"a"]

    def test_a_commit_of_nothing_is_refused_and_an_abort_is_not(self, transactional: Transactional) -> None:
        assert errors(transactional.end(commit=True)) == {"INVALID_TXN_STATE"}
        epoch = transactional.producer[1]
        assert errors(transactional.end(commit=False)) == set()
        assert transactional.producer[1] == epoch + 1

    @pytest.mark.parametrize(("isolation", "offset"), [(0, 1), (1, 0)])
    def test_the_greatest_timestamp_is_one_that_the_reader_may_see(
        self, wire: Wire, transactional: Transactional, topic: MakeTopic, isolation: int, offset: int
    ) -> None:
        name = topic(config={"retention.ms": -1})
        produce(wire, name, batch(b"a", timestamp=1000))
        transactional.produce(name, b"b")
        topics = [{"name": name, "partitions": [{"partition_index": 0, "timestamp": -3}]}]
        answer = wire.call(Key.LIST_OFFSETS, 7, replica_id=-1, isolation_level=isolation, topics=topics)
        assert answer.topics[0].partitions[0].offset == offset

    def test_offsets_join_the_transaction_by_themselves(
        self, wire: Wire, transactional: Transactional, topic: MakeTopic
    ) -> None:
        name, group = topic(), unique("group")
        assert transactional.commit_offset(group, name, 7) == set()
        state, partitions = transactional.state()
        assert state == "Ongoing"
        assert {each[0] for each in partitions} == {"__consumer_offsets"}
        assert committed(wire, group, name) == (-1, set())
        assert committed(wire, group, name, require_stable=True)[1] == {"UNSTABLE_OFFSET_COMMIT"}
        transactional.end()
        assert stable(wire, group, name) == 7

    def test_a_group_without_a_name_has_no_part_in_a_transaction(
        self, transactional: Transactional, topic: MakeTopic
    ) -> None:
        assert transactional.commit_offset("", topic(), 7) == {"INVALID_GROUP_ID"}
        assert errors(transactional.end(commit=True)) == {"INVALID_TXN_STATE"}, "nothing has been begun"

    def test_aborted_offsets_are_as_if_never_sent(
        self, wire: Wire, transactional: Transactional, topic: MakeTopic
    ) -> None:
        name, group = topic(), unique("group")
        commit_plainly(wire, group, name, 3)
        transactional.commit_offset(group, name, 7)
        assert committed(wire, group, name) == (3, set())
        transactional.end(commit=False)
        assert stable(wire, group, name) == 3

    def test_two_partitions_of_one_request_are_both_registered(
        self, wire: Wire, transactional: Transactional, topic: MakeTopic
    ) -> None:
        name = topic(partitions=2)
        records = batch(b"a", producer=transactional.producer, sequence=0, transactional=True)
        answer = wire.call(
            Key.PRODUCE,
            12,
            transactional_id=transactional.transactional_id,
            acks=-1,
            timeout_ms=5000,
            topic_data=[{"name": name, "partition_data": [{"index": n, "records": records} for n in range(2)]}],
        )
        assert errors(answer) == set()
        assert transactional.state()[1] == {(name, 0), (name, 1)}

    def test_transactional_records_need_a_transactional_id(
        self, wire: Wire, transactional: Transactional, topic: MakeTopic
    ) -> None:
        records = batch(b"a", producer=transactional.producer, sequence=0, transactional=True)
        found = produce(wire, topic(), records, 12, transactional_id=None)
        assert errors(found) == {"TRANSACTIONAL_ID_AUTHORIZATION_FAILED"}

    def test_a_duplicate_in_a_transaction_is_not_appended(
        self, wire: Wire, transactional: Transactional, topic: MakeTopic
    ) -> None:
        name = topic()
        records = batch(b"a", producer=transactional.producer, sequence=0, transactional=True)
        for _ in range(3):
            found = produce(wire, name, records, 12, transactional_id=transactional.transactional_id)
            assert (errors(found), found.base_offset) == (set(), 0)
        transactional.end()
        assert settle(wire, name, 2) == [b"a"]


class TestFirstProtocol:
    def test_a_registered_partition_is_written_and_committed_and_the_epoch_stays(
        self, wire: Wire, transactional: Transactional, topic: MakeTopic
    ) -> None:
        name, before = topic(), transactional.producer
        for turn in range(2):
            assert transactional.register(name) == set()
            assert transactional.produce(name, b"%d" % turn, version=FIRST_PROTOCOL_PRODUCE) == set()
            assert errors(transactional.end(version=FIRST_PROTOCOL_END)) == set()
            assert settle(wire, name, 2 * turn + 2) == [b"0", b"1"][: turn + 1]
            wait_until(lambda: transactional.state()[0] == "CompleteCommit", "it is complete")
        assert transactional.producer == before

    @pytest.mark.parametrize(("version", "code"), [(9, "INVALID_TXN_STATE"), (11, "TRANSACTION_ABORTABLE")])
    def test_a_record_for_an_unregistered_partition_is_refused_and_no_transaction_hangs(
        self, wire: Wire, transactional: Transactional, topic: MakeTopic, version: int, code: str
    ) -> None:
        name = topic()
        assert transactional.produce(name, b"a", version=version) == {code}
        assert fetch(wire, name).high_watermark == 0
        produce(wire, name, batch(b"behind"))
        assert read_committed(wire, name) == ([b"behind"], 1)

    def test_a_late_record_after_the_abort_is_refused(
        self, wire: Wire, transactional: Transactional, topic: MakeTopic
    ) -> None:
        name = topic()
        transactional.register(name)
        transactional.produce(name, b"a", version=FIRST_PROTOCOL_PRODUCE)
        transactional.end(commit=False, version=FIRST_PROTOCOL_END)
        settle(wire, name, 2)
        assert transactional.produce(name, b"late", version=FIRST_PROTOCOL_PRODUCE) == {"TRANSACTION_ABORTABLE"}
        assert read_committed(wire, name) == ([], 2)

    def test_offsets_need_their_group_registered(
        self, wire: Wire, transactional: Transactional, topic: MakeTopic
    ) -> None:
        name, group = topic(), unique("group")
        assert transactional.commit_offset(group, name, 7, version=3) == {"INVALID_TXN_STATE"}
        added = wire.call(Key.ADD_OFFSETS_TO_TXN, 3, **transactional.fields, group_id=group)
        assert errors(added) == set()
        assert transactional.commit_offset(group, name, 7, version=3) == set()
        assert committed(wire, group, name, require_stable=True)[1] == {"UNSTABLE_OFFSET_COMMIT"}
        transactional.end(version=FIRST_PROTOCOL_END)
        assert stable(wire, group, name) == 7

    def test_a_partition_that_is_not_there_is_not_registered(self, transactional: Transactional) -> None:
        assert transactional.register(unique("unknown")) == {"UNKNOWN_TOPIC_OR_PARTITION"}


class TestVerification:
    @pytest.mark.parametrize("version", [4, 5])
    def test_brokers_ask_whether_a_partition_belongs_to_the_transaction(
        self, transactional: Transactional, topic: MakeTopic, version: int
    ) -> None:
        name = topic(partitions=2)
        transactional.register(name, 0)
        assert transactional.verify(name, 0, version) == set()
        assert transactional.verify(name, 1, version) == {"TRANSACTION_ABORTABLE"}
        assert transactional.state()[1] == {(name, 0)}

    def test_it_is_told_which_partitions_are_not_there(self, transactional: Transactional) -> None:
        assert transactional.verify(unique("unknown")) == {"UNKNOWN_TOPIC_OR_PARTITION"}

    def test_the_batched_form_registers_as_well(self, transactional: Transactional, topic: MakeTopic) -> None:
        name = topic()
        assert transactional.verify(name, verify_only=False) == set()
        assert transactional.state() == ("Ongoing", {(name, 0)})

    def test_a_producer_that_the_coordinator_does_not_know_is_refused(
        self, wire: Wire, transactional: Transactional, topic: MakeTopic
    ) -> None:
        name, (producer_id, epoch) = topic(), transactional.producer
        other = Transactional(wire, transactional.transactional_id, (producer_id + 1000, epoch))
        assert other.register(name) == {"INVALID_PRODUCER_ID_MAPPING"}
        newer = Transactional(wire, transactional.transactional_id, (producer_id, epoch + 1))
        assert newer.register(name) == {"PRODUCER_FENCED"}
        nobody = Transactional(wire, unique("tx"), (producer_id, epoch))
        assert nobody.register(name) == {"INVALID_PRODUCER_ID_MAPPING"}


class TestFencing:
    def test_a_successor_aborts_what_its_predecessor_left_open(
        self,
        wire: Wire,
        transactional: Transactional,
        open_transactional: Callable[..., Transactional],
        topic: MakeTopic,
    ) -> None:
        name = topic()
        transactional.produce(name, b"zombie")
        successor = open_transactional(transactional.transactional_id)
        assert successor.producer[0] == transactional.producer[0]
        assert successor.producer[1] > transactional.producer[1]
        assert settle(wire, name, 2) == []
        assert transactional.produce(name, b"again") & {"INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"}
        assert errors(transactional.end()) == {"PRODUCER_FENCED"}
        assert transactional.commit_offset(unique("group"), name, 1) & {"INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"}
        assert successor.produce(name, b"successor") == set()
        successor.end()
        assert settle(wire, name, 4) == [b"successor"]

    def test_old_clients_are_told_of_fencing_in_words_that_they_know(
        self,
        wire: Wire,
        transactional: Transactional,
        open_transactional: Callable[..., Transactional],
    ) -> None:
        open_transactional(transactional.transactional_id)
        assert errors(transactional.end(version=1)) == {"INVALID_PRODUCER_EPOCH"}
        assert errors(transactional.end(version=3)) == {"PRODUCER_FENCED"}

    def test_a_producer_recovers_with_the_epoch_that_it_has(self, wire: Wire, transactional: Transactional) -> None:
        def recover(producer: tuple[int, int]) -> Any:
            return wire.call(
                Key.INIT_PRODUCER_ID,
                4,
                transactional_id=transactional.transactional_id,
                transaction_timeout_ms=60_000,
                producer_id=producer[0],
                producer_epoch=producer[1],
            )

        answer = recover(transactional.producer)
        assert (errors(answer), answer.producer_epoch) == (set(), transactional.producer[1] + 1)
        # Its answer was lost, and it asks again.
        assert recover(transactional.producer).producer_epoch == transactional.producer[1] + 1
        settled(wire, transactional.transactional_id)
        assert errors(recover(transactional.producer)) == {"PRODUCER_FENCED"}

    def test_an_illegal_request_for_a_producer_id_is_refused(self, wire: Wire) -> None:
        settled(wire, unique("tx"))
        for fields, code in (
            ({"transactional_id": "", "transaction_timeout_ms": 1000}, "INVALID_REQUEST"),
            ({"transactional_id": unique("tx"), "transaction_timeout_ms": 0}, "INVALID_TRANSACTION_TIMEOUT"),
            ({"transactional_id": unique("tx"), "transaction_timeout_ms": 10**9}, "INVALID_TRANSACTION_TIMEOUT"),
        ):
            assert errors(wire.call(Key.INIT_PRODUCER_ID, 4, **fields)) == {code}


class TestMarkers:
    def test_an_administrator_ends_a_transaction_on_one_partition(
        self, wire: Wire, transactional: Transactional, topic: MakeTopic
    ) -> None:
        name = topic()
        transactional.produce(name, b"hanging")
        produce(wire, name, batch(b"behind"))
        assert read_committed(wire, name) == ([], 0)
        answer = wire.call(
            Key.WRITE_TXN_MARKERS,
            1,
            markers=[
                {
                    "producer_id": transactional.producer[0],
                    "producer_epoch": transactional.producer[1],
                    "transaction_result": False,
                    "topics": [{"name": name, "partition_indexes": [0]}],
                    "coordinator_epoch": 0,
                }
            ],
        )
        assert errors(answer) == set()
        assert read_committed(wire, name) == ([b"behind"], 3)

    def test_aborted_ranges_are_told_for_the_range_that_is_fetched(
        self, wire: Wire, open_transactional: Callable[..., Transactional], topic: MakeTopic
    ) -> None:
        name = topic()
        one, two = open_transactional(), open_transactional()
        one.produce(name, b"one")  # 0
        two.produce(name, b"two")  # 1
        one.end(commit=False)  # 2
        wait_until(lambda: read_committed(wire, name)[1] == 1, "the first is aborted")
        two.end(commit=True)  # 3
        settle(wire, name, 4)
        one.produce(name, b"three")  # 4
        one.end(commit=False)  # 5
        settle(wire, name, 6)
        first, *_ = stored(fetch(wire, name).records)
        for offset, ranges in ((0, [0, 4]), (1, [0, 4]), (3, [4]), (4, [4])):
            found = fetch(wire, name, offset, isolation_level=1)
            assert sorted(each.first_offset for each in found.aborted_transactions) == ranges, offset
            assert {each.producer_id for each in found.aborted_transactions} == {first.producer[0]}
        assert fetch(wire, name, 0, isolation_level=0).aborted_transactions is None

    def test_the_producers_of_a_partition_tell_their_open_transaction(
        self, wire: Wire, transactional: Transactional, topic: MakeTopic
    ) -> None:
        name = topic()
        transactional.produce(name, b"a", b"b")

        def open_at() -> int:
            answer = wire.call(Key.DESCRIBE_PRODUCERS, 0, topics=[{"name": name, "partition_indexes": [0]}])
            (found,) = answer.topics[0].partitions[0].active_producers
            return found.current_txn_start_offset

        assert open_at() == 0
        transactional.end()
        settle(wire, name, 3)
        assert open_at() == -1
