"""Transactions: all or nothing for the reader who asks for committed records, and no say for a zombie."""

import random
import threading

import pytest

from tests.clients.facade import (
    COMMITTED,
    FENCED,
    UNCOMMITTED,
    Client,
    Consumer,
    Message,
    Producer,
    Refused,
    Spot,
    refused,
    settle,
)
from tests.conftest import MakeTopic, unique, wait_until

SEED = 20240613


class TestTransactions:
    def test_a_commit_shows_its_records_to_every_reader(self, client: Client, topic: MakeTopic) -> None:
        name = topic()
        client.producer(transactional_id=unique("tx")).transact(name, b"a", b"b")
        assert client.values(name, isolation=COMMITTED) == [b"a", b"b"]
        assert client.values(name, isolation=UNCOMMITTED) == [b"a", b"b"]

    def test_an_abort_hides_its_records_from_a_reader_of_committed_ones(self, client: Client, topic: MakeTopic) -> None:
        name = topic()
        producer = client.producer(transactional_id=unique("tx"))
        producer.transact(name, b"a", b"b", commit=False)
        producer.transact(name, b"c")
        assert client.values(name, isolation=COMMITTED) == [b"c"]
        assert client.values(name, isolation=UNCOMMITTED) == [b"a", b"b", b"c"]

    def test_an_open_transaction_holds_back_everything_behind_its_first_record(
        self, client: Client, topic: MakeTopic
    ) -> None:
        name = topic()
        producer, other = client.producer(transactional_id=unique("tx")), client.producer()
        other.put(name, b"before")
        producer.begin()
        producer.put(name, b"inside")
        other.put(name, b"behind")
        reader = client.consumer(isolation=COMMITTED)
        reader.assign([Spot(name, 0)])
        assert reader.bounds(Spot(name, 0)) == (0, 1)
        assert client.values(name, isolation=COMMITTED) == [b"before"]
        assert client.values(name, isolation=UNCOMMITTED) == [b"before", b"inside", b"behind"]
        producer.commit()
        assert [m.value for m in reader.read(3)] == [b"before", b"inside", b"behind"]
        assert reader.bounds(Spot(name, 0)) == (0, 4)  # the marker has an offset too

    def test_a_transaction_covers_several_topics_and_partitions(self, client: Client, topic: MakeTopic) -> None:
        first, second = topic(partitions=3), topic(partitions=3)
        producer = client.producer(transactional_id=unique("tx"))
        for commit in (False, True):
            producer.begin()
            value = b"kept" if commit else b"dropped"
            producer.deliver(*(Message(name, value, partition=p) for name in (first, second) for p in range(3)))
            assert b"kept" not in client.values(first, second, partitions=3)
            producer.end(commit=commit)
        assert client.values(first, second, partitions=3) == [b"kept"] * 6

    def test_interleaved_transactions_end_each_on_its_own(self, client: Client, topic: MakeTopic) -> None:
        name = topic()
        one, two, three = (client.producer(transactional_id=unique("tx")) for _ in range(3))
        for producer in (one, two, three):
            producer.begin()
        for turn in range(3):
            for producer, letter in ((one, b"a"), (two, b"b"), (three, b"c")):
                producer.put(name, letter + b"%d" % turn)
        two.abort()
        assert client.values(name) == []
        one.commit()
        assert client.values(name) == [b"a0"]  # the third holds back what lies behind its first record
        three.commit()
        assert client.values(name) == [b"a0", b"c0", b"a1", b"c1", b"a2", b"c2"]

    def test_a_transaction_without_records_ends_well(self, client: Client, topic: MakeTopic) -> None:
        name = topic()
        producer = client.producer(transactional_id=unique("tx"))
        producer.begin()
        producer.commit()
        producer.begin()
        producer.abort()
        producer.transact(name, b"a")
        assert client.values(name) == [b"a"]

    def test_many_short_transactions_in_a_row_lose_and_repeat_nothing(self, client: Client, topic: MakeTopic) -> None:
        name = topic(partitions=2)
        producer = client.producer(transactional_id=unique("tx"), compression="lz4")
        for n in range(40):
            producer.begin()
            producer.put(name, b"%d" % n, partition=n % 2)
            producer.end(commit=n % 4 != 3)
        kept = [n for n in range(40) if n % 4 != 3]
        expected = [b"%d" % n for p in range(2) for n in kept if n % 2 == p]
        assert client.values(name, partitions=2) == expected

    def test_offsets_in_a_transaction_count_from_its_commit_on(self, client: Client, topic: MakeTopic) -> None:
        source, target = topic(), topic()
        client.producer().put(source, b"a", b"b", b"c")
        consumer = client.consumer(source, group=unique("group"))
        producer = client.producer(transactional_id=unique("tx"))
        consumer.read(3)
        producer.begin()
        producer.put(target, b"abc")
        producer.send_offsets({Spot(source, 0): 3}, consumer.membership())
        producer.commit()
        wait_until(lambda: consumer.committed(Spot(source, 0)) == 3, "the offset is committed")

    def test_an_abort_leaves_the_committed_offsets_untouched(self, client: Client, topic: MakeTopic) -> None:
        source = topic()
        client.producer().put(source, b"a", b"b", b"c")
        consumer = client.consumer(source, group=unique("group"))
        producer = client.producer(transactional_id=unique("tx"))
        consumer.read(3)
        consumer.commit({Spot(source, 0): 1})
        producer.begin()
        producer.send_offsets({Spot(source, 0): 3}, consumer.membership())
        producer.abort()
        assert consumer.committed(Spot(source, 0)) == 1

    def test_offsets_of_a_consumer_that_lost_its_place_in_the_group_are_refused(
        self, client: Client, topic: MakeTopic
    ) -> None:
        if not client.fences_by_generation:
            pytest.skip(f"{client.name} does not say which generation its offsets are of")
        source, group = topic(partitions=2), unique("group")
        client.producer().put(source, b"a", partition=0)
        old = client.consumer(source, group=group)
        producer = client.producer(transactional_id=unique("tx"))
        old.read(1)
        stale = old.membership()
        new = client.consumer(source, group=group)
        settle([old, new], lambda: len(old.assignment()) == len(new.assignment()) == 1, "the two share")
        producer.begin()
        with refused("ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "CommitFailedError"):
            producer.send_offsets({Spot(source, 0): 1}, stale)
        producer.abort()
        assert new.committed(Spot(source, 0)) is None

    @pytest.mark.parametrize("writes_more", [True, False])
    def test_a_zombie_cannot_produce_nor_commit(self, client: Client, topic: MakeTopic, writes_more: bool) -> None:
        name, transactional_id = topic(), unique("tx")
        zombie = client.producer(transactional_id=transactional_id)
        zombie.begin()
        zombie.put(name, b"zombie")
        successor = client.producer(transactional_id=transactional_id)
        with refused(*FENCED):
            if writes_more:
                zombie.put(name, b"again")
            zombie.commit()
        successor.transact(name, b"successor")
        assert client.values(name) == [b"successor"]

    def test_a_zombie_cannot_add_offsets(self, client: Client, topic: MakeTopic) -> None:
        source, transactional_id = topic(), unique("tx")
        client.producer().put(source, b"a")
        consumer = client.consumer(source, group=unique("group"))
        consumer.read(1)
        zombie = client.producer(transactional_id=transactional_id)
        zombie.begin()
        zombie.put(source, b"zombie")
        client.producer(transactional_id=transactional_id)
        with refused(*FENCED):
            zombie.send_offsets({Spot(source, 0): 1}, consumer.membership())
            zombie.commit()
        assert consumer.committed(Spot(source, 0)) is None

    def test_a_transaction_over_its_timeout_is_aborted_and_its_producer_fenced(
        self, client: Client, topic: MakeTopic
    ) -> None:
        name = topic()
        producer = client.producer(transactional_id=unique("tx"), transaction_timeout_ms=1000)
        producer.begin()
        producer.put(name, b"slow")
        reader = client.consumer(isolation=COMMITTED)
        reader.assign([Spot(name, 0)])
        assert reader.bounds(Spot(name, 0)) == (0, 0)
        wait_until(lambda: reader.bounds(Spot(name, 0)) == (0, 2), "the transaction is aborted")
        with refused(*FENCED, "INVALID_TXN_STATE"):
            producer.commit()
        assert client.values(name) == []

    def test_a_transaction_timeout_above_the_brokers_maximum_is_refused(self, client: Client) -> None:
        with refused("INVALID_TRANSACTION_TIMEOUT"):
            client.producer(transactional_id=unique("tx"), transaction_timeout_ms=1_000_000)


class TestExactlyOnce:
    """Consume, transform, produce: the loop that transactions are for, with workers that fail at random."""

    RECORDS = 80
    BATCH = 7

    def test_a_loop_of_failing_workers_takes_every_record_exactly_once(self, client: Client, topic: MakeTopic) -> None:
        chance = random.Random(SEED)
        source, left, right = topic(), topic(prefix="left"), topic(prefix="right")
        group, transactional_id = unique("group"), unique("tx")
        client.producer().put(source, *(b"%d" % n for n in range(self.RECORDS)))
        watcher = Watcher(client.another(), left, right)
        done, attempts = 0, 0
        while done < self.RECORDS:
            attempts += 1
            done = self.work(client, chance, source, (left, right), group, transactional_id)
        watcher.stop()
        expected = [b"%d" % (n * n) for n in range(self.RECORDS)]
        assert client.values(left) == expected
        assert client.values(right) == expected
        assert watcher.seen(left) == expected
        assert watcher.seen(right) == expected
        assert attempts > 2, "no worker failed: the seed is a bad one"

    def work(
        self,
        client: Client,
        chance: random.Random,
        source: str,
        targets: tuple[str, str],
        group: str,
        transactional_id: str,
    ) -> int:
        """One worker's life, until it is done or fails; how far it saw the group come."""
        producer = client.producer(transactional_id=transactional_id)
        consumer = client.consumer(group=group)
        spot = Spot(source, 0)
        consumer.assign([spot])
        position = consumer.committed(spot) or 0
        consumer.seek(spot, position)
        waiting: list[Message] = []
        while position < self.RECORDS:
            waiting = waiting or consumer.read(1)
            batch = waiting[: self.BATCH]
            assert batch[0].offset == position
            producer.begin()
            for target in targets:
                producer.put(target, *(b"%d" % int(m.value or b"") ** 2 for m in batch))
            producer.send_offsets({spot: batch[-1].offset + 1}, consumer.membership())
            fate = chance.random()
            if fate < 0.15:  # dies with the transaction open: its successor fences it
                return position
            if fate < 0.3:
                producer.abort()
            else:
                producer.commit()
                waiting = waiting[self.BATCH :]
                position = batch[-1].offset + 1
        return position

    def test_a_group_of_workers_that_come_and_go_takes_every_record_exactly_once(
        self, client: Client, topic: MakeTopic
    ) -> None:
        if not client.fences_by_generation:
            pytest.skip(f"{client.name} does not say which generation its offsets are of")
        source, target, group = topic(partitions=4), topic(partitions=4), unique("group")
        spots = [Spot(source, partition) for partition in range(4)]
        client.producer().deliver(*(Message(source, b"%d" % n, partition=n % 4) for n in range(self.RECORDS)))
        reader = client.consumer(group=group)
        over = threading.Event()
        workers = [Worker(client.another(), random.Random(SEED + n), source, target, group, over) for n in range(2)]
        try:
            wait_until(
                lambda: over.wait(0.05) or sum(reader.committed(spot) or 0 for spot in spots) == self.RECORDS,
                "all offsets are committed",
                timeout_s=60,
            )
        finally:
            over.set()
            failed = [each for worker in workers if (each := worker.join()) is not None]
        assert failed == []
        assert sum(worker.lives for worker in workers) > 3, "no worker failed: the seed is a bad one"
        expected = [b"%d" % n for partition in range(4) for n in range(partition, self.RECORDS, 4)]
        assert client.values(target, partitions=4) == expected


class Worker:
    """Copies what its group gives to it, in transactions; fails at random and is born again with the same id."""

    def __init__(
        self, client: Client, chance: random.Random, source: str, target: str, group: str, over: threading.Event
    ) -> None:
        self.lives = 0
        self._client = client
        self._chance = chance
        self._source, self._target, self._group = source, target, group
        self._transactional_id = unique("tx")
        self._over = over
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def join(self) -> BaseException | None:
        self._thread.join(20)
        return TimeoutError("a worker does not end") if self._thread.is_alive() else self._error

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                self.lives += 1
                self._live()
        except BaseException as error:
            self._error = error
            self._over.set()
        finally:
            self._client.close()

    def _live(self) -> None:
        producer = self._client.producer(transactional_id=self._transactional_id)
        consumer = self._client.consumer(self._source, group=self._group)
        try:
            while not self._over.is_set():
                batch = consumer.poll(0.1)
                if batch and not self._copy(producer, consumer, batch):
                    return
        finally:
            # The transaction may be open. The next producer with its id aborts it.
            self._client.close_one(consumer)

    def _copy(self, producer: Producer, consumer: Consumer, messages: list[Message]) -> bool:
        """False when it is time to die."""
        batch = messages[: self._chance.randint(1, 10)]
        ends = {message.spot: (message.offset or 0) + 1 for message in batch}
        try:
            producer.begin()
            producer.deliver(*(Message(self._target, m.value, partition=m.partition) for m in batch))
            producer.send_offsets(ends, consumer.membership())
            if self._chance.random() < 0.2:
                return False
            producer.commit()
        except Refused:
            return False  # the partitions are another's by now
        # Not all that was polled has been copied: a new life begins at what is committed.
        return len(batch) == len(messages)


class Watcher:
    """Reads two topics all the time, in a thread of its own, and keeps what it saw in the order that it saw it."""

    def __init__(self, client: Client, *topics: str) -> None:
        self._client = client
        self._topics = topics
        self._found: list[Message] = []
        self._error: BaseException | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        try:
            consumer = self._client.consumer(isolation=COMMITTED)
            spots = [Spot(topic, 0) for topic in self._topics]
            consumer.assign(spots)
            ends: dict[Spot, int] = {}
            while not ends or any(consumer.position(spot) < end for spot, end in ends.items()):
                if self._ending.is_set() and not ends:
                    ends = {spot: consumer.bounds(spot)[1] for spot in spots}
                self._found.extend(consumer.poll())
        except Refused as error:
            self._error = error
        finally:
            self._client.close()

    def stop(self) -> None:
        self._ending.set()
        self._thread.join(20)
        assert not self._thread.is_alive()
        if self._error is not None:
            raise self._error

    def seen(self, topic: str) -> list[bytes | None]:
        return [message.value for message in self._found if message.topic == topic]
