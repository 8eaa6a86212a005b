"""Transactions by hand, in both protocols: with partitions that the client registers, and without (KIP-890)."""

from collections.abc import Callable

import pytest

from fencepost.client.raw import produce_fields
from tests.clients.raw import Key, Wire, batch, errors, stored
from tests.clients.raw_groups import served_group
from tests.clients.raw_records import fetch, produce
from tests.clients.raw_transactions import Transactional, committed, init, read_committed, settle, settled, stable
from tests.conftest import MakeTopic, unique, wait_until

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

    @pytest.mark.parametrize("version", [FIRST_PROTOCOL_PRODUCE, 12])
    def test_one_request_holds_one_producers_records(
        self, wire: Wire, open_transactional: Callable[..., Transactional], topic: MakeTopic, version: int
    ) -> None:
        """Else who may use one transactional id could open a transaction of another, which nobody would end."""
        mine, other, name = open_transactional(), open_transactional(), topic(partitions=2)
        for partition in range(2):
            assert mine.register(name, partition) == set()
        records = {
            (name, partition): batch(b"x", producer=each.producer, sequence=0, transactional=True)
            for partition, each in enumerate((mine, other))
        }
        answer = wire.call(Key.PRODUCE, version, **produce_fields(records, mine.transactional_id, -1))
        assert errors(answer) == {"INVALID_PRODUCER_ID_MAPPING"}
        mine.end(version=FIRST_PROTOCOL_END)

    def test_a_refused_batch_for_an_internal_topic_does_not_put_it_into_the_transaction(
        self, transactional: Transactional, topic: MakeTopic, is_original: bool
    ) -> None:
        if is_original:
            pytest.skip("Apache Kafka registers it before it refuses the records")
        name = topic()
        assert transactional.produce(name, b"a") == set()
        assert transactional.produce("__transaction_state", b"a") == {"INVALID_TOPIC_EXCEPTION"}
        assert transactional.state() == ("Ongoing", {(name, 0)})

    @pytest.mark.parametrize(("isolation", "offset"), [(0, 1), (1, 0)])
    def test_the_greatest_timestamp_is_one_that_the_reader_may_see(
        self, wire: Wire, transactional: Transactional, topic: MakeTopic, isolation: int, offset: int, is_original: bool
    ) -> None:
        """Apache Kafka has no answer while the record with the greatest timestamp of all is not visible."""
        name = topic(config={"retention.ms": -1})
        produce(wire, name, batch(b"a", timestamp=1000))
        transactional.produce(name, b"b")
        topics = [{"name": name, "partitions": [{"partition_index": 0, "timestamp": -3}]}]
        answer = wire.call(Key.LIST_OFFSETS, 7, replica_id=-1, isolation_level=isolation, topics=topics)
        assert answer.topics[0].partitions[0].offset == (-1 if is_original and isolation else offset)

    def test_offsets_join_the_transaction_by_themselves(
        self, wire: Wire, transactional: Transactional, topic: MakeTopic
    ) -> None:
        name, group = topic(), served_group(wire)
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

    def test_two_partitions_of_one_request_are_both_registered(
        self, wire: Wire, transactional: Transactional, topic: MakeTopic
    ) -> None:
        name = topic(partitions=2)
        records = batch(b"a", producer=transactional.producer, sequence=0, transactional=True)
        fields = produce_fields({(name, 0): records, (name, 1): records}, transactional.transactional_id)
        assert errors(wire.call(Key.PRODUCE, 12, **fields)) == set()
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

    def test_offsets_need_their_group_registered(
        self, wire: Wire, transactional: Transactional, topic: MakeTopic
    ) -> None:
        name, group = topic(), served_group(wire)
        assert transactional.commit_offset(group, name, 7, version=3) == {"INVALID_TXN_STATE"}
        added = wire.call(Key.ADD_OFFSETS_TO_TXN, 3, **transactional.fields, group_id=group)
        assert errors(added) == set()
        assert transactional.commit_offset(group, name, 7, version=3) == set()
        assert committed(wire, group, name, require_stable=True)[1] == {"UNSTABLE_OFFSET_COMMIT"}
        transactional.end(version=FIRST_PROTOCOL_END)
        assert stable(wire, group, name) == 7


class TestFencing:
    def test_a_producer_recovers_with_the_epoch_that_it_has(self, wire: Wire, transactional: Transactional) -> None:
        name, producer = transactional.transactional_id, transactional.producer
        answer = init(wire, name, producer)
        assert (errors(answer), answer.producer_epoch) == (set(), producer[1] + 1)
        # Its answer was lost, and it asks again.
        assert init(wire, name, producer).producer_epoch == producer[1] + 1
        settled(wire, name)
        assert errors(init(wire, name, producer)) == {"PRODUCER_FENCED"}

    def test_an_illegal_request_for_a_producer_id_is_refused(self, wire: Wire) -> None:
        settled(wire, unique("tx"))
        assert errors(init(wire, "")) == {"INVALID_REQUEST"}
        for timeout_ms in (0, 10**9):
            assert errors(init(wire, unique("tx"), timeout_ms=timeout_ms)) == {"INVALID_TRANSACTION_TIMEOUT"}


class TestMarkers:
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
