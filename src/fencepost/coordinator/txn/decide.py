"""What the coordinator does with a request, as pure functions: state and request in, a decision out.

Nothing here writes, waits, reads a clock or draws an id: `now_ms` and `spare_id` (the next unused producer id) are
handed in. A refusal is a KafkaError with the code that Kafka gives. `states.move` guards every change as well.

If a transaction of the id is being ended, Kafka answers CONCURRENT_TRANSACTIONS and the client asks again. Here the
decision says so, and the coordinator waits for a while on the client's behalf.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from fencepost.coordinator.txn.model import (
    LAST_CLIENT_EPOCH,
    MAX_EPOCH,
    NO_PARTITIONS,
    Transaction,
    TransactionVersion,
)
from fencepost.coordinator.txn.states import AT_REST, PREPARED, Event, TransactionState, move
from fencepost.errors import ErrorCode, KafkaError
from fencepost.wire.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP
from fencepost.wire.terms import TopicPartition


class Producer(NamedTuple):
    """Who asks: the id and epoch in a request."""

    producer_id: int
    epoch: int


class Outcome(enum.Enum):
    COMMIT = True
    ABORT = False


class Then(enum.Enum):
    """What is to happen once the decision's record, if it has one, is appended."""

    REPLY = enum.auto()  #: as soon as what the answer rests on is durable
    REPLY_WHEN_COMPLETE = enum.auto()  #: as soon as every marker is durable
    DECIDE_AGAIN = enum.auto()  #: when the transaction that is being ended is complete


@dataclass(frozen=True, slots=True)
class Decision:
    then: Then
    write: Transaction | None = None
    takes_spare_id: bool = False


# -- InitProducerId ---------------------------------------------------------------------------------------------------


def init_producer_id(
    current: Transaction | None,
    transactional_id: str,
    timeout_ms: int,
    expected: Producer | None,
    *,
    server_version: TransactionVersion,
    spare_id: int,
    now_ms: int,
) -> Decision:
    """A producer takes over the id, or (KIP-360, with `expected`) goes on after an error under a new epoch."""
    if current is None:
        first = Transaction(transactional_id, spare_id, 0, timeout_ms, TransactionState.EMPTY, now_ms)
        return Decision(Then.REPLY, first, takes_spare_id=True)
    if expected is not None and not _may_continue(current, expected):
        raise KafkaError(ErrorCode.PRODUCER_FENCED, "another producer has taken over this transactional id")
    if current.state in PREPARED:
        return Decision(Then.DECIDE_AGAIN)
    if current.state is TransactionState.ONGOING:
        return fence(current, server_version, spare_id, now_ms)

    rested = replace(
        current,
        state=move(current.state, Event.INIT),
        timeout_ms=timeout_ms,
        partitions=NO_PARTITIONS,
        start_ms=NO_TIMESTAMP,
        updated_ms=now_ms,
    )
    if expected is not None and _is_repeated_init(current, expected):
        # The epoch that it was given already, and everything by which a third attempt can be recognised, stay.
        return Decision(Then.REPLY, rested)
    owner = Producer(spare_id, 0) if current.epoch_is_exhausted else Producer(current.producer_id, _up(current))
    write = replace(
        rested,
        producer_id=owner.producer_id,
        producer_epoch=owner.epoch,
        previous_producer_id=current.producer_id,
        # Of a new owner's predecessor nothing may be taken for a repetition.
        last_producer_epoch=NO_PRODUCER_EPOCH if expected is None else current.producer_epoch,
    )
    return Decision(Then.REPLY, write, takes_spare_id=current.epoch_is_exhausted)


def _may_continue(current: Transaction, expected: Producer) -> bool:
    """Whether the producer that says it is `expected` is still the owner.

    Stricter than Kafka, which looks at the producer id alone while a transaction is open, so that a zombie can have its
    successor's transaction aborted. An epoch that is one behind is the owner too when it is its own request repeated
    after a lost answer; but not while a transaction is open, since then the answer was not lost.
    """
    if expected.producer_id == current.producer_id and expected.epoch == current.producer_epoch:
        return True
    if current.state is TransactionState.ONGOING:
        return False
    return _is_repeated_init(current, expected)


def _is_repeated_init(current: Transaction, expected: Producer) -> bool:
    if expected.epoch != current.last_producer_epoch or expected.epoch == NO_PRODUCER_EPOCH:
        return False
    has_rotated = expected.producer_id == current.previous_producer_id and expected.epoch >= LAST_CLIENT_EPOCH
    return expected.producer_id == current.producer_id or has_rotated


def _up(current: Transaction) -> int:
    return min(current.producer_epoch + 1, MAX_EPOCH)


def fence(current: Transaction, server_version: TransactionVersion, spare_id: int, now_ms: int) -> Decision:
    """Abort an open transaction against its producer's will, which is locked out by the same record (one epoch up)."""
    state = move(move(current.state, Event.FENCE), Event.ABORT)
    write = _with_raised_epoch(current, state, server_version, spare_id, now_ms)
    return Decision(Then.DECIDE_AGAIN, write, takes_spare_id=current.epoch_is_exhausted)


# -- AddPartitionsToTxn, AddOffsetsToTxn, Produce ---------------------------------------------------------------------


def add_partitions(
    current: Transaction | None,
    producer: Producer,
    partitions: Iterable[TopicPartition],
    client_version: TransactionVersion,
    now_ms: int,
) -> Decision:
    if current is None:
        raise _unknown_id()
    if current.state in PREPARED:
        # Before the epoch is looked at: a client may use its next epoch while its last transaction is being completed.
        return Decision(Then.DECIDE_AGAIN)
    _check_owner(current, producer)
    is_open = current.state is TransactionState.ONGOING
    if is_open and current.partitions.issuperset(partitions):
        return Decision(Then.REPLY)
    write = replace(
        current,
        state=move(current.state, Event.ADD),
        partitions=current.partitions.union(partitions),
        start_ms=current.start_ms if is_open else now_ms,
        previous_producer_id=current.producer_id,
        client_version=client_version,
        updated_ms=now_ms,
    )
    return Decision(Then.REPLY, write)


def missing_partitions(
    current: Transaction | None, producer: Producer, partitions: Iterable[TopicPartition]
) -> frozenset[TopicPartition]:
    """Verification (KIP-890, part 1): which of the partitions are not in the producer's open transaction."""
    if current is None:
        raise _unknown_id()
    _check_owner(current, producer)
    if current.state in PREPARED:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    return frozenset(partitions) - current.partitions


def _check_owner(current: Transaction, producer: Producer) -> None:
    if producer.producer_id != current.producer_id:
        raise _unknown_id()
    if producer.epoch != current.producer_epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED, f"epoch {producer.epoch} is not the current one")


def _unknown_id() -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_PRODUCER_ID_MAPPING, "the producer id is not the one assigned to this transactional id"
    )


# -- EndTxn -----------------------------------------------------------------------------------------------------------


def end(
    current: Transaction | None,
    producer: Producer,
    outcome: Outcome,
    client_version: TransactionVersion,
    *,
    spare_id: int,
    now_ms: int,
) -> Decision:
    if current is None:
        raise _unknown_id()
    if client_version >= TransactionVersion.V2:
        return _end_v2(current, producer, outcome, client_version, spare_id, now_ms)
    return _end_v1(current, producer, outcome, client_version, now_ms)


def _end_v1(
    current: Transaction, producer: Producer, outcome: Outcome, client_version: TransactionVersion, now_ms: int
) -> Decision:
    """The epoch stays, so a repeated EndTxn looks like the first one: the state tells them apart, as far as it can."""
    _check_owner(current, producer)
    if current.state is TransactionState.ONGOING:
        write = replace(
            current,
            state=move(current.state, _EVENT[outcome]),
            previous_producer_id=current.producer_id,
            client_version=client_version,
            updated_ms=now_ms,
        )
        return Decision(Then.REPLY_WHEN_COMPLETE, write)
    if current.state is _PREPARED_FOR[outcome]:
        return Decision(Then.REPLY_WHEN_COMPLETE)
    if current.state is _COMPLETE_FOR[outcome]:
        return Decision(Then.REPLY)
    raise _wrong_state(current, outcome)


def _end_v2(
    current: Transaction,
    producer: Producer,
    outcome: Outcome,
    client_version: TransactionVersion,
    spare_id: int,
    now_ms: int,
) -> Decision:
    """Every end raises the epoch, so a repeated EndTxn (its epoch is one behind) is never taken for the next one."""
    state = current.state
    is_repeated = _is_repeated_end(current, producer)
    if producer.producer_id != current.producer_id and not is_repeated:
        raise _unknown_id()
    if is_repeated and state not in (TransactionState.EMPTY, TransactionState.ONGOING):
        return _answer_repeated_end(current, outcome)
    if producer.epoch != current.producer_epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED, f"epoch {producer.epoch} is not the current one")
    if state in PREPARED:
        return Decision(Then.DECIDE_AGAIN)
    if state in AT_REST:
        if outcome is Outcome.COMMIT:
            raise _wrong_state(current, outcome)
        next_state, start_ms = move(state, Event.ABORT_NOTHING), now_ms
    else:
        next_state, start_ms = move(state, _EVENT[outcome]), current.start_ms
    write = _with_raised_epoch(replace(current, start_ms=start_ms), next_state, client_version, spare_id, now_ms)
    return Decision(Then.REPLY_WHEN_COMPLETE, write, takes_spare_id=current.epoch_is_exhausted)


def _is_repeated_end(current: Transaction, producer: Producer) -> bool:
    """Whether the present epoch was raised by ending the transaction of this very epoch.

    Kafka takes any epoch that is one behind. But that may be a predecessor's, whose successor speaks the old protocol:
    it would be handed the successor's own producer id and epoch.
    """
    if producer.epoch == NO_PRODUCER_EPOCH or producer.epoch != current.last_producer_epoch:
        return False
    if producer.producer_id == current.producer_id:
        return producer.epoch + 1 == current.producer_epoch
    has_rotated = producer.producer_id == current.previous_producer_id and current.producer_epoch == 0
    return has_rotated and producer.epoch == LAST_CLIENT_EPOCH


def _answer_repeated_end(current: Transaction, outcome: Outcome) -> Decision:
    if current.state is _PREPARED_FOR[outcome]:
        return Decision(Then.REPLY_WHEN_COMPLETE)
    if current.state is _COMPLETE_FOR[outcome]:
        return Decision(Then.REPLY)
    if outcome is Outcome.COMMIT:
        # Its client asked for no abort, so the coordinator aborted on its own, after a timeout (KAFKA-20785).
        raise KafkaError(ErrorCode.PRODUCER_FENCED, "the transaction was aborted, most likely after its timeout")
    raise _wrong_state(current, outcome)


def _with_raised_epoch(
    current: Transaction, state: TransactionState, version: TransactionVersion, spare_id: int, now_ms: int
) -> Transaction:
    """The PREPARE record whose epoch locks out what is still on its way under the old one. The markers carry it.

    A producer id without epochs left names its successor, which takes over at completion (KAFKA-18660, KAFKA-20090).
    """
    return replace(
        current,
        state=state,
        producer_epoch=_up(current),
        last_producer_epoch=current.producer_epoch,
        previous_producer_id=current.producer_id,
        next_producer_id=spare_id if current.epoch_is_exhausted else NO_PRODUCER_ID,
        client_version=version,
        updated_ms=now_ms,
    )


def complete(current: Transaction, now_ms: int) -> Transaction:
    """The record that closes a transaction, every marker of which is durable."""
    rotates = current.next_producer_id != NO_PRODUCER_ID
    return replace(
        current,
        state=move(current.state, Event.MARKERS_WRITTEN),
        producer_id=current.next_producer_id if rotates else current.producer_id,
        producer_epoch=0 if rotates else current.producer_epoch,
        previous_producer_id=current.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        partitions=NO_PARTITIONS,
        updated_ms=now_ms,
    )


def _wrong_state(current: Transaction, outcome: Outcome) -> KafkaError:
    message = f"{outcome.name.lower()} is not possible while the transaction is {current.state.label}"
    return KafkaError(ErrorCode.INVALID_TXN_STATE, message)


_EVENT = {Outcome.COMMIT: Event.COMMIT, Outcome.ABORT: Event.ABORT}
_PREPARED_FOR = {
    Outcome.COMMIT: TransactionState.PREPARE_COMMIT,
    Outcome.ABORT: TransactionState.PREPARE_ABORT,
}
_COMPLETE_FOR = {
    Outcome.COMMIT: TransactionState.COMPLETE_COMMIT,
    Outcome.ABORT: TransactionState.COMPLETE_ABORT,
}


# -- time -------------------------------------------------------------------------------------------------------------


def has_timed_out(current: Transaction, now_ms: int) -> bool:
    return current.state is TransactionState.ONGOING and current.start_ms + current.timeout_ms < now_ms


def has_expired(current: Transaction, expiration_ms: int, now_ms: int) -> bool:
    """The id may be forgotten. Its tombstone is the move to DEAD."""
    if current.state not in AT_REST or current.updated_ms > now_ms - expiration_ms:
        return False
    return move(current.state, Event.EXPIRE) is TransactionState.DEAD
