"""The numbered steps of a batch in the driver, for tests and scenarios that kill or stop it at each of them.

Whatever the step, the next start of the pipeline has to end with every input record in effect once: up to COMMITTING
the batch is undone and run again, from COMMITTED on it is skipped, and in between Kafka knows which.
"""

import enum
from collections.abc import Callable


class Step(enum.IntEnum):
    FENCED = 1  #: the transactional id is ours, what is committed has been read
    DECIDED = 2  #: the batch is going to be run
    WRITING = 3  #: the first writer has its permit: the transaction is open
    WRITTEN = 4  #: every record is in Kafka, none of them visible
    OFFSETS_ADDED = 5  #: the input's offsets and the ledger are in the transaction as well
    COMMITTING = 6  #: EndTxn is about to be sent
    COMMITTED = 7  #: Kafka has acknowledged it; Spark's checkpoint does not know yet


StepHook = Callable[[Step, int], None]


def no_hook(step: Step, batch_id: int) -> None:
    """What runs at every step outside of tests."""


#: Called with the step and the number of the batch, in the driver's process.
hook: StepHook = no_hook
