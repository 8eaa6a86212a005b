"""The numbered steps of ending a transaction, for tests that kill the broker at each of them.

A commit and an abort go through the same steps. Whatever the step, after a restart every partition of the transaction
has to show the same outcome: before PREPARE_APPENDED the transaction is still open (its producer repeats EndTxn, or
the timeout aborts it), from PREPARE_DURABLE on the logged outcome is carried out.
"""

import enum
from collections.abc import Callable


class Step(enum.IntEnum):
    END_REQUESTED = 1  #: EndTxn was accepted, nothing is written
    PREPARE_APPENDED = 2  #: the outcome is in the log of `__transaction_state`, perhaps only in memory
    PREPARE_DURABLE = 3  #: ... and on disk: from here there is no way back
    FIRST_MARKER_APPENDED = 4  #: one partition knows, the others do not
    MARKERS_APPENDED = 5  #: every partition knows, perhaps only in memory
    MARKERS_DURABLE = 6  #: ... and on disk: readers see the outcome
    COMPLETE_APPENDED = 7  #: the coordinator is done with it
    ANSWERED = 8  #: an answer that waited for it (EndTxn, or a successor's InitProducerId) is about to leave
    COMPLETE_DURABLE = 9  #: nothing is left to recover. Comes before or after ANSWERED: nobody waits for it


StepHook = Callable[[Step], None]
