"""The transaction coordinator: takes requests, has them decided, appends, waits, answers.

Start with `states` (what a transaction can be), then `decide` (what a request does to it) and `completion` (how it
ends). This module keeps the order decide → append → apply → reply, and one rule: **no answer leaves before the state
that it tells is durable**, whichever request wrote it. State is ahead of the disk for the time of a sync. Two requests
that arrive together may depend on the same unsynced record; both wait for it.

Two requests for one transactional id cannot interleave, because deciding, appending and applying are one step on the
event loop. Only ending a transaction takes several steps. It owns the id through its PREPARE_* state (see
`completion`).
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable

from fencepost.clock import Clock, Periodic, within
from fencepost.coordinator.runtime import Replay, Shard, Shards, Topics, retriable_errors
from fencepost.coordinator.txn import decide
from fencepost.coordinator.txn.completion import Completions
from fencepost.coordinator.txn.counts import TransactionCounts
from fencepost.coordinator.txn.decide import Decision, Outcome, Producer, Then
from fencepost.coordinator.txn.markers import Marker, MarkerAppended, Markers
from fencepost.coordinator.txn.model import Transaction, TransactionVersion, encode, tombstone
from fencepost.coordinator.txn.producer_ids import ProducerIds
from fencepost.coordinator.txn.settings import TransactionSettings
from fencepost.coordinator.txn.states import PREPARED, TransactionState
from fencepost.coordinator.txn.steps import Step, StepHook
from fencepost.coordinator.txn.table import TransactionTable
from fencepost.errors import ErrorCode, InvariantBroken, KafkaError
from fencepost.wire.records import Record
from fencepost.wire.terms import TRANSACTION_STATE, TopicPartition

logger = logging.getLogger(__name__)

#: How long a request waits for a transaction of its id that is being ended, before its client is told to retry. Well
#: below the request timeouts of clients, and far above what markers take unless a disk fails.
PATIENCE_MS = 5_000


class TransactionCoordinator:
    def __init__(
        self,
        *,
        topics: Topics,
        clock: Clock,
        settings: TransactionSettings,
        marker_appended: MarkerAppended,
        step: StepHook | None = None,
        counts: TransactionCounts | None = None,
    ) -> None:
        self._clock = clock
        self._settings = settings
        self._step = step or (lambda reached: None)
        self._counts = counts or TransactionCounts()
        self._table = TransactionTable()
        self._shards: Shards[TransactionTable] = Shards(
            TRANSACTION_STATE, topics, lambda partition: self._table, clock, Replay.NEWEST_PER_KEY
        )
        self._producer_ids = ProducerIds(topics.reserve_producer_ids)
        self._markers = Markers(topics, marker_appended)
        self._completions = Completions(self._shards, self._table, self._markers, clock, self._step, self._counts)
        self._periodic = (
            Periodic(
                clock,
                lambda: settings.transaction_abort_timed_out_transaction_cleanup_interval_ms,
                self.abort_timed_out,
            ),
            Periodic(
                clock,
                lambda: settings.transaction_remove_expired_transaction_cleanup_interval_ms,
                self.forget_expired,
            ),
        )

    def start(self) -> None:
        """Replay the log and go on with what was being ended. The group coordinator has to be loaded before."""
        self._shards.load()
        for prepared in self._table.prepared():
            self._completions.of(prepared)
        for job in self._periodic:
            job.start()

    def stop(self) -> None:
        for job in self._periodic:
            job.stop()
        self._completions.stop()

    # -- requests -----------------------------------------------------------------------------------------------------

    async def init_producer_id(
        self, transactional_id: str | None, timeout_ms: int, expected: Producer | None = None
    ) -> Producer:
        """A producer id with an epoch above every one given out before for this transactional id."""
        if transactional_id is None:
            try:
                return Producer(self._producer_ids.take(), 0)
            except KafkaError as error:
                # An idempotent producer has no coordinator to look up again; this makes it ask again.
                raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, error.message) from None
        _check_id(transactional_id)
        if not 0 < timeout_ms <= self._settings.transaction_max_timeout_ms:
            raise KafkaError(
                ErrorCode.INVALID_TRANSACTION_TIMEOUT,
                f"a transaction timeout of {timeout_ms} ms; transaction.max.timeout.ms is "
                f"{self._settings.transaction_max_timeout_ms}",
            )
        transaction = await self._carry_out(
            transactional_id,
            lambda current: decide.init_producer_id(
                current,
                transactional_id,
                timeout_ms,
                expected,
                server_version=TransactionVersion(self._settings.transaction_version),
                spare_id=self._producer_ids.peek(),
                now_ms=self._clock.now_ms(),
            ),
        )
        return Producer(transaction.producer_id, transaction.producer_epoch)

    async def add_partitions(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Collection[TopicPartition],
        client_version: TransactionVersion = TransactionVersion.V0,
    ) -> None:
        """Make the partitions part of the producer's transaction, which begins with the first of them."""
        _check_id(transactional_id)
        await self._carry_out(
            transactional_id,
            lambda current: decide.add_partitions(current, producer, partitions, client_version, self._clock.now_ms()),
        )

    def missing_partitions(
        self, transactional_id: str, producer: Producer, partitions: Iterable[TopicPartition]
    ) -> frozenset[TopicPartition]:
        """Which of these the producer's open transaction does not hold."""
        _check_id(transactional_id)
        return decide.missing_partitions(self._table.get(transactional_id), producer, partitions)

    async def end(
        self, transactional_id: str, producer: Producer, outcome: Outcome, client_version: TransactionVersion
    ) -> Producer:
        """Commit or abort. When it returns the outcome is visible on every partition and survives anything.

        Gives the producer id and epoch for the next transaction, which differ from the old ones from version 2 on.
        """
        _check_id(transactional_id)
        transaction = await self._carry_out(
            transactional_id,
            lambda current: decide.end(
                current,
                producer,
                outcome,
                client_version,
                spare_id=self._producer_ids.peek(),
                now_ms=self._clock.now_ms(),
            ),
        )
        return Producer(transaction.producer_id, transaction.producer_epoch)

    def append_marker(self, where: TopicPartition, marker: Marker) -> "asyncio.Future[None] | None":
        """End a transaction on one partition by hand (WriteTxnMarkers); what to wait for, if anything."""
        log, offset = self._markers.append(where, marker)
        self._counts.markers_by_hand += 1
        return log.when_durable(offset)

    # -- from the produce path ----------------------------------------------------------------------------------------

    def add_partitions_from_produce(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Collection[TopicPartition]
    ) -> Awaitable[None] | None:
        """Register partitions on sight (Produce from v12, TxnOffsetCommit from v5). None: they are, write at once.

        Otherwise await what is returned, and append without another await in between: at the instant it returns the
        partitions are in the open transaction, a moment later that may have timed out.
        """
        transaction = self._table.get(transactional_id)
        if (
            transaction is not None
            and _holds(transaction, producer_id, producer_epoch, partitions)
            and self._shard_of(transaction).is_durable(transaction.offset)
        ):
            return None
        return self._register(transactional_id, Producer(producer_id, producer_epoch), partitions)

    def verify_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        *,
        missing: ErrorCode = ErrorCode.INVALID_TXN_STATE,
    ) -> None:
        """Refuse records for partitions that their client did not register (Produce before v12, TxnOffsetCommit
        before v5).

        Without this a late Produce could open a transaction that nobody ends. `missing` is the code for that: clients
        of Produce v11 and TxnOffsetCommit v4 understand TRANSACTION_ABORTABLE.
        """
        if not self._settings.transaction_partition_verification_enable:
            return
        transaction = self._table.get(transactional_id)
        try:
            absent = decide.missing_partitions(transaction, Producer(producer_id, producer_epoch), partitions)
        except KafkaError as error:
            raise _for_writers(error, concurrent=ErrorCode.NOT_ENOUGH_REPLICAS) from None
        if absent:
            topic, partition = min(absent)
            raise KafkaError(missing, f"{topic}-{partition} is not part of the transaction")

    async def _register(
        self, transactional_id: str, producer: Producer, partitions: Collection[TopicPartition]
    ) -> None:
        try:
            while True:
                await self.add_partitions(transactional_id, producer, partitions, TransactionVersion.V2)
                transaction = self._table.get(transactional_id)
                if transaction is not None and _holds(transaction, *producer, partitions):
                    return
        except KafkaError as error:
            raise _for_writers(error, concurrent=ErrorCode.CONCURRENT_TRANSACTIONS) from None

    # -- for admins ---------------------------------------------------------------------------------------------------

    def describe(self, transactional_id: str) -> Transaction:
        _check_id(transactional_id)
        transaction = self._table.get(transactional_id)
        if transaction is None:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return transaction

    def states(self) -> Counter[TransactionState]:
        """How many ids are in which state."""
        return Counter(transaction.state for transaction in self._table)

    def unfinished(self) -> list[Transaction]:
        """Those that are open or being ended."""
        return [*self._table.open(), *self._table.prepared()]

    def list(
        self, states: Collection[str] = (), producer_ids: Collection[int] = (), longer_than_ms: int = -1
    ) -> list[Transaction]:
        """Those that meet every condition that is given. States are named by their labels."""
        now_ms = self._clock.now_ms()
        return [
            transaction
            for transaction in self._table
            if (not states or transaction.state.label in states)
            and (not producer_ids or transaction.producer_id in producer_ids)
            and (longer_than_ms < 0 or now_ms - transaction.start_ms > longer_than_ms)
        ]

    # -- unasked ------------------------------------------------------------------------------------------------------

    def abort_timed_out(self) -> None:
        """Abort what is open for longer than its timeout, and lock its producer out."""
        version, now_ms = TransactionVersion(self._settings.transaction_version), self._clock.now_ms()
        for transaction in self._table.open():
            if not decide.has_timed_out(transaction, now_ms):
                continue
            name = transaction.transactional_id
            try:
                decision = decide.fence(transaction, version, self._producer_ids.peek(), now_ms)
                self._completions.of(self._write(name, decision, timed_out=True))
            except KafkaError as error:
                logger.warning("%s timed out but cannot be aborted now: %s", name, error)
            else:
                logger.info(
                    "aborting the transaction of %s (producer %d): open for more than %d ms",
                    name,
                    transaction.producer_id,
                    transaction.timeout_ms,
                )

    def forget_expired(self) -> None:
        """Remove ids that were not used for `transactional.id.expiration.ms`."""
        expired: dict[Shard[TransactionTable], list[Record]] = {}
        for transaction in self._table:
            if decide.has_expired(transaction, self._settings.transactional_id_expiration_ms, self._clock.now_ms()):
                shard = self._shards.for_key(transaction.transactional_id)
                expired.setdefault(shard, []).append(tombstone(transaction.transactional_id))
        for shard, tombstones in expired.items():
            try:
                shard.write_many(tombstones)
            except KafkaError as error:
                logger.warning("%d expired transactional ids cannot be removed now: %s", len(tombstones), error)
            else:
                self._counts.expired_ids += len(tombstones)
                logger.info("removed %d transactional ids that were not used any more", len(tombstones))

    # -- decide, append, apply, reply ---------------------------------------------------------------------------------

    async def _carry_out(
        self, transactional_id: str, decision_on: Callable[[Transaction | None], Decision]
    ) -> Transaction:
        """The state to answer from, once durable."""
        deadline_ms = self._clock.monotonic_ms() + PATIENCE_MS
        has_waited_for_an_end = False
        with retriable_errors():
            while True:
                decision = decision_on(self._table.get(transactional_id))
                transaction = self._write(transactional_id, decision)
                if decision.then is Then.REPLY:
                    await self._shard_of(transaction).durable(transaction.offset)
                    break
                completed = self._completions.of(transaction)
                if not await within(self._clock, deadline_ms - self._clock.monotonic_ms(), completed):
                    raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, "the last transaction is still being ended")
                has_waited_for_an_end = True
                transaction = completed.result()
                if decision.then is Then.REPLY_WHEN_COMPLETE:
                    break
        if has_waited_for_an_end:
            self._step(Step.ANSWERED)
        return transaction

    def _write(self, transactional_id: str, decision: Decision, *, timed_out: bool = False) -> Transaction:
        """Append the decision's record, if it has one, and apply it; gives the state after that."""
        if decision.write is not None:
            if decision.takes_spare_id:
                self._producer_ids.take()
            is_end = decision.write.state in PREPARED
            if is_end:
                self._step(Step.END_REQUESTED)
            before = self._table.get(transactional_id)
            self._shards.for_key(transactional_id).write([encode(decision.write)])
            self._counts.decided(before, decision, timed_out=timed_out)
            if is_end:
                self._step(Step.PREPARE_APPENDED)
        transaction = self._table.get(transactional_id)
        if transaction is None:
            raise InvariantBroken(f"a decision on {transactional_id} rests on nothing")
        return transaction

    def _shard_of(self, transaction: Transaction) -> Shard[TransactionTable]:
        shard = self._shards.find(transaction.transactional_id)
        if shard is None:
            raise InvariantBroken(f"{transaction.transactional_id} belongs to no shard")
        return shard


def _check_id(transactional_id: str) -> None:
    if not transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a transactional id must not be empty")


def _holds(
    transaction: Transaction, producer_id: int, producer_epoch: int, partitions: Iterable[TopicPartition]
) -> bool:
    """Whether the producer's open transaction has these partitions. Called for every transactional Produce."""
    return (
        transaction.state is TransactionState.ONGOING
        and transaction.producer_id == producer_id
        and transaction.producer_epoch == producer_epoch
        and transaction.partitions.issuperset(partitions)
    )


_NOT_NOW = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}


def _for_writers(error: KafkaError, *, concurrent: ErrorCode) -> KafkaError:
    """The same error in codes that clients expect from Produce. They did not talk to a coordinator."""
    code = error.code
    if code is ErrorCode.PRODUCER_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    elif code is ErrorCode.CONCURRENT_TRANSACTIONS:
        code = concurrent
    elif code in _NOT_NOW:
        code = ErrorCode.NOT_ENOUGH_REPLICAS
    return KafkaError(code, error.message)
