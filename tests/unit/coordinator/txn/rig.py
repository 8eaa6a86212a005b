"""A transaction coordinator on its machine, and short words for what clients ask of it."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from fencepost.coordinator.txn.coordinator import TransactionCoordinator
from fencepost.coordinator.txn.decide import Outcome, Producer
from fencepost.coordinator.txn.model import Transaction, TransactionVersion, encode
from fencepost.coordinator.txn.settings import TransactionSettings
from fencepost.coordinator.txn.steps import Step
from fencepost.errors import KafkaError
from fencepost.log.partition import PartitionLog
from fencepost.wire.records import decode_batch, decode_marker
from fencepost.wire.terms import TopicPartition, coordinator_partition
from tests.fakes.forgetful_disk import PowerLost
from tests.unit.coordinator.machine import STATE_PARTITIONS, Machine, settle, write

ID = "shop"
P0 = TopicPartition("invoices", 0)
P1 = TopicPartition("shipments", 1)
OFFSETS = TopicPartition("__consumer_offsets", 3)
V1, V2 = TransactionVersion.V0, TransactionVersion.V2
COMMIT, ABORT = Outcome.COMMIT, Outcome.ABORT
LAST_EPOCH = 32766  #: the last one for clients; 32767 is kept for fencing it


class Killed(Exception):
    """Nothing that the coordinator could catch and go on from."""


@dataclass
class Rig:
    machine: Machine = field(default_factory=Machine)
    settings: TransactionSettings = field(default_factory=TransactionSettings)
    group_markers: list[tuple[str, int, int, int, bool]] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    on_step: Callable[[Step], None] | None = None

    def __post_init__(self) -> None:
        self.clock = self.machine.clock
        self.machine.topics.create("invoices", 2, {})
        self.machine.topics.create("shipments", 2, {})
        self.machine.topics.ensure_internal("__consumer_offsets")
        self.start()

    def start(self) -> None:
        self.coordinator = TransactionCoordinator(
            topics=self.machine.topics,
            clock=self.clock,
            settings=self.settings,
            marker_appended=lambda *marker: self.group_markers.append(marker),
            step=self._step,
        )
        self.coordinator.start()

    def restart(self, *, power_loss: bool = False, rng: random.Random | None = None) -> None:
        """Kill it without a word and start again on what the disk has."""
        self.coordinator.stop()
        self.machine.restart(power_loss=power_loss, rng=rng)
        self.start()

    async def killed_at(self, step: Step, request: Awaitable[object], *, power_loss: bool) -> bool:
        """Kill the broker when the request gets to this step, and restart it; whether the request was answered."""

        def kill(reached: Step) -> None:
            if reached is step:
                self.on_step = None
                self.coordinator.stop()
                self.machine.kill()
                raise Killed

        self.on_step = kill
        answered = True
        try:
            await request
        except (Killed, PowerLost, KafkaError):
            answered = False
        await settle()
        self.restart(power_loss=power_loss)
        await settle()
        return answered

    async def advance(self, delta_ms: int) -> None:
        self.clock.advance(delta_ms)
        await settle()

    async def init(self, expected: Producer | None = None, timeout_ms: int = 60_000, name: str = ID) -> Producer:
        return await self.coordinator.init_producer_id(name, timeout_ms, expected)

    async def init_at_the_last_epoch(self, timeout_ms: int = 60_000) -> Producer:
        """Its state is put under that epoch by a record, because walking there takes too long."""
        first = await self.init(timeout_ms=timeout_ms)
        present = replace(self.state(), producer_epoch=LAST_EPOCH)
        self.coordinator._table.apply(replace(encode(present), offset=present.offset), -1)
        return Producer(first.producer_id, LAST_EPOCH)

    async def add(self, producer: Producer, *partitions: TopicPartition, version: TransactionVersion = V1) -> None:
        await self.coordinator.add_partitions(ID, producer, partitions or (P0,), version)

    async def begin(self, *partitions: TopicPartition) -> Producer:
        """A producer with an open transaction."""
        producer = await self.init()
        await self.add(producer, *partitions)
        return producer

    async def produce(self, producer: Producer, where: TopicPartition = P0, value: bytes = b"v") -> None:
        """As a Produce of version 12 does it: register, then write."""
        waiting = self.coordinator.add_partitions_from_produce(ID, producer.producer_id, producer.epoch, [where])
        if waiting is not None:
            await waiting
        write(self.machine.log(*where), *producer, value)

    async def write(
        self, producer: Producer, where: TopicPartition, version: TransactionVersion, value: bytes = b"v"
    ) -> None:
        """As a client of this transaction protocol does it."""
        if version is V1:
            await self.add(producer, where)
            self.coordinator.verify_partitions(ID, *producer, [where])
        await self.produce(producer, where, value)

    async def end(self, producer: Producer, outcome: Outcome, version: TransactionVersion) -> Producer:
        return await self.coordinator.end(ID, producer, outcome, version)

    def state(self, name: str = ID) -> Transaction:
        return self.coordinator.describe(name)

    def table(self) -> dict[str, Transaction]:
        return {transaction.transactional_id: transaction for transaction in self.coordinator._table}

    def state_log(self) -> PartitionLog:
        return self.machine.log("__transaction_state", coordinator_partition(ID, STATE_PARTITIONS))

    def markers(self, where: TopicPartition, producer: Producer) -> list[tuple[int, bool]]:
        """Epoch and outcome of every marker of the producer on this partition."""
        return [
            (header.producer_epoch, marker.commit)
            for header, batch in self.machine.log(*where).replay(0)
            if header.is_control and header.producer_id == producer.producer_id and (marker := decode_marker(batch))
        ]

    def outcomes(self, where: TopicPartition) -> dict[bytes, str]:
        """What a reader makes of every value: open, committed or aborted."""
        pending: dict[int, list[bytes]] = {}
        seen: dict[bytes, str] = {}
        for header, batch in self.machine.log(*where).replay(0):
            if header.is_control:
                marker = decode_marker(batch)
                assert marker is not None
                for value in pending.pop(header.producer_id, []):
                    seen[value] = "committed" if marker.commit else "aborted"
                continue
            for record in decode_batch(batch, header):
                assert record.value is not None
                pending.setdefault(header.producer_id, []).append(record.value)
                seen[record.value] = "open"
        return seen

    def has_open_transaction(self, where: TopicPartition) -> bool:
        return bool(self.machine.log(*where).producers.open_transactions)

    def _step(self, step: Step) -> None:
        self.steps.append(step)
        if self.on_step is not None:
            self.on_step(step)
