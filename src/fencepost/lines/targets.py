"""Where reading begins, or a group is moved to: what the user wrote, and the offsets that it means.

==========================  =========================================================================================
`start`, `end`              the first record that is there, and behind the last one
`120`                       this offset
`-10`                       the last ten records of each partition; what a reader does not get is not counted
`@2026-11-16T08:00`         the first record at or after a time: in UTC, unless it names a zone, or milliseconds
`@-1h`                      … and so long ago (s, m, h, d)
==========================  =========================================================================================
"""

import collections
import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

from fencepost.client.cluster import Cluster
from fencepost.client.offsets import at_times
from fencepost.client.times import parse_age, parse_moment
from fencepost.errors import ConfigError
from fencepost.lines.reading import Bounds, View, bounds, read_range
from fencepost.wire.terms import TopicPartition

SHAPES = "start, end, an offset, -10 for the last ten records, @2026-11-16T08:00 (UTC) or @-1h for a time"
#: How many offsets are looked at for each record, and by how much the next piece is larger.
LOOK_BACK = 4
#: More than any time or offset has.
DIGITS_MAX = 40


@dataclass(frozen=True, slots=True)
class ToStart:
    pass


@dataclass(frozen=True, slots=True)
class ToEnd:
    pass


@dataclass(frozen=True, slots=True)
class ToOffset:
    offset: int


@dataclass(frozen=True, slots=True)
class ToLast:
    count: int


@dataclass(frozen=True, slots=True)
class ToTime:
    time_ms: int


Target = ToStart | ToEnd | ToOffset | ToLast | ToTime


def parse_target(text: str, now_ms: int) -> Target:
    """Raises ConfigError."""
    text = text.strip()
    if sum(map(str.isdecimal, text)) > DIGITS_MAX:
        raise ConfigError(f"{text[:DIGITS_MAX]!r}… is too large: offsets and times have 64 bits")
    found = _parse(text, now_ms)
    number = next(iter(dataclasses.astuple(found)), 0)
    if not -(2**63) <= number < 2**63:
        raise ConfigError(f"{text!r} is too large: offsets and times have 64 bits")
    return found


def _parse(text: str, now_ms: int) -> Target:
    if text in ("start", "beginning", "earliest"):
        return ToStart()
    if text in ("end", "latest"):
        return ToEnd()
    if text.isdecimal():
        return ToOffset(int(text))
    if text.startswith("-") and text[1:].isdecimal():
        return ToLast(int(text[1:]))
    if text.startswith("@-") and (age_ms := parse_age(text[2:])) is not None:
        return ToTime(now_ms - age_ms)
    if text.startswith("@") and (time_ms := parse_moment(text[1:])) is not None:
        return ToTime(time_ms)
    raise ConfigError(f"{text!r} is no place in a partition. Give {SHAPES}")


def resolve(
    cluster: Cluster, target: Target, partitions: Iterable[TopicPartition], view: View
) -> dict[TopicPartition, int]:
    """The offset of each partition."""
    known = bounds(cluster, partitions, view)
    match target:
        case ToStart():
            return {where: each.begin for where, each in known.items()}
        case ToEnd():
            return {where: each.end for where, each in known.items()}
        case ToOffset(offset):
            return dict.fromkeys(known, offset)
        case ToLast(count):
            return {where: _last(cluster, where, each, count, view) for where, each in known.items()}
        case ToTime(time_ms):
            found = at_times(cluster, dict.fromkeys(known, time_ms), view.isolation)
            return {where: known[where].end if offset is None else offset for where, offset in found.items()}


def _last(cluster: Cluster, where: TopicPartition, known: Bounds, count: int, view: View) -> int:
    """The offset of the last record but `count - 1`. Markers and aborted records have offsets, and are no records."""
    if count == 0:
        return known.end
    span = LOOK_BACK * count
    while True:
        start = max(known.begin, known.end - span)
        seen = (each.record.offset for each in read_range(cluster, where, start, known.end, view))
        offsets = collections.deque(seen, maxlen=count)
        if len(offsets) == count or start == known.begin:
            return offsets[0] if offsets else known.end
        span *= LOOK_BACK
