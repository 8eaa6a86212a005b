"""Where a reset goes: what the user wrote, and the offsets that it means.

=====================  ================================================================================================
`earliest`, `latest`   the first and the last committed record that is there
a time                 the first record at or after it: 2026-11-16T08:00 (UTC, unless it names a zone), 24h (so long
                       ago), or milliseconds since 1970
offsets                `{"purchases": {"0": 120}}`, itself or in a file; -2 is earliest, -1 latest; others stay
`batch:12`             where the pipeline stood after its batch 12, if the ledger still has it
=====================  ================================================================================================
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fencepost.client.cluster import Cluster
from fencepost.client.offsets import EARLIEST, LATEST, at_times, earliest, latest
from fencepost.client.times import parse_age, parse_moment
from fencepost.errors import ChangeRefused, ConfigError, Malformed
from fencepost.operate.standing import Standing, Topic
from fencepost.spark.ledger import Noted
from fencepost.spark.offsets_json import Positions, parse_numbers
from fencepost.wire.terms import TopicPartition

_SHAPES = (
    "earliest, latest, a time like 2026-11-16T08:00 (UTC) or 24h (ago), batch:12, or offsets like "
    '{"topic": {"0": 120}}, also in a file'
)


@dataclass(frozen=True, slots=True)
class ToEdge:
    number: int  #: EARLIEST or LATEST


@dataclass(frozen=True, slots=True)
class ToTime:
    time_ms: int


@dataclass(frozen=True, slots=True)
class ToOffsets:
    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class ToBatch:
    batch_id: int


Target = ToEdge | ToTime | ToOffsets | ToBatch


def parse_target(text: str, now_ms: int) -> Target:
    """Raises ConfigError."""
    text = text.strip()
    edges = {"earliest": EARLIEST, "latest": LATEST}
    if text in edges:
        return ToEdge(edges[text])
    if text.startswith("batch:") and text.removeprefix("batch:").isdecimal():
        return ToBatch(int(text.removeprefix("batch:")))
    if text.startswith("{"):
        return ToOffsets(_offsets(text, "--to"))
    if (age_ms := parse_age(text)) is not None:
        return ToTime(now_ms - age_ms)
    if (time_ms := parse_moment(text)) is not None:
        return ToTime(time_ms)
    if not Path(text).is_file():
        raise ConfigError(f"--to takes {_SHAPES}; {text!r} is none of them, and no such file exists")
    return ToOffsets(_offsets(Path(text).read_text(), text))


def _offsets(text: str, where: str) -> Positions:
    try:
        found = parse_numbers(text)
    except Malformed as error:
        raise ConfigError(f"{where}: {error}") from None
    if not found or min(found.values()) < EARLIEST:
        raise ConfigError(f"{where}: offsets are 0 or more, -1 for latest or -2 for earliest, for at least 1 partition")
    return found


def resolve(cluster: Cluster, target: Target, standing: Standing, history: Sequence[Noted]) -> Positions:
    """The offset of every partition that the reset sets. Raises ChangeRefused if it cannot be there."""
    here = [name for name, topic in standing.topics.items() if topic is not Topic.MISSING]
    if not here:
        raise ChangeRefused(
            f"none of the topics that pipeline {standing.name!r} reads is on this cluster "
            f"({', '.join(standing.topics) or 'it has read none'}). Nothing was changed"
        )
    known = [TopicPartition(name, index) for name in here for index in cluster.topic(name).partitions]
    begins, ends = earliest(cluster, known), latest(cluster, known)
    match target:
        case ToEdge(number):
            return begins if number == EARLIEST else ends
        case ToTime(time_ms):
            found = at_times(cluster, dict.fromkeys(known, time_ms))
            return {where: ends[where] if offset is None else offset for where, offset in found.items()}
        case ToBatch(batch_id):
            entry = history[index_of(batch_id, history, standing.name)].entry
            return _checked(dict(entry.offsets), begins, ends)
        case ToOffsets(offsets):
            edges = {EARLIEST: begins, LATEST: ends}
            named = {w: edges[each].get(w, each) if each in edges else each for w, each in offsets.items()}
            return _checked(named, begins, ends)


def index_of(batch_id: int, history: Sequence[Noted], name: str) -> int:
    """The newest entry of a batch of this number, as an index into `history`. Raises ChangeRefused."""
    for index in reversed(range(len(history))):
        if history[index].entry.batch_id == batch_id and history[index].entry.reset is None:
            return index
    kept = ", ".join(dict.fromkeys(str(noted.entry.batch_id) for noted in history)) or "none"
    raise ChangeRefused(
        f"the ledger has no batch {batch_id} of pipeline {name!r} (any more); it has: {kept}. Nothing was changed"
    )


def _checked(wanted: Positions, begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> Positions:
    for where, offset in sorted(wanted.items()):
        if where not in ends:
            raise ChangeRefused(
                f"{where} is not a partition that the pipeline reads on this cluster. Nothing was changed"
            )
        if not begins[where] <= offset <= ends[where]:
            raise ChangeRefused(
                f"{where} has committed records from offset {begins[where]} to {ends[where]}, so it cannot be set to "
                f"{offset}. Nothing was changed"
            )
    return wanted
