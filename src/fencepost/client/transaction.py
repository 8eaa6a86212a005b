"""The shared transaction: one process fences, begins and ends it; any number of others write in it.

A Kafka transaction belongs to a producer id and epoch, not to a process or connection. So the driver gets them here
(`init`, then `begin` for each transaction), hands the `ProducerIdentity` to its writers (`writing`), adds its input
offsets (`add_offsets`) and ends the transaction (`commit`, `abort`).

Invariants:

- An epoch serves one transaction. With protocol 2 the end of a transaction raises it; with protocol 1 `begin` does.
- After a commit has been sent, nothing is aborted until its outcome is known. The commit is retried with the same
  epoch, and the coordinator answers with the outcome of the first one. If the outcome is still unknown, the caller gets
  OutcomeUnknown, fences the id (`reclaim`) and reads the committed offsets.
- Only `init` takes an id from another producer. `begin`, `reclaim` and `abort` send their old producer id and epoch
  (KIP-360), and are refused if there is a successor. While a transaction is open, Kafka does not check this strictly
  and would abort a successor's transaction. So they look up the owner first, and ask for nothing if it is another.
"""

import enum
import time
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple, TypeGuard

from fencepost.client.cluster import Cluster, Coordinates
from fencepost.client.fields import producer_fields
from fencepost.client.groups import CommittedOffset
from fencepost.client.identity import ProducerIdentity, TransactionProtocol
from fencepost.client.registration import (
    END_TXN,
    VERSIONS,
    add_group,
    commit_offsets,
    fenced_message,
    protocol_of,
)
from fencepost.client.retry import BUSY, COORDINATOR_MOVED, FENCED, Retry, known_code
from fencepost.client.rights import is_denial
from fencepost.errors import (
    ClientError,
    ConnectionLost,
    ErrorCode,
    Fenced,
    GaveUp,
    InvariantBroken,
    OutcomeUnknown,
    Refused,
    TransactionFailed,
    TransactionTimedOut,
)
from fencepost.wire.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from fencepost.wire.codec import Message
from fencepost.wire.terms import TopicPartition

INIT_PRODUCER_ID, DESCRIBE_TRANSACTIONS = 22, 65
FIRST_THAT_SAYS_WHO_IT_WAS = 3

DEFAULT_TIMEOUT_MS = 60_000
#: In the text of an OutcomeUnknown: one more retry would be refused as well.
RETRY_REFUSED = "its retry was refused"

CONCURRENT = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS})

#: States in DescribeTransactions: an open transaction,
ONGOING = "Ongoing"
#: and one that has been, or is being, aborted.
ABORTED_STATES = frozenset({"PrepareAbort", "CompleteAbort", "PrepareEpochFence"})

#: After these answers the coordinator has certainly not begun to commit.
NOT_BEGUN = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})


class AbortedBy(enum.Enum):
    US = enum.auto()
    TIMEOUT = enum.auto()  #: it exceeded `transaction.timeout.ms`; the coordinator has aborted it or was about to
    EXPIRY = enum.auto()  #: it never began: the coordinator has forgotten the id, which was idle for about a week


class _State(enum.Enum):
    NEW = enum.auto()  #: without an identity
    READY = enum.auto()  #: with an identity that has not been used
    OPEN = enum.auto()
    COMMITTING = enum.auto()  #: a commit may have been sent
    SPENT = enum.auto()  #: the epoch has been used; `reclaim` gets the next one


class _Owner(NamedTuple):
    """The owner of the id, as the coordinator knows it."""

    producer_id: int
    epoch: int
    state: str


class SharedTransaction:
    """One transactional id, and one transaction of it after the other.

    transaction = SharedTransaction(cluster, "shop")
    transaction.init()
    identity = transaction.begin()          # hand it to writers, wait for them
    transaction.add_offsets("shop", offsets)
    transaction.commit()                    # and begin again
    """

    def __init__(
        self,
        cluster: Cluster,
        transactional_id: str,
        *,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
        protocol: TransactionProtocol | None = None,
    ) -> None:
        """The default `protocol` is the cluster's newest. A cluster with protocol 2 also speaks protocol 1."""
        self._cluster = cluster
        self._protocol = protocol
        self._transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._identity: ProducerIdentity | None = None
        self._state = _State.NEW
        self._opened_s = 0.0
        self._in_doubt = False  #: a commit has been sent, and its outcome is unknown

    @property
    def identity(self) -> ProducerIdentity:
        if self._identity is None:
            raise InvariantBroken("a transaction has no identity before init")
        return self._identity

    @property
    def is_open(self) -> bool:
        return self._state is _State.OPEN

    @property
    def open_for_s(self) -> float:
        return time.monotonic() - self._opened_s if self._state in (_State.OPEN, _State.COMMITTING) else 0.0

    @property
    def is_overdue(self) -> bool:
        """Whether it is open for longer than its timeout: the coordinator aborts it."""
        return 1000 * self.open_for_s >= self._timeout_ms

    # -- identity ----------------------------------------------------------------------------------------------------

    def init(self) -> ProducerIdentity:
        """Take the id over. Its former owner is fenced, and what it left open is aborted."""
        protocol = self._protocol or protocol_of(self._cluster)
        answer, code = self._init_producer_id(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
        if code is ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            raise Refused(
                code, f"transaction.timeout.ms={self._timeout_ms} exceeds the broker's transaction.max.timeout.ms"
            )
        if code:
            raise self._refused(INIT_PRODUCER_ID, code)
        return self._take(answer, protocol)

    def begin(self) -> ProducerIdentity:
        """Begin one more transaction. Writers may use its identity from now on."""
        if self._state is _State.SPENT:
            self.reclaim()
        self._require("begin a transaction", _State.READY)
        self._state, self._opened_s = _State.OPEN, time.monotonic()
        return self.identity

    def reclaim(self) -> ProducerIdentity:
        """Fence our own old epoch and get the next identity. Raises Fenced if there is a successor.

        Afterwards the outcome of the last transaction is final.
        """
        self._require("reclaim", _State.READY, _State.OPEN, _State.COMMITTING, _State.SPENT)
        identity = self.identity
        self._state = _State.COMMITTING if self._in_doubt else _State.SPENT
        retry = Retry(f"reclaiming {identity}", self._cluster.settings)
        while True:
            owner = self._owner()
            if owner is not None and self._is_successor(owner):
                raise self._fenced(ErrorCode.PRODUCER_FENCED)
            expected = (owner.producer_id, owner.epoch) if self._is_aborted(owner) else _who(identity)
            answer, code = self._init_producer_id(*expected, again=COORDINATOR_MOVED | BUSY - CONCURRENT)
            if not code:
                return self._take(answer, identity.protocol)
            if code in FENCED and (owner is None or self._owner() == owner):
                raise self._fenced(code)
            if code is ErrorCode.INVALID_PRODUCER_ID_MAPPING:
                raise self._fenced(code)
            if code not in FENCED | CONCURRENT:
                raise self._refused(INIT_PRODUCER_ID, code)
            retry.wait(code)

    def _take(self, answer: Message, protocol: TransactionProtocol) -> ProducerIdentity:
        self._identity = ProducerIdentity(self._transactional_id, answer.producer_id, answer.producer_epoch, protocol)
        self._state, self._in_doubt = _State.READY, False
        return self._identity

    def _init_producer_id(
        self, producer_id: int, epoch: int, again: AbstractSet[ErrorCode] = COORDINATOR_MOVED | BUSY
    ) -> tuple[Message, ErrorCode]:
        fields = producer_fields(self._transactional_id, producer_id, epoch)
        fields["transaction_timeout_ms"] = self._timeout_ms
        what = f"fencing transactional id {self._transactional_id!r}"
        return self._ask(INIT_PRODUCER_ID, fields, what=what, lowest=FIRST_THAT_SAYS_WHO_IT_WAS, again=again)

    # -- what is in it -----------------------------------------------------------------------------------------------

    def add_offsets(self, group: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commit these offsets of the group with the transaction."""
        self._require("add offsets", _State.OPEN)
        if not offsets:
            return
        if self.identity.protocol is TransactionProtocol.V1:
            add_group(self._cluster, self.identity, group)
        commit_offsets(self._cluster, self.identity, group, offsets)

    # -- its end -----------------------------------------------------------------------------------------------------

    def commit(self, timeout_s: float | None = None) -> None:
        """Commit; returns when the commit is decided.

        Raises TransactionFailed or Fenced if it is certain that nothing was committed, else OutcomeUnknown. Then call
        `commit` again, or call `reclaim` and look at the group's offsets.
        """
        self._require("commit", _State.OPEN, _State.COMMITTING)
        self._state = _State.COMMITTING
        retry = Retry(f"commit of {self.identity}", self._cluster.settings, timeout_s)
        while True:
            reason: object
            try:
                answer = self._send_commit()
                if answer is None:
                    return
                reason = answer
            except ConnectionLost as error:
                reason = error
            if not isinstance(reason, ErrorCode) or reason in COORDINATOR_MOVED:
                self._cluster.forget_coordinator(Coordinates.TRANSACTION, self._transactional_id)
            try:
                retry.wait(reason)
            except GaveUp as error:
                raise self._gave_up(error) from None

    def _send_commit(self) -> ErrorCode | None:
        """Send one EndTxn. Returns None if it is done, or the code if it must be sent again."""
        connection = self._cluster.coordinator(Coordinates.TRANSACTION, self._transactional_id)
        version = connection.version(END_TXN, *VERSIONS[self.identity.protocol][END_TXN])
        was_in_doubt, self._in_doubt = self._in_doubt, True  # from here on it may be carried out
        fields = {**self.identity.fields, "committed": True}
        answer = connection.call(END_TXN, fields, lowest=version, highest=version)
        code = known_code(answer.error_code)
        if not code:
            self._ended(answer)
            return None
        if code in NOT_BEGUN:
            self._in_doubt = was_in_doubt
        if code in COORDINATOR_MOVED or code in BUSY:
            return code
        raise self._not_committed(code, in_doubt=was_in_doubt)

    def abort(self) -> AbortedBy:
        """Abort. Its writers are refused from now on.

        With protocol 1 the markers of an EndTxn have the epoch of the writers. A broker before Kafka 3.6 takes records
        that arrive later in that epoch for a new transaction. Nobody ends it, or the producer's next commit does, with
        the records. So the id is reclaimed instead: then the markers have the next epoch.
        """
        if self._state is _State.COMMITTING:
            raise InvariantBroken("a commit may have been sent, so the transaction cannot be aborted: reclaim it")
        if self._state is not _State.OPEN:
            return AbortedBy.US
        # A coordinator that has aborted after the timeout takes our abort for a retry and confirms it. So use the time.
        by = AbortedBy.TIMEOUT if self.is_overdue else AbortedBy.US
        self._state = _State.SPENT
        if self.identity.protocol is TransactionProtocol.V1 and (owner := self._owner()) is not None:
            if self._is_aborted(owner):
                return AbortedBy.TIMEOUT
            if (owner.producer_id, owner.epoch) != _who(self.identity):
                raise self._fenced(ErrorCode.PRODUCER_FENCED)
            self.reclaim()
            return by
        return self._send_abort(by)

    def _send_abort(self, by: AbortedBy) -> AbortedBy:
        fields = {**self.identity.fields, "committed": False}
        lowest, highest = VERSIONS[self.identity.protocol][END_TXN]
        answer, code = self._ask(END_TXN, fields, what=f"abort of {self.identity}", lowest=lowest, highest=highest)
        if not code:
            self._ended(answer)
        elif code is ErrorCode.INVALID_TXN_STATE:
            pass  # nothing had been written, so there is nothing to abort
        elif code in FENCED and self._is_aborted(self._owner()):
            return AbortedBy.TIMEOUT
        elif code is ErrorCode.INVALID_PRODUCER_ID_MAPPING:
            return AbortedBy.EXPIRY  # an id with an open transaction is not forgotten; `reclaim` sees a successor
        elif code in FENCED:
            raise self._fenced(code)
        else:
            raise self._refused(END_TXN, code)
        return by

    # -- inside ------------------------------------------------------------------------------------------------------

    def _require(self, what: str, *states: _State) -> None:
        if self._state not in states:
            raise InvariantBroken(f"cannot {what} while the transaction is {self._state.name}")

    def _ask(self, api_key: int, fields: Mapping[str, Any], **more: Any) -> tuple[Message, ErrorCode]:
        """Ask the transaction's coordinator; `more` is as for `Cluster.call_coordinator`."""
        return self._cluster.call_coordinator(Coordinates.TRANSACTION, self._transactional_id, api_key, fields, **more)

    def _ended(self, answer: Message) -> None:
        """Protocol 2 answers with the next transaction's identity."""
        if answer.producer_id != NO_PRODUCER_ID:
            self._take(answer, self.identity.protocol)
        else:
            self._state, self._in_doubt = _State.SPENT, False

    def _not_committed(self, code: ErrorCode, *, in_doubt: bool) -> ClientError:
        """The error for a final refusal of EndTxn. `in_doubt`: an earlier EndTxn may have succeeded."""
        identity = self.identity
        aborted = code in FENCED | {ErrorCode.INVALID_TXN_STATE} and self._is_aborted(self._owner())
        # With protocol 1 a commit does not change the epoch, so a raised epoch says nothing about this transaction.
        if aborted and (identity.protocol is TransactionProtocol.V2 or not in_doubt):
            open_for_s = self.open_for_s
            self._state, self._in_doubt = _State.SPENT, False
            if 1000 * open_for_s < self._timeout_ms:
                return TransactionFailed(f"transaction {identity} was aborted: another producer took over its id")
            return timed_out(identity, open_for_s, self._timeout_ms)
        if code is ErrorCode.INVALID_TXN_STATE:
            self._state, self._in_doubt = _State.SPENT, False
            return TransactionFailed(f"transaction {identity} cannot be committed, it is not open: {code.name}")
        if in_doubt or code is ErrorCode.UNKNOWN_SERVER_ERROR:
            return OutcomeUnknown(f"the commit of {identity} was sent, and {RETRY_REFUSED}: {code.name}")
        self._in_doubt = False
        if code in FENCED or code is ErrorCode.INVALID_PRODUCER_ID_MAPPING:
            self._state = _State.SPENT
            return self._fenced(code)
        self._state = _State.OPEN
        if is_denial(code):
            return self._refused(END_TXN, code)
        return TransactionFailed(f"the commit of {identity} was refused: {code.name}")

    def _gave_up(self, error: GaveUp) -> ClientError:
        if self._in_doubt:
            return OutcomeUnknown(f"{error}; the commit may have been carried out")
        self._state = _State.OPEN
        return TransactionFailed(f"{error}; the commit was not sent")

    def _refused(self, api_key: int, code: ErrorCode) -> ClientError:
        name = self._transactional_id
        return self._cluster.refusal(api_key, code, name, f"transactional id {name!r}")

    def _fenced(self, code: ErrorCode) -> Fenced:
        return Fenced(fenced_message(self.identity, code))

    def _is_aborted(self, owner: _Owner | None) -> TypeGuard[_Owner]:
        """Whether the coordinator has aborted our transaction, and nobody has taken over the id since.

        The coordinator raises the epoch by one when it aborts after the timeout. A successor takes the id over in two
        steps: the same abort, then an epoch of its own. After the first step nobody owns the raised epoch yet.
        """
        identity = self.identity
        return (
            owner is not None
            and (owner.producer_id, owner.epoch) == (identity.producer_id, identity.epoch + 1)
            and owner.state in ABORTED_STATES
        )

    def _is_successor(self, owner: _Owner) -> bool:
        """Whether the id is certainly another producer's. An epoch that is one higher may be ours, in a lost answer."""
        identity = self.identity
        if (owner.producer_id, owner.epoch) == _who(identity):
            return False
        is_beyond = owner.producer_id == identity.producer_id and owner.epoch > identity.epoch + 1
        return is_beyond or owner.state == ONGOING

    def _owner(self) -> _Owner | None:
        """The owner as the coordinator knows it; None if it does not say (before Kafka 3.0) or is unreachable."""
        try:
            answer, code = self._ask(
                DESCRIBE_TRANSACTIONS,
                {"transactional_ids": [self._transactional_id]},
                what=f"state of transaction {self.identity}",
                code_of=lambda answer: int(answer.transaction_states[0].error_code),
            )
        except ClientError:
            return None
        found = answer.transaction_states[0]
        return None if code else _Owner(found.producer_id, found.producer_epoch, found.transaction_state)


def timed_out(identity: ProducerIdentity, open_for_s: float, timeout_ms: int) -> TransactionTimedOut:
    return TransactionTimedOut(
        f"transaction {identity} was open for {open_for_s:.1f} s, longer than transaction.timeout.ms={timeout_ms}, and "
        "was aborted: raise that setting, or make batches smaller"
    )


def _who(identity: ProducerIdentity) -> tuple[int, int]:
    return identity.producer_id, identity.epoch
