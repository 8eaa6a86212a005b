"""The numbered steps of a batch in the driver, for tests and scenarios that kill or stop it at each of them.

After a death at any step, the next start of the pipeline must bring every input record into effect once. Before
COMMITTING the batch is aborted and run again. After COMMITTED it is skipped. In between Kafka knows which.
"""

import enum
from collections.abc import Callable


class BatchStep(enum.IntEnum):
    FENCED = 1  #: the transactional id is ours, and the committed offsets have been read
    DECIDED = 2  #: the batch will run
    WRITING = 3  #: the transaction is open, for the first writer
    WRITTEN = 4  #: every record is in Kafka, none is visible
    OFFSETS_ADDED = 5  #: the input offsets and the ledger entry are in the transaction, too
    COMMITTING = 6  #: EndTxn is about to be sent
    COMMITTED = 7  #: Kafka has acknowledged the commit; Spark's checkpoint does not have the batch yet


StepHook = Callable[[BatchStep, int], None]


def no_hook(step: BatchStep, batch_id: int) -> None:
    """Outside of tests."""


#: Called with the step and the number of the batch, in the driver's process.
hook: StepHook = no_hook
