"""A case: what is written, which query reads it, how it is run and killed, and what its output must be like. Data only.

A case is played act by act: `acts.py` has what may happen, `play.py` does it.
"""

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.spark.queries.acts import Acts, Loss, default_acts

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

#: Spark keeps its state in RocksDB.
ROCKS = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
}


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
    COMPACTED = enum.auto()  #: most records of the first wave are overwritten, and compacted away before they are read


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


class Match(enum.Enum):
    """How the output compares with the batch query's."""

    SAME = enum.auto()  #: the same records, as often
    IN_ORDER = enum.auto()  #: and those of one key in the order of the batch's
    LATEST = enum.auto()  #: the last record of each key; each one before is another of `Case.running`, in its order
    ALL_AGAIN = enum.auto()  #: the same, but a record may come again in every batch


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
    acts: Acts = ()  #: `default_acts` if there are none
    moves_group: bool = True  #: all that was read is committed, also what led to nothing
    is_quick: bool = False  #: part of `make test`
    pending: str = ""  #: what has to be mended before it can pass

    @property
    def waves(self) -> int:
        """How many waves of rows there are, without sentinels."""
        return max((len(source.waves) for source in self.sources.values()), default=0)

    @property
    def script(self) -> Acts:
        return self.acts or default_acts(self.waves, self.loss, has_watermark=self.has_watermark)
