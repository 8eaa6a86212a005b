"""Carries out what PREPARE_COMMIT and PREPARE_ABORT decided: markers to every partition, then the COMPLETE record.

At most one run per transactional id is under way. Until it is over, the id's state is PREPARE_*, and requests wait or
are refused (see `decide`). So two requests for one id need no lock: a decision and its record are one step on the event
loop, and a run, which takes longer, owns the state.

The broker may be killed at any instant because of this order:

1. PREPARE is durable before the first marker is appended, so no reader sees an outcome that could be lost.
2. Every marker is durable before COMPLETE is appended, so no partition holds open what the coordinator has forgotten.
3. A run that is repeated after a crash appends markers again. A partition ignores a second marker.

A disk that fails is tried again until it works, with growing pauses. Other transactions are not affected.
"""

import asyncio
import logging
from collections.abc import Collection

from fencepost.clock import Clock, give_way, pause
from fencepost.coordinator.runtime import Shard, Shards
from fencepost.coordinator.txn import decide
from fencepost.coordinator.txn.counts import TransactionCounts
from fencepost.coordinator.txn.markers import Marker, Markers, marker_of
from fencepost.coordinator.txn.model import Transaction, encode
from fencepost.coordinator.txn.states import PREPARED
from fencepost.coordinator.txn.steps import Step, StepHook
from fencepost.coordinator.txn.table import TransactionTable
from fencepost.errors import ErrorCode, InvariantBroken, KafkaError
from fencepost.wire.terms import TopicPartition

logger = logging.getLogger(__name__)

FIRST_PAUSE_MS = 100
LONGEST_PAUSE_MS = 10_000
#: Appending to this many partitions takes a few milliseconds. Then others on the event loop get their turn.
MARKERS_PER_TURN = 100

#: A partition that says this already knows of a later end, or is gone. Nothing is left to do there.
_NOTHING_TO_END = {
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}

Completed = asyncio.Future[Transaction]


class Completions:
    def __init__(
        self,
        shards: Shards[TransactionTable],
        table: TransactionTable,
        markers: Markers,
        clock: Clock,
        step: StepHook,
        counts: TransactionCounts,
    ) -> None:
        self._shards = shards
        self._table = table
        self._markers = markers
        self._clock = clock
        self._step = step
        self._counts = counts
        self._running: dict[str, Completed] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}  # in the order in which they began

    def of(self, prepared: Transaction) -> Completed:
        """The run for this transaction; begins one if none is under way. Its result is the completed transaction."""
        running = self._running.get(prepared.transactional_id)
        if running is not None:
            return running
        if prepared.state not in PREPARED:
            raise InvariantBroken(f"{prepared.transactional_id} is {prepared.state.name}: nothing to complete")
        loop = asyncio.get_running_loop()
        completed: Completed = loop.create_future()
        completed.add_done_callback(_look_at_exception)
        self._running[prepared.transactional_id] = completed
        task = loop.create_task(self._run(prepared, completed))
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return completed

    def stop(self) -> None:
        """Leave what is unfinished to the next start."""
        for task in self._tasks:
            task.cancel()

    async def _run(self, prepared: Transaction, completed: Completed) -> None:
        began_ns = self._clock.monotonic_ns()
        try:
            shard = self._shards.for_key(prepared.transactional_id)
            complete = await self._complete(shard, prepared)
        except asyncio.CancelledError:
            self._give_up(prepared, completed)
            raise
        except Exception:
            logger.exception("ending the transaction of %s failed", prepared.transactional_id)
            self._give_up(prepared, completed)
            return
        self._counts.ends.observe_ns(self._clock.monotonic_ns() - began_ns)
        del self._running[prepared.transactional_id]
        completed.set_result(complete)
        await self._until_durable(shard, complete)
        self._step(Step.COMPLETE_DURABLE)

    def _give_up(self, prepared: Transaction, completed: Completed) -> None:
        """The broker stops, or has a bug. The state stays PREPARE_*; the next request for the id begins a new run."""
        del self._running[prepared.transactional_id]
        completed.set_exception(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the transaction is not complete"))

    async def _complete(self, shard: Shard[TransactionTable], prepared: Transaction) -> Transaction:
        await self._until_durable(shard, prepared)
        self._step(Step.PREPARE_DURABLE)
        await self._write_markers(prepared, marker_of(prepared, shard.log.leader_epoch))
        self._step(Step.MARKERS_DURABLE)
        complete = await self._write_complete(shard, prepared)
        self._step(Step.COMPLETE_APPENDED)
        return complete

    async def _until_durable(self, shard: Shard[TransactionTable], transaction: Transaction) -> None:
        pauses = _Pauses(self._clock)
        while True:
            try:
                return await shard.durable(transaction.offset)
            except KafkaError as error:
                await pauses.next(f"the record of {transaction.transactional_id} is not durable", error)

    async def _write_markers(self, prepared: Transaction, marker: Marker) -> None:
        pauses = _Pauses(self._clock)
        remaining: Collection[TopicPartition] = sorted(prepared.partitions)
        while remaining:
            failed, error = await self._try_to_write_markers(remaining, marker)
            remaining = failed
            if error is not None:
                where = ", ".join(f"{topic}-{partition}" for topic, partition in failed[:5])
                await pauses.next(f"no marker of {prepared.transactional_id} on {where}", error)

    async def _try_to_write_markers(
        self, partitions: Collection[TopicPartition], marker: Marker
    ) -> tuple[list[TopicPartition], KafkaError | None]:
        """Append to all, then wait for all: their syncs run side by side. Gives those that failed, and one reason."""
        failed: list[TopicPartition] = []
        error: KafkaError | None = None
        waits: list[tuple[TopicPartition, asyncio.Future[None]]] = []
        for index, where in enumerate(partitions):
            if index and index % MARKERS_PER_TURN == 0:
                await give_way()
            try:
                log, offset = self._markers.append(where, marker)
            except KafkaError as refusal:
                if refusal.code in _NOTHING_TO_END:
                    logger.warning("marker of producer %d for %s-%d: %s", marker.producer_id, *where, refusal)
                else:
                    failed.append(where)
                    error = refusal
                continue
            waiter = log.when_durable(offset)
            if waiter is not None:
                waits.append((where, waiter))
            if index == 0:
                self._step(Step.FIRST_MARKER_APPENDED)
        self._step(Step.MARKERS_APPENDED)
        synced = await asyncio.gather(*(waiter for _, waiter in waits), return_exceptions=True)
        for (where, _), result in zip(waits, synced, strict=True):
            if isinstance(result, KafkaError):
                failed.append(where)
                error = result
            elif result is not None:
                raise result
        return failed, error

    async def _write_complete(self, shard: Shard[TransactionTable], prepared: Transaction) -> Transaction:
        pauses = _Pauses(self._clock)
        while True:
            current = self._table.get(prepared.transactional_id)
            if current is None or current.offset != prepared.offset:
                raise InvariantBroken(f"{prepared.transactional_id} changed while its transaction was being ended")
            try:
                shard.write([encode(decide.complete(current, self._clock.now_ms()))])
            except KafkaError as error:
                await pauses.next(f"the end of {prepared.transactional_id} is not written", error)
                continue
            complete = self._table.get(prepared.transactional_id)
            if complete is None:
                raise InvariantBroken(f"{prepared.transactional_id} vanished when it was completed")
            return complete


class _Pauses:
    """Growing pauses between attempts; says once what is wrong, not every time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._delay_ms = FIRST_PAUSE_MS
        self._said = False

    async def next(self, what: str, error: KafkaError) -> None:
        if not self._said:
            logger.error("%s: %s; trying again until it works", what, error)
            self._said = True
        await pause(self._clock, self._delay_ms)
        self._delay_ms = min(2 * self._delay_ms, LONGEST_PAUSE_MS)


def _look_at_exception(completed: Completed) -> None:
    """If no request waits for the outcome, asyncio must not complain about an exception that was never read."""
    if not completed.cancelled():
        completed.exception()
