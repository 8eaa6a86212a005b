"""A coordinator on logs in memory, and short words for what clients ask of it."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fencepost.clock import ManualClock
from fencepost.coordinator.txn.coordinator import TransactionCoordinator
from fencepost.coordinator.txn.decide import Outcome, Producer
from fencepost.coordinator.txn.model import Transaction, TransactionVersion
from fencepost.coordinator.txn.settings import TransactionSettings
from fencepost.coordinator.txn.steps import Step
from fencepost.errors import ErrorCode, KafkaError
from fencepost.wire.terms import TopicPartition
from tests.unit.coordinator.memory import MemoryTopics, Sync

T = TypeVar("T")

ID = "shop"
P0: TopicPartition = ("invoices", 0)
P1: TopicPartition = ("shipments", 1)
OFFSETS: TopicPartition = ("__consumer_offsets", 3)
V1, V2 = TransactionVersion.V0, TransactionVersion.V2
COMMIT, ABORT = Outcome.COMMIT, Outcome.ABORT


@dataclass
class Rig:
    topics: MemoryTopics
    clock: ManualClock = field(default_factory=ManualClock)
    settings: TransactionSettings = field(default_factory=TransactionSettings)
    group_markers: list[tuple[str, int, int, int, bool]] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    on_step: Callable[[Step], None] | None = None

    def __post_init__(self) -> None:
        self.topics.create("invoices")
        self.topics.create("shipments")
        self.topics.ensure_internal("__consumer_offsets")
        self.coordinator = self._make()
        self.coordinator.start()

    def restart(self, *, power_loss: bool = False) -> None:
        """Kill it without a word and start again on what the disk has."""
        self.coordinator.stop()
        self.topics.crash(power_loss=power_loss)
        self.coordinator = self._make()
        self.coordinator.start()

    async def init(self, expected: Producer | None = None, timeout_ms: int = 60_000, name: str = ID) -> Producer:
        return await self.coordinator.init_producer_id(name, timeout_ms, expected)

    async def add(self, producer: Producer, *partitions: TopicPartition, version: TransactionVersion = V1) -> None:
        await self.coordinator.add_partitions(ID, producer, partitions or (P0,), version)

    async def produce(self, producer: Producer, where: TopicPartition = P0, value: bytes = b"v") -> None:
        """As a Produce of version 12 does it: register, then write."""
        waiting = self.coordinator.add_partitions_from_produce(ID, producer.producer_id, producer.epoch, [where])
        if waiting is not None:
            await waiting
        self.topics.data(*where).write(producer.producer_id, producer.epoch, value)

    async def end(self, producer: Producer, outcome: Outcome, version: TransactionVersion) -> Producer:
        return await self.coordinator.end(ID, producer, outcome, version)

    def state(self, name: str = ID) -> Transaction:
        return self.coordinator.describe(name)

    def table(self) -> dict[str, Transaction]:
        return {transaction.transactional_id: transaction for transaction in self.coordinator._table}

    def _make(self) -> TransactionCoordinator:
        return TransactionCoordinator(
            topics=self.topics,
            clock=self.clock,
            settings=self.settings,
            marker_appended=lambda *marker: self.group_markers.append(marker),
            step=self._step,
        )

    def _step(self, step: Step) -> None:
        self.steps.append(step)
        if self.on_step is not None:
            self.on_step(step)


def run(scenario: Callable[[Rig], Coroutine[Any, Any, None]], sync: Sync = Sync.SOON) -> None:
    """Run a scenario and see to it that it leaves nothing behind."""

    async def main() -> None:
        rig = Rig(MemoryTopics(sync))
        try:
            await scenario(rig)
        finally:
            rig.coordinator.stop()
            await settle()

    asyncio.run(main())


async def settle(turns: int = 30) -> None:
    """Let everything on the event loop go as far as it gets."""
    for _ in range(turns):
        await asyncio.sleep(0)


async def code_of(request: Awaitable[object]) -> ErrorCode:
    """The code with which a request is refused, or NONE."""
    try:
        await request
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE
