"""Groups: every partition has one owner while members come and go, and a group goes on from its committed offsets."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.clients.facade import EARLIEST, LATEST, Client, Consumer, Message, Spot, refused, settle
from tests.conftest import MakeTopic, unique, wait_until


def spots(topic: str, partitions: int) -> set[Spot]:
    return {Spot(topic, partition) for partition in range(partitions)}


def is_shared(consumers: Sequence[Consumer], wanted: set[Spot]) -> bool:
    """Each partition has exactly one owner, and no consumer has two more than another."""
    owned = [consumer.assignment() for consumer in consumers]
    sizes = [len(each) for each in owned]
    return set().union(*owned) == wanted and sum(sizes) == len(wanted) and max(sizes) - min(sizes) <= 1


class TestGroups:
    @pytest.mark.parametrize("number", range(3))
    def test_partitions_are_shared_as_members_come_and_go(self, client: Client, topic: MakeTopic, number: int) -> None:
        assignor = client.assignors[number]
        name, group = topic(partitions=6), unique(f"group-{assignor}")
        wanted = spots(name, 6)
        consumers = [client.consumer(name, group=group, assignor=assignor)]
        consumers[0].until_assigned(wanted)
        for count in (2, 3):
            consumers.append(client.consumer(name, group=group, assignor=assignor))
            settle(consumers, lambda: is_shared(consumers, wanted), f"{count} members share six partitions")
        client.close_one(consumers.pop(0))
        settle(consumers, lambda: is_shared(consumers, wanted), "the two who stay share six partitions")
        client.close_one(consumers.pop())
        consumers[0].until_assigned(wanted)

    def test_every_record_goes_to_one_member(self, client: Client, topic: MakeTopic) -> None:
        name, group = topic(partitions=4), unique("group")
        consumers = [client.consumer(name, group=group) for _ in range(2)]
        settle(consumers, lambda: is_shared(consumers, spots(name, 4)), "two members share")
        values = [b"%d" % n for n in range(80)]
        client.producer().deliver(*(Message(name, value, partition=n % 4) for n, value in enumerate(values)))
        found: list[Message] = []
        with ThreadPoolExecutor(2) as pool:
            for part in pool.map(lambda consumer: consumer.read(40), consumers):
                found.extend(part)
        assert sorted(m.value for m in found) == sorted(values)

    def test_a_static_member_that_restarts_keeps_its_partitions_without_a_rebalance(
        self, client: Client, topic: MakeTopic
    ) -> None:
        name, group = topic(partitions=4), unique("group")

        def member(instance_id: str) -> Consumer:
            return client.consumer(name, group=group, instance_id=instance_id, session_timeout_ms=20_000)

        consumers = [member("one"), member("two")]
        settle(consumers, lambda: is_shared(consumers, spots(name, 4)), "two members share")
        before, generation = [each.assignment() for each in consumers], generation_of(consumers[1])
        client.close_one(consumers[0])
        consumers[0] = member("one")
        settle(consumers, lambda: consumers[0].assignment() == before[0], "the old partitions are back")
        assert consumers[1].assignment() == before[1]
        assert generation_of(consumers[1]) == generation

    def test_a_member_that_stays_away_loses_its_partitions_after_the_session_timeout(
        self, client: Client, topic: MakeTopic
    ) -> None:
        name, group = topic(partitions=4), unique("group")
        # A static member does not leave the group when it is closed.
        consumers = [
            client.consumer(name, group=group, instance_id=unique("instance"), session_timeout_ms=1000)
            for _ in range(2)
        ]
        settle(consumers, lambda: is_shared(consumers, spots(name, 4)), "two members share")
        client.close_one(consumers.pop())
        settle(consumers, lambda: consumers[0].assignment() == spots(name, 4), "the other has all")

    def test_a_group_goes_on_from_its_committed_offsets(self, client: Client, topic: MakeTopic) -> None:
        name, group = topic(), unique("group")
        producer = client.producer()
        producer.put(name, b"a", b"b", b"c")
        first = client.consumer(name, group=group)
        assert [m.value for m in first.read(3)] == [b"a", b"b", b"c"]
        first.commit()
        client.close_one(first)
        producer.put(name, b"d")
        second = client.consumer(name, group=group)
        assert [m.value for m in second.read(1)] == [b"d"]

    def test_offsets_are_committed_on_the_way_when_the_consumer_is_told_to(
        self, client: Client, topic: MakeTopic
    ) -> None:
        name, group = topic(), unique("group")
        client.producer().put(name, b"a", b"b")
        consumer = client.consumer(name, group=group, auto_commit=True)
        consumer.read(2)
        wait_until(lambda: consumer.poll() or consumer.committed(Spot(name, 0)) == 2, "the offset is committed")

    def test_any_offset_can_be_committed_and_none_is_told_apart(self, client: Client, topic: MakeTopic) -> None:
        name, group = topic(partitions=3), unique("group")
        consumer = client.consumer(group=group)
        consumer.assign(spots(name, 3))
        assert consumer.committed(Spot(name, 0)) is None
        consumer.commit({Spot(name, 0): 7, Spot(name, 1): 0})
        assert [consumer.committed(spot) for spot in sorted(spots(name, 3))] == [7, 0, None]
        consumer.commit({Spot(name, 0): 3})
        assert consumer.committed(Spot(name, 0)) == 3

    def test_a_member_that_was_replaced_cannot_commit(self, client: Client, topic: MakeTopic) -> None:
        name, group = topic(), unique("group")
        client.producer().put(name, b"a")
        # It must not learn of its successor by a heartbeat, and take its place back, before it commits.
        old = client.consumer(name, group=group, instance_id="same", heartbeat_ms=5000)
        old.read(1)
        new = client.consumer(name, group=group, instance_id="same")
        new.until_assigned([Spot(name, 0)])
        with refused(*client.replaced):
            old.commit({Spot(name, 0): 1})
        assert new.committed(Spot(name, 0)) is None


def generation_of(consumer: Consumer) -> int | None:
    """None if the client does not tell."""
    return getattr(consumer.membership(), "generation_id", None)


class TestPositions:
    def test_a_consumer_without_offsets_begins_where_it_is_told(self, client: Client, topic: MakeTopic) -> None:
        name = topic()
        producer = client.producer()
        producer.put(name, b"a")
        early = client.consumer(name, group=unique("group"), reset=EARLIEST)
        late = client.consumer(name, group=unique("group"), reset=LATEST)
        assert [m.value for m in early.read(1)] == [b"a"]
        late.until_assigned([Spot(name, 0)])
        wait_until(lambda: late.poll() or late.position(Spot(name, 0)) == 1, "it stands at the end")
        producer.put(name, b"b")
        assert [m.value for m in late.read(1)] == [b"b"]

    def test_seeking_goes_to_any_offset(self, client: Client, topic: MakeTopic) -> None:
        name = topic()
        client.producer().put(name, *(b"%d" % n for n in range(20)))
        consumer = client.consumer()
        consumer.assign([Spot(name, 0)])
        consumer.read(20)
        for offset in (7, 0, 19):
            consumer.seek(Spot(name, 0), offset)
            assert [m.offset for m in consumer.read(20 - offset)] == list(range(offset, 20))

    def test_a_position_beyond_the_log_is_reset(self, client: Client, topic: MakeTopic) -> None:
        name = topic()
        client.producer().put(name, b"a", b"b")
        consumer = client.consumer(reset=EARLIEST)
        consumer.assign([Spot(name, 0)])
        consumer.read(2)
        consumer.seek(Spot(name, 0), 1000)
        assert [m.value for m in consumer.read(2)] == [b"a", b"b"]

    def test_offsets_for_times_are_those_of_the_first_record_at_or_after(
        self, client: Client, topic: MakeTopic
    ) -> None:
        name, base = topic(partitions=2), int(time.time() * 1000) - 100_000
        producer = client.producer()
        for n in range(10):
            producer.deliver(Message(name, b"%d" % n, partition=0, timestamp=base + 1000 * n))
        consumer, spot, empty = client.consumer(), Spot(name, 0), Spot(name, 1)
        consumer.assign([spot, empty])
        for at, offset in ((0, 0), (base, 0), (base + 1, 1), (base + 4000, 4), (base + 8999, 9), (base + 9000, 9)):
            assert consumer.offsets_for_times({spot: at, empty: at}) == {spot: offset, empty: None}
        assert consumer.offsets_for_times({spot: base + 9001}) == {spot: None}

    def test_offsets_for_times_inside_one_batch_are_exact(self, client: Client, topic: MakeTopic) -> None:
        name, base = topic(), int(time.time() * 1000) - 100_000
        client.producer(compression="gzip").deliver(
            *(Message(name, b"%d" % n, timestamp=base + 10 * n) for n in range(50))
        )
        consumer, spot = client.consumer(), Spot(name, 0)
        consumer.assign([spot])
        assert consumer.offsets_for_times({spot: base + 255}) == {spot: 26}
