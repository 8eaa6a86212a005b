"""A case: what is written, which query reads it, how it is run and killed, and what its output must be like. Data only.

A case is played act by act (`play.py`): a wave of records is written, the query runs to its end or dies on the way, its
checkpoint is lost. `default_acts` are those that every case goes through unless it has its own.
"""

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fencepost.spark.sink.steps import BatchStep

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tests.spark.queries.given import Given
    from tests.spark.queries.sinks import Sink

#: From the sources to records: the columns of Spark's Kafka sink.
Query = Callable[["Given"], "DataFrame"]

#: The key of rows that only move the watermark. Whatever is made of them is left out of the comparison.
SENTINEL = "~"
#: Their year, by which windows of theirs are known.
SENTINEL_YEAR = 2222
SENTINEL_S = 7_952_342_400
DAY_S = 86_400

COMMIT_SENT = "ENDTXN_SENT"


@dataclass(frozen=True, slots=True)
class Row:
    """`n` is its own in the whole case, and grows from row to row of one source. `s` is its event time in seconds."""

    k: str
    n: int
    s: int


Wave = tuple[Row, ...]


class Kind(enum.Enum):
    """What a source is."""

    FENCEPOST = "fencepost"
    KAFKA = "kafka"  #: Spark's own
    FILES = "files"
    RATE = "rate"  #: has no waves: so many rows a second
    RATE_BY_BATCH = "rate-micro-batch"  #: so many rows a batch


class Subscribed(enum.Enum):
    """How the topics of a source are named."""

    BY_NAME = "subscribe"
    BY_PATTERN = "subscribePattern"
    BY_PARTITION = "assign"


class Written(enum.Enum):
    """How the records of a source come into its topics."""

    PLAIN = enum.auto()
    WITH_ABORTS = enum.auto()  #: in transactions, and as many again in transactions that are aborted
    COMPACTED = (
        enum.auto()
    )  #: most of the first wave's records are overwritten, and compacted away before they are read


@dataclass(frozen=True, slots=True)
class Source:
    """`per_batch` bounds the offsets of a batch. A wave that is empty leaves the source quiet."""

    waves: tuple[Wave, ...] = ()
    kind: Kind = Kind.FENCEPOST
    topics: int = 1
    partitions: int = 2
    subscribed: Subscribed = Subscribed.BY_NAME
    written: Written = Written.PLAIN
    per_batch: int = 4
    options: Mapping[str, str] = field(default_factory=dict)
    same_as: str | None = None  #: another source, whose topics this one reads as well


class Loss(enum.Enum):
    """What becomes of a pipeline whose checkpoint is deleted: nothing, or in which words it is refused."""

    CONTINUES = ""  #: Kafka holds all that it needs
    OF_STATE = "the state of Spark's own stateful operators"
    OF_POSITIONS = "the position of "  #: of a source that is not Kafka
    OF_START = "does not continue where the pipeline stopped, and would repeat records"  #: it begins with the earliest


class Match(enum.Enum):
    """How the output compares with the batch query's."""

    SAME = enum.auto()  #: the same records, as often
    IN_ORDER = enum.auto()  #: and those of one key in the order of the batch's
    LATEST = enum.auto()  #: the last record of each key; each one before is another of `Case.running`, in its order
    ALL_AGAIN = enum.auto()  #: the same, but a record may come again in every batch


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
    """It ends with an error of ours that has these words, and nothing has changed."""

    words: tuple[str, ...]


REFUSED = "fencepost.errors.BatchRefused: "

Act = Write | Run | LoseCheckpoint | Grow | Check | RunRefused


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    query: Query
    sources: Mapping[str, Source]
    sink: "Sink"
    match: Match = Match.SAME
    expected: Query | None = None  #: the batch query, where it is not `query` itself
    running: Query | None = None  #: all that each key may have been on the way, in order
    mode: str = "append"
    trigger: Mapping[str, Any] = field(default_factory=lambda: {"availableNow": True})
    loss: Loss = Loss.CONTINUES
    has_watermark: bool = False  #: sentinels come after the waves
    outputs: Mapping[str, int] = field(default_factory=lambda: {"out": 2})  #: labels of topics, and their partitions
    conf: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)  #: of the sink
    acts: tuple[Act, ...] = ()
    moves_group: bool = True  #: all that was read is committed, also what led to nothing
    is_quick: bool = False  #: part of `make test`
    pending: str = ""  #: what has to be mended before it can pass

    @property
    def waves(self) -> int:
        """How many waves of rows there are, without sentinels."""
        return max((len(source.waves) for source in self.sources.values()), default=0)

    @property
    def script(self) -> tuple[Act, ...]:
        return self.acts or default_acts(self)


def default_acts(case: Case) -> tuple[Act, ...]:
    """Die before Kafka's commit, die after it and before Spark's, end, with an attempt that fails on the way.

    More input: die; go on, without a checkpoint if that can be.
    """
    acts: list[Act] = [
        Write(0),
        Run(Death(BatchStep.COMMITTING, passes=1)),
        Run(Death(BatchStep.COMMITTED, passes=1)),
        Run(Death(BatchStep.WRITTEN, how=How.REPEATED)),
        Write(1),
        Run(Death(BatchStep.COMMITTED)),
    ]
    if case.loss is Loss.CONTINUES:
        acts += [LoseCheckpoint()]
    acts += [Run()]
    if case.has_watermark:
        acts += [Write(case.waves), Run(), Write(case.waves + 1), Run()]
    acts += [Check()]
    if case.loss is not Loss.CONTINUES:
        acts += [Write(case.waves), LoseCheckpoint(), RunRefused((REFUSED, case.loss.value))]
    return tuple(acts)
