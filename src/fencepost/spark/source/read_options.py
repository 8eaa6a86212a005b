"""The options of a read: names, defaults, precedence and refusals of Spark's Kafka source, and a few of our own.

Owns the way from text to `SourceOptions`; no other code uses an option's name. Our own: `startingOffsets` may be
`committed` (with `kafka.group.id`, also spelled `pipeline`). That is the default for a stream with `pipeline`, an
option that Spark's source does not have. `kafka.isolation.level` is read_committed by default.
"""

import enum
import json
import re
from dataclasses import dataclass, field

from fencepost.client.offsets import EARLIEST, LATEST
from fencepost.client.reading import DEFAULT_FETCH_BYTES, OnDataLoss
from fencepost.client.settings import ClientSettings
from fencepost.errors import ConfigError, Malformed
from fencepost.spark.offsets_json import Positions, parse_numbers
from fencepost.spark.options import Options, client_settings
from fencepost.spark.source import typed
from fencepost.spark.source.tables import TABLES
from fencepost.spark.source.typed import TypedRows
from fencepost.wire.terms import Isolation, TopicPartition

SUBSCRIBE, PATTERN, ASSIGN = "subscribe", "subscribePattern", "assign"
FIRST_BATCH = "limitFirstBatch"
KNOWN = (
    SUBSCRIBE,
    PATTERN,
    ASSIGN,
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingOffsetsIfNone",
    "startingTimestamp",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "commitOffsets",
    "failOnDataLoss",
    "includeHeaders",
    "maxOffsetsPerTrigger",
    "maxRecordsPerPartition",
    "maxTriggerDelay",
    "minOffsetsPerTrigger",
    "minPartitions",
    "pipeline",
    FIRST_BATCH,
    *typed.NAMES,
    TABLES,
    # Spark's options for its Java consumer: accepted, without effect.
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
)
DEFAULT_MAX_DELAY_MS = 15 * 60_000
#: Spark's source has no limit. Then the first batch on an old topic would read all of it in one transaction, which
#: would exceed its timeout.
DEFAULT_MAX_OFFSETS = 1_000_000
TIMES_EXAMPLE = '{"topic": {"0": 1700000000000}}'


class ReadKind(enum.Enum):
    BATCH = "batch"
    STREAM = "streaming"


class Edge(enum.Enum):
    EARLIEST = "earliest"
    LATEST = "latest"
    COMMITTED = "committed"  #: a group's committed offsets


@dataclass(frozen=True, slots=True)
class AtOffsets:
    positions: Positions  #: LATEST and EARLIEST are allowed


@dataclass(frozen=True, slots=True)
class AtTimes:
    """The first record at or after a time."""

    every_ms: int | None  #: the same for all partitions
    by_partition_ms: Positions = field(default_factory=dict)


Bound = Edge | AtOffsets | AtTimes


class WithoutMatch(enum.Enum):
    """Where to begin if no record is at or after the given time."""

    ERROR = "error"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Subscription:
    """Exactly one of these is set."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceOptions:
    client: ClientSettings
    subscription: Subscription
    start: Bound
    end: Bound = Edge.LATEST
    without_match: WithoutMatch = WithoutMatch.ERROR
    group: str | None = None
    without_commit: Edge = Edge.EARLIEST
    isolation: Isolation = Isolation.READ_COMMITTED
    on_data_loss: OnDataLoss = OnDataLoss.FAIL
    max_offsets: int | None = None
    min_offsets: int | None = None
    max_delay_ms: int = DEFAULT_MAX_DELAY_MS
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    include_headers: bool = False
    fetch_bytes: int = DEFAULT_FETCH_BYTES
    limit_first_batch: bool = False  #: only Spark 4.0 and 4.1 need it (`unguided`)
    commits: bool = False  #: whether the source commits completed batches to its group
    rows: TypedRows | None = None  #: how what is read becomes rows; None: as it is, keys and values are bytes
    token: str | None = None  #: if set, rows only name ranges (`tables`)


def parse_options(given: Options, kind: ReadKind) -> SourceOptions:
    """Raises ConfigError for options that are missing, unknown or contradictory."""
    given.refuse_unknown(KNOWN, "the source 'fencepost'")
    client = client_settings(given)
    start, end = _starting(given, kind), _ending(given, kind)
    group = _group(given)
    most, least = _limits(given, kind)
    if start is Edge.COMMITTED and group is None:
        raise ConfigError("startingOffsets = 'committed' needs the group with the offsets: set option 'kafka.group.id'")
    commits = given.flag("commitOffsets", False)
    if commits and group is None:
        raise ConfigError("commitOffsets needs the group to commit to: set option 'kafka.group.id'")
    if commits and kind is ReadKind.BATCH:
        raise ConfigError("commitOffsets is for streaming queries: a batch query completes no micro-batch")
    return SourceOptions(
        client=client,
        subscription=_subscription(given),
        start=start,
        end=end,
        without_match=WithoutMatch(given.one_of("startingOffsetsByTimestampStrategy", "error", ("error", "latest"))),
        group=group,
        without_commit=Edge(given.one_of("startingOffsetsIfNone", "earliest", ("earliest", "latest"))),
        isolation=_isolation(given),
        on_data_loss=OnDataLoss.FAIL if given.flag("failOnDataLoss", True) else OnDataLoss.SKIP,
        include_headers=given.flag("includeHeaders", False),
        min_partitions=given.integer("minPartitions"),
        max_records_per_partition=given.integer("maxRecordsPerPartition"),
        fetch_bytes=_fetch_bytes(given),
        max_offsets=most,
        min_offsets=least,
        max_delay_ms=given.duration_ms("maxTriggerDelay", DEFAULT_MAX_DELAY_MS),
        limit_first_batch=given.flag(FIRST_BATCH, False),
        commits=commits,
    )


def check_options(given: Options) -> None:
    """Raises ConfigError for what is wrong both in a batch and in a stream. `load()` does not know which it will be."""
    errors = []
    for kind in ReadKind:
        try:
            parse_options(given, kind)
        except ConfigError as error:
            errors.append(error)
    if len(errors) == len(ReadKind) and len({str(error) for error in errors}) == 1:
        raise errors[0]


def includes_headers(given: Options) -> bool:
    """The one option that changes the schema."""
    return given.flag("includeHeaders", False)


# -- what to read ----------------------------------------------------------------------------------------------------


def _subscription(given: Options) -> Subscription:
    named = [name for name in (SUBSCRIBE, PATTERN, ASSIGN) if name in given]
    listed = f"{SUBSCRIBE}, {PATTERN}, {ASSIGN}"
    if not named:
        raise ConfigError(f"one of the following options must be specified for a Kafka source: {listed}")
    if len(named) > 1:
        raise ConfigError(f"only one of the following options can be specified for a Kafka source: {listed}")
    value = given.text(named[0]) or ""
    if named == [SUBSCRIBE]:
        topics = tuple(sorted({word.strip() for word in value.split(",")} - {""}))
        if not topics:
            raise ConfigError(f"no topics to subscribe to: option {SUBSCRIBE!r} is {value!r}")
        return Subscription(topics=topics)
    if named == [PATTERN]:
        try:
            re.compile(value)
        except re.error as error:
            raise ConfigError(f"option {PATTERN!r}: {value!r} is not a regular expression: {error}") from None
        if not value:
            raise ConfigError(f"the pattern to subscribe to is empty: option {PATTERN!r} is {value!r}")
        return Subscription(pattern=value)
    return Subscription(assigned=_assigned(value))


def _assigned(value: str) -> tuple[TopicPartition, ...]:
    """`{"topicA": [0, 1], "topicB": [2]}`."""
    try:
        topics = json.loads(value)
        found = [TopicPartition(topic, int(index)) for topic, indexes in topics.items() for index in indexes]
    except (ValueError, TypeError, AttributeError):
        found = []
    if not found or any(where.partition < 0 for where in found):
        example = '{"topicA": [0, 1], "topicB": [2, 4]}'
        raise ConfigError(f"no partitions to assign: option {ASSIGN!r} must look like {example}, not {value!r}")
    return tuple(sorted(set(found)))


# -- where to begin and to end ---------------------------------------------------------------------------------------


def _starting(given: Options, kind: ReadKind) -> Bound:
    names = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
    default = Edge.EARLIEST
    if kind is ReadKind.STREAM:
        default = Edge.COMMITTED if given.text("pipeline") else Edge.LATEST
    bound = _bound(given, names, (Edge.EARLIEST, Edge.LATEST, Edge.COMMITTED), default)
    if kind is ReadKind.BATCH:
        _refuse(bound, Edge.LATEST, LATEST, "starting offset can't be latest for batch queries on Kafka")
    return bound


def _ending(given: Options, kind: ReadKind) -> Bound:
    names = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
    if kind is ReadKind.STREAM:
        for name in names:
            if name in given:
                raise ConfigError(f"option {name!r}: ending offset not valid in streaming queries")
    bound = _bound(given, names, (Edge.EARLIEST, Edge.LATEST), Edge.LATEST)
    _refuse(bound, Edge.EARLIEST, EARLIEST, "ending offset can't be earliest for batch queries on Kafka")
    return bound


def _bound(given: Options, names: tuple[str, str, str], edges: tuple[Edge, ...], default: Edge) -> Bound:
    """As in Spark: one time for all partitions wins over a time for each, and that over offsets."""
    one_time, times, offsets = names
    every_ms = given.integer(one_time, lowest=0)
    if every_ms is not None:
        return AtTimes(every_ms)
    if (text := given.text(times)) is not None:
        return AtTimes(None, _numbers(times, text, TIMES_EXAMPLE, lowest=0))
    text = given.text(offsets)
    if text is None:
        return default
    for edge in edges:
        if text.lower() == edge.value:
            return edge
    if not text.startswith("{"):
        words = ", ".join(edge.value for edge in edges)
        raise ConfigError(f"option {offsets!r} must be one of {words} or JSON with an offset for each partition")
    return AtOffsets(_numbers(offsets, text, '{"topic": {"0": 23, "1": -2}}', lowest=EARLIEST))


def _numbers(name: str, text: str, example: str, lowest: int) -> Positions:
    try:
        found = parse_numbers(text, example)
    except Malformed as error:
        raise ConfigError(f"option {name!r}: {error}") from None
    for where, number in found.items():
        if number < lowest:
            raise ConfigError(f"option {name!r}: {number} for {where} is less than {lowest}")
    return found


def _refuse(bound: Bound, edge: Edge, number: int, reason: str) -> None:
    if bound is edge:
        raise ConfigError(reason)
    if isinstance(bound, AtOffsets):
        for where, offset in bound.positions.items():
            if offset == number:
                raise ConfigError(f"{where}: {reason}")


# -- the rest --------------------------------------------------------------------------------------------------------


def _limits(given: Options, kind: ReadKind) -> tuple[int | None, int | None]:
    most, least = given.integer("maxOffsetsPerTrigger"), given.integer("minOffsetsPerTrigger")
    if most is None and kind is ReadKind.STREAM:
        return max(DEFAULT_MAX_OFFSETS, least or 0), least
    if most is not None and least is not None and least > most:
        raise ConfigError(
            f"the value of minOffsetsPerTrigger ({least}) must be less than or equal to that of "
            f"maxOffsetsPerTrigger ({most})"
        )
    return most, least


def _group(given: Options) -> str | None:
    group, pipeline = given.text("kafka.group.id"), given.text("pipeline")
    if group and pipeline and group != pipeline:
        raise ConfigError(f"options 'kafka.group.id' ({group!r}) and 'pipeline' ({pipeline!r}) mean the same: set one")
    return group or pipeline or None


def _isolation(given: Options) -> Isolation:
    word = given.one_of("kafka.isolation.level", "read_committed", ("read_committed", "read_uncommitted"))
    return Isolation[word.upper()]


def _fetch_bytes(given: Options) -> int:
    """The smaller of Kafka's two limits, if given."""
    names = ("kafka.fetch.max.bytes", "kafka.max.partition.fetch.bytes")
    sizes = [given.integer(name, lowest=1024) for name in names]
    return min((size for size in sizes if size is not None), default=DEFAULT_FETCH_BYTES)
