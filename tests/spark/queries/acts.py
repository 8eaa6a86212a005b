"""Acts of cases that cannot go through those that are everybody's."""

from fencepost.spark.sink.steps import BatchStep
from tests.spark.queries import sinks
from tests.spark.queries.case import REFUSED, Act, Check, Death, Grow, LoseCheckpoint, Loss, Run, RunRefused, Write

#: For pipelines that go on only with their checkpoint, though nothing refuses the loss of it.
KEEPING_CHECKPOINT: tuple[Act, ...] = (
    Write(0),
    Run(Death(BatchStep.COMMITTING, passes=1)),
    Run(Death(BatchStep.COMMITTED, passes=1)),
    Run(),
    Write(1),
    Run(Death(BatchStep.COMMITTED)),
    Run(),
    Check(),
)
#: Most batches are passed over, and no death comes to those.
PASSING_OVER: tuple[Act, ...] = (
    Write(0),
    Run(Death(BatchStep.COMMITTING)),
    Run(Death(BatchStep.COMMITTED)),
    Run(Death(BatchStep.COMMITTING)),
    LoseCheckpoint(),
    Run(),
    Write(1),
    Run(Death(BatchStep.COMMITTED)),
    LoseCheckpoint(),
    Run(Death(BatchStep.COMMITTED)),
    Run(),
    Check(),
)
FAILING_AFTER: tuple[Act, ...] = (
    Write(0),
    Run(Death(sinks.AFTER_WRITER)),
    Run(Death(sinks.AFTER_WRITER, passes=1)),
    Run(),
    Write(1),
    Run(Death(sinks.AFTER_WRITER)),
    Run(),
    Check(),
)
#: Between the two waves there is more room.
GROWING: tuple[Act, ...] = (
    Write(0),
    Run(Death(BatchStep.COMMITTED, passes=1)),
    Grow("a"),
    Run(Death(BatchStep.COMMITTING)),
    Write(1),
    Run(Death(BatchStep.COMMITTED)),
    Run(),
    Check(),
    LoseCheckpoint(),
    Run(),
    Check(),
)
#: A wave of files is two batches; a start of a rate source with availableNow is one.
FILES_ACTS: tuple[Act, ...] = (
    Write(0),
    Run(Death(BatchStep.COMMITTING)),
    Run(Death(BatchStep.COMMITTED, passes=1)),
    Run(),
    Write(1),
    Run(Death(BatchStep.COMMITTED)),
    Run(),
    Check(),
    Write(2),
    LoseCheckpoint(),
    RunRefused((REFUSED, Loss.OF_POSITIONS.value)),
)
RATE_ACTS: tuple[Act, ...] = (
    Run(Death(BatchStep.COMMITTING)),
    Run(Death(BatchStep.COMMITTED)),
    Run(),
    Run(),
    Check(),
    LoseCheckpoint(),
    RunRefused((REFUSED, Loss.OF_POSITIONS.value)),
)
#: Rows come as long as it runs; where it dies last a batch has just begun.
ENDLESS_ACTS: tuple[Act, ...] = (
    Run(Death(BatchStep.COMMITTING)),
    Run(Death(BatchStep.COMMITTED, passes=1)),
    Run(Death(BatchStep.DECIDED, passes=1)),
    Check(),
    LoseCheckpoint(),
    RunRefused((REFUSED, Loss.OF_POSITIONS.value)),
)


def acts_of(trigger: str, has_watermark: bool) -> tuple[Act, ...]:
    """Triggered once a query has one batch in a start, and none that has no data."""
    if trigger != "once":
        return ()
    acts: tuple[Act, ...] = (
        Write(0),
        Run(Death(BatchStep.COMMITTING)),
        Run(Death(BatchStep.COMMITTED)),
        Run(),
        Write(1),
        Run(Death(BatchStep.COMMITTED)),
        Run(),
    )
    return (*acts, Write(2), Run(), Write(3), Run(), Check()) if has_watermark else (*acts, Check())
