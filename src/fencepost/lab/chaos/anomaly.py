"""What a checker finds: a kind, named as in Jepsen, a sentence, and the operations that show it."""

import enum
from dataclasses import dataclass

from fencepost.lab.chaos.history import Op


class Kind(enum.Enum):
    """The value is printed. The comment says what it means."""

    LOST_WRITE = "lost write"  #: acknowledged or committed, and missing in the end
    DUPLICATE = "duplicate"  #: one write, two places
    ABORTED_READ = "aborted read"  #: read_committed saw a record of an aborted transaction (G1a)
    PRECOMMITTED_READ = "precommitted read"  #: read_committed saw a record before its commit was asked for
    TORN_TRANSACTION = "torn transaction"  #: one part of a transaction is there, another is not
    REORDERED = "reordered"  #: a partition holds one producer's records in another order than they were sent
    INCONSISTENT_OFFSET = "inconsistent offset"  #: two records at one offset, or one elsewhere than acknowledged
    VANISHED_READ = "vanished read"  #: a reader saw it, and it is missing in the end
    NON_MONOTONIC_POLL = "non-monotonic poll"  #: a reader went back although it did not seek
    SKIPPED_POLL = "skipped poll"  #: a reader passed over a record that is there
    PHANTOM = "phantom"  #: a record that nobody wrote there
    OFFSET_WENT_BACK = "offset went back"  #: a group's committed offset fell
    WRONG_OFFSET = "wrong offset"  #: an offset that no effective transaction has committed
    NOT_EXACTLY_ONCE = "not exactly once"  #: an input of a loop took effect twice, or never
    STUCK = "stuck"  #: something did not recover after the faults were over
    SURPRISE = "surprise"  #: an answer that no client may get


@dataclass(frozen=True, slots=True)
class Anomaly:
    kind: Kind
    text: str
    ops: tuple[Op, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.text}"
