"""What happens in a case: waves are written, the query runs to its end or dies, its checkpoint is lost. Data only.

`default_acts` are what every case goes through unless it names other ones.
"""

import enum
from dataclasses import dataclass

from fencepost.spark.sink.steps import BatchStep

COMMIT_SENT = "ENDTXN_SENT"
#: A sink that does something after its writer may die there.
AFTER_WRITER = "AFTER_WRITER"


class Loss(enum.Enum):
    """What becomes of a pipeline whose checkpoint is deleted: it continues, or it is refused with these words."""

    CONTINUES = ""  #: Kafka holds all that it needs
    OF_STATE = "the state of Spark's own stateful operators"
    OF_POSITIONS = "the position of "  #: of a source that is not Kafka
    OF_START = "does not continue where the pipeline stopped, and would repeat records"  #: it begins with the earliest


class How(enum.Enum):
    """How a run is ended on its way."""

    PLAYED = enum.auto()  #: the pipeline raises what nothing in it catches, and is never heard of again
    KILLED = enum.auto()  #: a driver of its own, and its JVM, get SIGKILL
    STOPPED = enum.auto()  #: somebody calls `query.stop()`, and it ends without an error
    REPEATED = enum.auto()  #: not at all: an attempt fails, or its outcome is not known, and the sink makes another


@dataclass(frozen=True, slots=True)
class Death:
    """Of the driver, or what else `how` says, when it comes to `point` once more than `passes` times in a run."""

    point: BatchStep | str
    passes: int = 0
    how: How = How.PLAYED


@dataclass(frozen=True, slots=True)
class Write:
    wave: int  #: of all sources; those beyond the last are sentinels


@dataclass(frozen=True, slots=True)
class Run:
    """To the end of what is there, or to its death."""

    death: Death | None = None


@dataclass(frozen=True, slots=True)
class LoseCheckpoint:
    pass


@dataclass(frozen=True, slots=True)
class Grow:
    """A source gets one more topic if it is subscribed by a pattern, else twice as many partitions."""

    source: str


@dataclass(frozen=True, slots=True)
class Check:
    """Compare what is committed."""


@dataclass(frozen=True, slots=True)
class RunRefused:
    """The query ends with our error about the lost checkpoint, and nothing has changed."""

    loss: Loss

    @property
    def words(self) -> tuple[str, str]:
        return "fencepost.errors.BatchRefused: ", self.loss.value


Act = Write | Run | LoseCheckpoint | Grow | Check | RunRefused
Acts = tuple[Act, ...]

#: The driver dies before or after Kafka's commit of its first batch, or of its second.
DIE_BEFORE, DIE_BEFORE_2ND = Run(Death(BatchStep.COMMITTING)), Run(Death(BatchStep.COMMITTING, passes=1))
DIE_AFTER, DIE_AFTER_2ND = Run(Death(BatchStep.COMMITTED)), Run(Death(BatchStep.COMMITTED, passes=1))
DIE_AFTER_WRITER, DIE_AFTER_2ND_WRITER = Run(Death(AFTER_WRITER)), Run(Death(AFTER_WRITER, passes=1))
REFUSED_LATER: Acts = (LoseCheckpoint(), RunRefused(Loss.OF_POSITIONS))


def default_acts(waves: int, loss: Loss, *, has_watermark: bool) -> Acts:
    """Die before Kafka's commit, die after it and before Spark's, end, with an attempt that fails on the way.

    More input: die; go on, without a checkpoint if that is possible.
    """
    acts: list[Act] = [Write(0), DIE_BEFORE_2ND, DIE_AFTER_2ND, Run(Death(BatchStep.WRITTEN, how=How.REPEATED))]
    acts += [Write(1), DIE_AFTER]
    if loss is Loss.CONTINUES:
        acts += [LoseCheckpoint()]
    acts += [Run()]
    if has_watermark:
        acts += [Write(waves), Run(), Write(waves + 1), Run()]
    acts += [Check()]
    if loss is not Loss.CONTINUES:
        acts += [Write(waves), LoseCheckpoint(), RunRefused(loss)]
    return tuple(acts)


#: For pipelines that go on only with their checkpoint, though nothing refuses the loss of it.
KEEPING_CHECKPOINT: Acts = (Write(0), DIE_BEFORE_2ND, DIE_AFTER_2ND, Run(), Write(1), DIE_AFTER, Run(), Check())
#: Most batches are passed over, and no death comes to those.
PASSING_OVER: Acts = (
    *(Write(0), DIE_BEFORE, DIE_AFTER, DIE_BEFORE, LoseCheckpoint(), Run()),
    *(Write(1), DIE_AFTER, LoseCheckpoint(), DIE_AFTER, Run(), Check()),
)
FAILING_AFTER: Acts = (
    *(Write(0), DIE_AFTER_WRITER, DIE_AFTER_2ND_WRITER, Run()),
    *(Write(1), DIE_AFTER_WRITER, Run(), Check()),
)
FAILING_AFTER_WINDOWS: Acts = (*FAILING_AFTER[:-1], Write(2), DIE_AFTER_WRITER, Run(), Write(3), Run(), Check())
#: Between the two waves there is more room.
GROWING: Acts = (
    *(Write(0), DIE_AFTER_2ND, Grow("a"), DIE_BEFORE, Write(1), DIE_AFTER, Run(), Check()),
    *(LoseCheckpoint(), Run(), Check()),
)
#: A wave of files is two batches; a start of a rate source with availableNow is one.
FILES_ACTS: Acts = (
    *(Write(0), DIE_BEFORE, DIE_AFTER_2ND, Run(), Write(1), DIE_AFTER, Run(), Check()),
    *(Write(2), *REFUSED_LATER),
)
RATE_ACTS: Acts = (DIE_BEFORE, DIE_AFTER, Run(), Run(), Check(), *REFUSED_LATER)
#: Rows come as long as it runs; where it dies last a batch has just begun.
ENDLESS_ACTS: Acts = (DIE_BEFORE, DIE_AFTER_2ND, Run(Death(BatchStep.DECIDED, passes=1)), Check(), *REFUSED_LATER)
#: A query that is triggered once has one batch in a start, and none without data.
ONCE: Acts = (Write(0), DIE_BEFORE, DIE_AFTER, Run(), Write(1), DIE_AFTER, Run())
