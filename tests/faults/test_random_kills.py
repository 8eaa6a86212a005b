"""The broker is killed, paused and restarted at random instants under load; then everything must add up.

`FENCEPOST_SEED` repeats the faults of a run (the clients' timing is the machine's own), `FENCEPOST_FAULT_SECONDS` makes
it longer. A failure prints the command that runs it again.
"""

import os
import random
import time

import pytest

from fencepost.wire.terms import Isolation
from tests.conftest import wait_until
from tests.faults.conftest import MakeBroker
from tests.faults.history import Copier, History, Outcome, Partition, anomalies
from tests.faults.observe import observe, settled
from tests.faults.process import BrokerProcess
from tests.faults.raw import Kafka
from tests.faults.seeds import chosen_seed, replayable
from tests.faults.workload import (
    CopyingMember,
    IdempotentWriter,
    LedgerWriter,
    OversleepingWriter,
    Reader,
    SecondProtocolWriter,
    TopicChurner,
    TransactionalWriter,
    Worker,
    World,
)

FAULT_SECONDS = float(os.environ.get("FENCEPOST_FAULT_SECONDS", "12"))

ORDERS: list[Partition] = [("orders", 0), ("orders", 1)]
BOOKED: list[Partition] = [("invoices", 0), ("invoices", 1), ("shipments", 0), ("shipments", 1)]
COPIES: list[Partition] = [("copies", 0), ("copies", 1)]
SOURCE: Partition = ("elsewhere", 0)
JOB = Copier("copiers", "orders", "copies")

#: Small segments, so that rolling, snapshots and compaction, of internal topics too, are part of every recovery.
SETTINGS = {
    "internal.segment.bytes": "20000",
    "log.index.interval.bytes": "200",
    "log.cleaner.backoff.ms": "300",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.cleaner.delete.retention.ms": "1000",
}
LEDGER: Partition = ("ledger", 0)
#: Compacted as often as possible, markers and all.
LEDGER_CONFIG = {
    "cleanup_policy": "compact",
    "internal_segment_bytes": "3000",
    "min_cleanable_dirty_ratio": "0.01",
    "delete_retention_ms": "100",
}


class Nemesis:
    """Does harm, in an order that depends on the seed alone."""

    def __init__(self, broker: BrokerProcess, rng: random.Random) -> None:
        self._broker = broker
        self._rng = rng
        self.deeds: list[str] = []

    def act(self) -> None:
        deed = self._rng.choice([self.kill, self.kill, self.kill_twice, self.pause, self.stop, self.nothing])
        time.sleep(self._rng.uniform(0.05, 1.5))
        self.deeds.append(deed.__name__)
        deed()

    def kill(self) -> None:
        self._broker.kill()
        time.sleep(self._rng.uniform(0, 0.5))
        self._broker.start()

    def kill_twice(self) -> None:
        """The second time while it recovers from the first."""
        self._broker.kill()
        self._broker.launch()
        time.sleep(self._rng.uniform(0.05, 0.5))
        self._broker.kill()
        self._broker.start()

    def pause(self) -> None:
        self._broker.pause()
        time.sleep(self._rng.uniform(0.1, 1.5))
        self._broker.resume()

    def stop(self) -> None:
        self._broker.restart()

    def nothing(self) -> None:
        pass


@pytest.mark.timeout(FAULT_SECONDS + 300)
@pytest.mark.parametrize("flush", ["1", str(2**63 - 1)], ids=["synced", "unsynced"])
def test_everything_adds_up_after_kills_and_pauses_under_load(make_broker: MakeBroker, flush: str) -> None:
    broker = make_broker({**SETTINGS, "log.flush.interval.messages": flush}).start()
    with replayable(chosen_seed()) as rng:
        history = History(copiers=[JOB])
        with broker.client() as client:
            for topic in ("orders", "invoices", "shipments", "copies"):
                client.create_topic(topic, 2)
            client.create_topic("elsewhere")
            client.create_topic("ledger", **LEDGER_CONFIG)
        workers = run(broker, history, rng)
        groups = [(JOB.group, where) for where in ORDERS]
        groups += [(f"group of {worker.name}", SOURCE) for worker in workers if worker.name.startswith("t")]
        with broker.client() as client:
            final = observe(client, [*ORDERS, *BOOKED, *COPIES], groups)
            check_ledger(client, [worker for worker in workers if isinstance(worker, LedgerWriter)])
            for worker in workers:
                if isinstance(worker, TopicChurner):
                    assert client.read("churned", 0).values == worker.expected
        assert anomalies(history, final) == []
        assert {transaction.outcome for transaction in history.transactions} >= {Outcome.COMMITTED, Outcome.ABORTED}


def run(broker: BrokerProcess, history: History, rng: random.Random) -> list[Worker]:
    world = World(broker.address, history)

    def chance() -> random.Random:
        return random.Random(rng.random())

    workers: list[Worker] = [
        IdempotentWriter(world, "i1", chance(), ORDERS),
        IdempotentWriter(world, "i2", chance(), ORDERS),
        TransactionalWriter(world, "t1", chance(), BOOKED, SOURCE),
        TransactionalWriter(world, "t2", chance(), BOOKED, SOURCE),
        SecondProtocolWriter(world, "t3", chance(), BOOKED, SOURCE),
        SecondProtocolWriter(world, "t4", chance(), BOOKED, SOURCE),
        OversleepingWriter(world, "t5", chance(), BOOKED, SOURCE),
        LedgerWriter(world, "l1", chance(), LEDGER),
        LedgerWriter(world, "l2", chance(), LEDGER),
        TopicChurner(world, "d1", chance(), "churned"),
        CopyingMember(world, "c1", chance(), JOB),
        CopyingMember(world, "c2", chance(), JOB),
        Reader(world, "r1", chance(), [*ORDERS, *BOOKED, *COPIES]),
    ]
    nemesis = Nemesis(broker, chance())
    until = time.monotonic() + FAULT_SECONDS / 2
    try:
        while time.monotonic() < until and all(worker.failure is None for worker in workers):
            nemesis.act()
        for worker in workers:
            recovers(worker)
    finally:
        world.stopping.set()
    print(f"{', '.join(nemesis.deeds)}; " + ", ".join(f"{worker.name}: {worker.done}" for worker in workers))
    for worker in workers:
        worker.join()
    return workers


def recovers(worker: Worker) -> None:
    """Once the faults are over everybody gets on with its work, without help."""
    before = worker.done
    what = f"{worker.name} goes on after the faults"
    wait_until(lambda: worker.done > before or worker.failure is not None, what, timeout_s=60)


def check_ledger(client: Kafka, writers: list[LedgerWriter]) -> None:
    """After compaction the last committed value of every key is there, and nothing that was aborted."""
    settled(client, [LEDGER])
    view = client.read(*LEDGER)
    last = {(record.key or b"").decode(): (record.value or b"").decode() for record in view.records}
    for writer in writers:
        assert {key: value for key, value in last.items() if key.startswith(writer.name)} == writer.last
        assert not writer.aborted.intersection(view.values)
    everything = client.read(*LEDGER, Isolation.READ_UNCOMMITTED)
    assert everything.offsets == sorted(set(everything.offsets))


def test_a_broker_killed_while_it_starts_starts_the_next_time(make_broker: MakeBroker) -> None:
    broker = make_broker(SETTINGS).start()
    with broker.client() as client:
        client.create_topic("orders")
        session = client.init_producer("t")
        for number in range(200):
            client.append(session, "orders", 0, [f"{number}:" + "x" * 500])
            client.end(session, commit=number % 4 != 0)
        expected = client.read("orders", 0).values
    with replayable(chosen_seed()) as rng:
        for _ in range(6):
            broker.kill()
            broker.launch()
            time.sleep(rng.uniform(0, 0.4))
        broker.kill()
        broker.start()
        with broker.client() as client:
            assert client.read("orders", 0).values == expected
