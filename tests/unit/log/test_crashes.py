"""Random histories with crashes, held against a model: what was acknowledged or readable stays, the rest is exact."""

import asyncio
import os
import random
from dataclasses import dataclass, field

import pytest

from fencepost.errors import ErrorCode, KafkaError
from fencepost.log import partition
from fencepost.log.config import LogConfig
from fencepost.wire.records import decode_batch, decode_marker
from fencepost.wire.terms import Isolation
from tests.fakes.forgetful_disk import PowerLost
from tests.unit.log.support import Fixture, batch, read_all

HISTORIES = int(os.environ.get("CRASH_HISTORIES", "40"))
STEPS = 120
PRODUCERS = (1, 2, 3, 4)
Aborted = tuple[int, int, int]  #: producer id, first offset, marker's offset


@dataclass
class ModelProducer:
    epoch: int = 0
    next_sequence: int = 0
    last_sequence: int = -1
    txn_first_offset: int = -1
    coordinator_epoch: int = -1


@dataclass
class Entry:
    """One batch or marker as the model appended it."""

    base_offset: int
    last_offset: int
    values: tuple[bytes, ...]  #: empty: a marker
    producer_id: int
    epoch: int
    first_sequence: int
    transactional: bool
    commit: bool = False


@dataclass
class Model:
    entries: list[Entry] = field(default_factory=list)

    @property
    def end_offset(self) -> int:
        return self.entries[-1].last_offset + 1 if self.entries else 0

    def producers(self) -> dict[int, ModelProducer]:
        return self._replayed()[0]

    def _replayed(self) -> tuple[dict[int, ModelProducer], dict[int, list[Entry]], list[Entry], list[Aborted]]:
        """Producers, data of open transactions, stable data entries, and aborted transactions."""
        producers: dict[int, ModelProducer] = {}
        open_data: dict[int, list[Entry]] = {}
        stable: list[Entry] = []
        aborted: list[Aborted] = []
        for entry in self.entries:
            if entry.producer_id < 0:
                stable.append(entry)
                continue
            producer = producers.setdefault(entry.producer_id, ModelProducer(entry.epoch))
            if entry.epoch != producer.epoch:
                producer.epoch, producer.next_sequence, producer.last_sequence = entry.epoch, 0, -1
            if entry.values:
                producer.last_sequence = entry.first_sequence + len(entry.values) - 1
                producer.next_sequence = producer.last_sequence + 1
                if entry.transactional:
                    if producer.txn_first_offset < 0:
                        producer.txn_first_offset = entry.base_offset
                    open_data.setdefault(entry.producer_id, []).append(entry)
                else:
                    stable.append(entry)
            else:
                producer.coordinator_epoch = 0
                data = open_data.pop(entry.producer_id, [])
                if data and entry.commit:
                    stable += data
                elif data:
                    aborted.append((entry.producer_id, producer.txn_first_offset, entry.base_offset))
                producer.txn_first_offset = -1
        return producers, open_data, stable, aborted

    def stable_offset(self) -> int:
        _, open_data, _, _ = self._replayed()
        return min((data[0].base_offset for data in open_data.values()), default=self.end_offset)

    def aborted(self) -> list[Aborted]:
        return self._replayed()[3]

    def committed(self, start_offset: int) -> list[tuple[int, bytes]]:
        end = self.stable_offset()
        found = [
            (entry.base_offset + delta, value)
            for entry in self._replayed()[2]
            for delta, value in enumerate(entry.values)
            if entry.base_offset < end
        ]
        return sorted(item for item in found if item[0] >= start_offset)


class History:
    def __init__(self, seed: int, config: LogConfig) -> None:
        self.rng = random.Random(seed)
        self.home = Fixture(config)
        self.model = Model()
        self.acknowledged = 0  #: everything below was promised
        self.pending: list[tuple[int, asyncio.Future[None]]] = []

    def step(self) -> None:
        try:
            self.act()
        except PowerLost:
            pass
        except KafkaError as error:
            if not self.home.disk.is_off:
                # The only excuse is that there was no room. Then it must not be there.
                if self.home.disk.capacity_bytes is None or error.code != ErrorCode.KAFKA_STORAGE_ERROR:
                    raise
                end = self.home.log.log_end_offset
                self.model.entries = [entry for entry in self.model.entries if entry.last_offset < end]
        if self.home.disk.is_off:
            self.crash()
        self.observe()

    def act(self) -> None:
        rng, home = self.rng, self.home
        match rng.choices(
            ["data", "transactional", "marker", "turn", "work", "checkpoint", "delete", "maintain", "crash", "restart",
             "die soon", "full", "room"],
            [20, 25, 15, 20, 15, 3, 2, 3, 2, 2, 3, 2, 4],
        )[0]:  # fmt: skip
            case "data":
                self.append(rng.choice((-1, 1)), transactional=False)
            case "transactional":
                self.append(rng.choice(PRODUCERS[1:]), transactional=True)
            case "marker":
                self.mark(rng.choice(PRODUCERS[1:]), commit=rng.random() < 0.5)
            case "turn":
                home.worker.turn()
            case "work":
                if home.worker.waiting:
                    home.worker.work()
            case "checkpoint":
                home.checkpoint()
            case "delete":
                home.log.delete_records(rng.randint(home.log.log_start_offset, home.log.high_watermark))
                home.log_start_offset = home.log.log_start_offset
            case "maintain":
                home.maintain()
            case "crash":
                self.crash()
            case "restart":
                home.disk.capacity_bytes = None
                home.worker.run()
                self.observe()
                home.restart()
                self.check()
            case "die soon":
                home.disk.die_after(rng.randint(0, 40))
            case "full":
                home.disk.capacity_bytes = home.disk.used_bytes() + rng.randint(0, 400)
            case "room":
                home.disk.capacity_bytes = None

    def append(self, producer_id: int, *, transactional: bool) -> None:
        values = tuple(self.rng.randbytes(self.rng.randint(0, 60)) for _ in range(self.rng.randint(1, 4)))
        state = self.model.producers().get(producer_id, ModelProducer())
        epoch, sequence = (state.epoch, state.next_sequence) if producer_id >= 0 else (-1, -1)
        encoded = batch(
            *values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=transactional
        )
        again = bytearray(encoded)
        log = self.home.log
        # Noted before it is tried: if the power goes in between it may be there afterwards, or not.
        end = self.model.end_offset
        entry = Entry(end, end + len(values) - 1, values, producer_id, epoch, sequence, transactional)
        self.model.entries.append(entry)
        appended = log.append(encoded)
        assert (appended.base_offset, appended.last_offset) == (entry.base_offset, entry.last_offset)
        self.await_durable(appended.last_offset)
        if producer_id >= 0 and self.rng.random() < 0.2:
            repeated = log.append(again)
            assert repeated.duplicate and repeated.base_offset == appended.base_offset

    def mark(self, producer_id: int, *, commit: bool) -> None:
        state = self.model.producers().get(producer_id, ModelProducer())
        # Both protocols: with version 2 the marker's epoch is one above the data's.
        version = self.rng.choice((1, 2))
        epoch = state.epoch + 1 if version == 2 else state.epoch
        end = self.model.end_offset
        self.model.entries.append(Entry(end, end, (), producer_id, epoch, -1, True, commit))
        assert self.home.log.append_marker(producer_id, epoch, commit, 0, version) == end
        self.await_durable(end)

    def await_durable(self, offset: int) -> None:
        future = self.home.log.when_durable(offset)
        if future is not None:
            self.pending.append((offset, future))

    def observe(self) -> None:
        """What was acknowledged, and what any reader can see, has been promised."""
        for offset, future in self.pending:
            if future.done() and not future.cancelled() and future.exception() is None:
                self.acknowledged = max(self.acknowledged, offset + 1)
        self.pending = [(offset, future) for offset, future in self.pending if not future.done()]
        self.acknowledged = max(self.acknowledged, self.home.log.high_watermark)

    def crash(self) -> None:
        for _, future in self.pending:
            future.cancel()
        self.pending.clear()
        home = self.home
        home.disk.capacity_bytes = None
        if not home.disk.is_off and self.rng.random() < 0.2:
            try:
                home.kill()
            except PowerLost:  # while it recovered
                home.power_failure(self.rng)
        else:
            home.power_failure(self.rng if self.rng.random() < 0.9 else None)
        end = home.log.log_end_offset
        assert end >= self.acknowledged, "something that was acknowledged is lost"
        assert end <= self.model.end_offset
        self.model.entries = [entry for entry in self.model.entries if entry.last_offset < end]
        assert self.model.end_offset == end, "half a batch came back"
        self.acknowledged = end
        self.check()

    def check(self) -> None:
        log = self.home.log
        assert log.high_watermark == log.log_end_offset == self.model.end_offset
        assert log.last_stable_offset == max(self.model.stable_offset(), log.log_start_offset)
        self.check_batches()
        start = log.log_start_offset
        found = [(txn.producer_id, txn.first_offset, txn.last_offset) for txn in log.segments.aborted(start, 10**9)]
        assert sorted(found) == sorted(txn for txn in self.model.aborted() if txn[2] >= start)
        committed = [(record.offset, record.value) for record in read_all(log, Isolation.READ_COMMITTED)]
        assert committed == self.model.committed(start)
        states = {
            state.producer_id: ModelProducer(
                epoch=state.epoch,
                next_sequence=state.last_sequence + 1,
                last_sequence=state.last_sequence,
                txn_first_offset=state.current_txn_start_offset,
                coordinator_epoch=state.coordinator_epoch,
            )
            for state in log.active_producers()
        }
        if start == 0:
            assert states == self.model.producers()

    def check_batches(self) -> None:
        log = self.home.log
        expected = [entry for entry in self.model.entries if entry.last_offset >= log.log_start_offset]
        stored = list(log.replay(0))
        assert [header.base_offset for header, _ in stored] == [entry.base_offset for entry in expected]
        for (header, data), entry in zip(stored, expected, strict=True):
            if entry.values:
                assert tuple(record.value for record in decode_batch(data, header)) == entry.values
            else:
                marker = decode_marker(data)
                assert marker is not None and marker.commit == entry.commit


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_nothing_acknowledged_is_lost_and_everything_else_is_exact(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 2:  # recovery from within a segment
        monkeypatch.setattr(partition, "SETTLE_BYTES", 100)
    history = History(seed, LogConfig(segment_bytes=900, index_interval_bytes=150))
    for _ in range(STEPS):
        history.step()
    history.crash()


@pytest.mark.parametrize("seed", range(HISTORIES // 4))
def test_without_forced_syncs_a_killed_process_loses_nothing(seed: int) -> None:
    history = History(seed, LogConfig(segment_bytes=900, index_interval_bytes=150, flush_messages=2**63 - 1))
    for step in range(STEPS):
        history.append(history.rng.choice((-1, 1)), transactional=False)
        if step % 40 == 39:
            history.home.kill()
            history.check()
