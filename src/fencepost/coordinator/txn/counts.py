"""What became of transactions since the broker started. For metrics; nothing is decided by it.

An end is counted when its PREPARE record is appended: from there on nothing turns it round.
"""

import enum

from fencepost.coordinator.txn.decide import Decision, Then
from fencepost.coordinator.txn.model import Transaction
from fencepost.coordinator.txn.states import TransactionState
from fencepost.metrics.histogram import LONG_BOUNDS_S, NS_PER_MS, Histogram
from fencepost.wire.batch import NO_PRODUCER_EPOCH


class AbortReason(enum.Enum):
    CLIENT = "client"  #: EndTxn(abort)
    TIMEOUT = "timeout"  #: open for longer than its timeout
    FENCED = "fenced"  #: another InitProducerId for the same transactional id


class FenceReason(enum.Enum):
    TAKEOVER = "takeover"  #: a new producer took over the id, also in the normal restart of a client
    TIMEOUT = "timeout"


class TransactionCounts:
    __slots__ = ("aborted", "begun", "committed", "ends", "expired_ids", "fenced", "markers_by_hand", "open_times")

    def __init__(self) -> None:
        self.begun = 0
        self.committed = 0
        self.aborted = dict.fromkeys(AbortReason, 0)
        self.fenced = dict.fromkeys(FenceReason, 0)
        self.expired_ids = 0
        self.markers_by_hand = 0  #: by WriteTxnMarkers, per partition
        self.open_times = Histogram(LONG_BOUNDS_S)  #: from its first partition to the decision on its end
        self.ends = Histogram()  #: from that decision until every marker is durable

    def decided(self, before: Transaction | None, decision: Decision, *, timed_out: bool) -> None:
        """`decision.write` was appended."""
        after = decision.write
        if after is None:
            return
        if after.state is TransactionState.ONGOING:
            if before is None or before.state is not TransactionState.ONGOING:
                self.begun += 1
        elif after.state is TransactionState.EMPTY:
            if before is not None and after.last_producer_epoch == NO_PRODUCER_EPOCH:
                self.fenced[FenceReason.TAKEOVER] += 1
        elif before is not None and before.state is TransactionState.ONGOING:
            self._ended(after, decision, timed_out=timed_out)

    def _ended(self, prepared: Transaction, decision: Decision, *, timed_out: bool) -> None:
        self.open_times.observe_ns(max(0, prepared.updated_ms - prepared.start_ms) * NS_PER_MS)
        if prepared.state is TransactionState.PREPARE_COMMIT:
            self.committed += 1
        elif timed_out:
            self.aborted[AbortReason.TIMEOUT] += 1
            self.fenced[FenceReason.TIMEOUT] += 1
        else:
            is_taken_over = decision.then is Then.DECIDE_AGAIN
            self.aborted[AbortReason.FENCED if is_taken_over else AbortReason.CLIENT] += 1
