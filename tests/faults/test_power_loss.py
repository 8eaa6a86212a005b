"""What was acknowledged survives power loss: the broker runs on a disk that forgets what was not synced.

The power fails at a random moment under load. The disk is then examined several times. Each time another part of the
unsynced writes is kept, lost or torn, as on a real disk. `FENCEPOST_SEED` repeats a run.
"""

import copy
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fencepost.client.raw import Partition
from fencepost.errors import ConnectionLost, Refused
from fencepost.lab.chaos.history import Function, Recorder, Status
from fencepost.lab.chaos.history import load as load_history
from tests.conftest import wait_until
from tests.faults.disks import UnreliableDisk
from tests.faults.inprocess import BrokerThread
from tests.faults.observe import anomalies
from tests.faults.raw import Kafka
from tests.faults.seeds import chosen_seed, replayable

#: The broker's work is cut off in the middle, as by a kill.
pytestmark = [
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

PARTITIONS: list[Partition] = [("plain", 0), ("plain", 1), ("booked", 0), ("booked", 1)]
SOURCE: Partition = ("source", 0)
WRECKS = 4


@dataclass
class Load:
    """Writers that go on until the broker is gone, and note what they were told."""

    broker: BrokerThread
    history: Path  #: a directory
    group_offsets: dict[str, int] = field(default_factory=dict)  #: acknowledged outside of transactions
    topics: list[str] = field(default_factory=list)  #: acknowledged
    rounds: int = 0
    transactions: int = 0
    threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        self.history.mkdir()
        for work in (self.write_plain, self.write_transactions, self.commit_offsets, self.create_topics):
            thread = threading.Thread(target=self._until_the_end, args=(work,), daemon=True)
            self.threads.append(thread)
            thread.start()

    def _until_the_end(self, work: Callable[[Kafka], None]) -> None:
        try:
            with self.broker.client() as client:
                work(client)
        except (ConnectionLost, Refused):
            return

    def wait(self) -> None:
        for thread in self.threads:
            thread.join(30)
            assert not thread.is_alive()

    def write_plain(self, client: Kafka) -> None:
        log = Recorder(self.history, "plain").log
        session = client.init_producer()
        for number in range(1_000_000):
            where, value = PARTITIONS[number % 2], f"plain.{number}"
            log(Function.SENDS, Status.INVOKE, number=number, writes=[[*where, value]])
            offset = client.append(session, *where, [value], version=9)
            log(Function.SENDS, Status.OK, number=number, acked={value: offset})
            self.rounds += 1

    def write_transactions(self, client: Kafka) -> None:
        log = Recorder(self.history, "t").log
        session = client.init_producer("t")
        for number in range(1_000_000):
            commit = number % 3 != 0
            writes = [["booked", partition, f"t.{number}.{partition}"] for partition in (0, 1)]
            offsets = [[*SOURCE, number]]
            log(Function.TXN, Status.INVOKE, number=number, writes=writes, group="in-transactions", offsets=offsets)
            for topic, partition, value in writes:
                client.append(session, topic, partition, [value])
            if client.commit_offsets_in_transaction(session, "in-transactions", {SOURCE: number}):
                return
            log(Function.END, Status.INVOKE, number=number, how="commit" if commit else "abort")
            if client.end(session, commit=commit):
                return
            log(Function.TXN, Status.OK if commit else Status.FAIL, number=number)
            self.transactions += 1

    def commit_offsets(self, client: Kafka) -> None:
        for number in range(1_000_000):
            client.commit_offset(f"group-{number % 3}", *SOURCE, number)
            self.group_offsets[f"group-{number % 3}"] = number

    def create_topics(self, client: Kafka) -> None:
        for number in range(1_000_000):
            client.create_topic(f"new-{number}")
            self.topics.append(f"new-{number}")


def check_survivors(disk: UnreliableDisk, data_dir: Path, load: Load) -> None:
    with BrokerThread(data_dir, disk) as broker, broker.client() as client:
        client.init_producer("t")  # ends what was left open
        assert anomalies(client, load_history(load.history), PARTITIONS, [("in-transactions", SOURCE)]) == []
        for group, offset in load.group_offsets.items():
            assert client.committed(group, [SOURCE])[SOURCE] >= offset, f"{group} went back"
        known = {topic.name for topic in client.metadata(None).topics}
        assert known >= set(load.topics)
        client.write("plain", 0, ["after:1"])
    with BrokerThread(data_dir, disk) as again, again.client() as client:
        assert client.read("plain", 0).values[-1] == "after:1"


@pytest.mark.parametrize("attempt", range(3))
def test_nothing_acknowledged_is_lost_when_the_power_goes_under_load(tmp_path: Path, attempt: int) -> None:
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    with replayable(chosen_seed()) as rng:
        disk = UnreliableDisk(str(data_dir))
        load = run_until_the_power_goes(data_dir, tmp_path / "history", disk, rng)
        for _ in range(WRECKS):
            wreck = copy.deepcopy(disk)
            wreck.lose_power(random.Random(rng.random()))
            check_survivors(wreck, data_dir, load)


def run_until_the_power_goes(data_dir: Path, history: Path, disk: UnreliableDisk, rng: random.Random) -> Load:
    broker = BrokerThread(data_dir, disk, {"internal.segment.bytes": "2500"})
    try:
        with broker.client() as client:
            for topic in ("plain", "booked"):
                client.create_topic(topic, 2)
            client.create_topic("source")
        load = Load(broker, history)
        load.start()
        wait_until(lambda: load.rounds >= 20 and load.transactions > 0, "writers are at work")
        disk.die_after(rng.randrange(rng.choice([50, 500, 3000])))
        wait_until(lambda: disk.is_off, "the power is gone")
    finally:
        broker.crash()
    load.wait()
    return load
