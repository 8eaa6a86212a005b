"""The dead letters of a topic: all of them, the last of them, one of them; selected and counted.

Only committed letters are read, up to the end that the topic has when reading begins.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from fencepost.client.cluster import Cluster
from fencepost.client.offsets import earliest, latest, partitions_of
from fencepost.client.rights import Operation, wanted
from fencepost.client.scanning import read_records
from fencepost.dead_letters import letter as names
from fencepost.dead_letters.letter import Letter
from fencepost.errors import ConfigError
from fencepost.wire.terms import TopicPartition

#: What letters can be selected by, and the header of each.
FIELDS = {
    "reason": names.REASON,
    "topic": names.TOPIC,
    "pipeline": names.PIPELINE,
    "batch": names.BATCH,
    "source": names.SOURCE_TOPIC,
}
#: The first look for the last letters goes this many offsets back for each: markers have offsets, too.
LOOK_BACK = 4


@dataclass(frozen=True, slots=True)
class Selection:
    """Letters with all of these values, by the names of `FIELDS`."""

    wanted: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, given: Iterable[str]) -> "Selection":
        """From texts like `reason=too-large`. Raises ConfigError."""
        found = {}
        for text in given:
            name, equals, value = text.partition("=")
            if not equals or name.strip() not in FIELDS:
                raise ConfigError(f"letters can be selected by {', '.join(FIELDS)}, as NAME=VALUE, not by {text!r}")
            found[name.strip()] = value.strip()
        return cls(found)

    def takes(self, letter: Letter) -> bool:
        return all(letter.said.get(FIELDS[name]) == value for name, value in self.wanted.items())


@wanted(Operation.READ)
def ranges(cluster: Cluster, topic: str) -> dict[TopicPartition, tuple[int, int]]:
    """The offsets of each partition that hold committed records now. Raises TopicNotFound."""
    places = partitions_of(cluster, [topic])
    begin, end = earliest(cluster, places), latest(cluster, places)
    return {where: (begin[where], end[where]) for where in places}


def letters(cluster: Cluster, topic: str, selection: Selection | None = None) -> Iterator[Letter]:
    """In the order of partitions and offsets."""
    for where, (begin, end) in ranges(cluster, topic).items():
        for found in between(cluster, where, begin, end):
            if selection is None or selection.takes(found):
                yield found


def between(cluster: Cluster, where: TopicPartition, begin: int, end: int) -> Iterator[Letter]:
    for record in read_records(cluster, where, begin, end):
        yield Letter.of(where, record)


def last(cluster: Cluster, topic: str, count: int, partition: int | None = None) -> list[Letter]:
    """The newest letters by the time at which they were written, the oldest of them first."""
    found: list[Letter] = []
    for where, (begin, end) in ranges(cluster, topic).items():
        if partition is None or where.partition == partition:
            found += _last_of(cluster, where, begin, end, count)
    return heapq.nlargest(count, found, key=_age)[::-1]


def _last_of(cluster: Cluster, where: TopicPartition, begin: int, end: int, count: int) -> list[Letter]:
    span = LOOK_BACK * count
    while True:
        start = max(begin, end - span)
        found = list(between(cluster, where, start, end))
        if len(found) >= count or start == begin:
            return found[-count:] if count else []
        span *= LOOK_BACK


def _age(letter: Letter) -> tuple[int, int, int]:
    return letter.time_ms, letter.where.partition, letter.offset


@dataclass(slots=True)
class Group:
    """Letters that have the reason, the topic and the pipeline in common."""

    reason: str
    topic: str | None
    pipeline: str | None
    count: int = 0
    first_ms: int = 0
    last_ms: int = 0

    def add(self, letter: Letter) -> None:
        self.first_ms = min(self.first_ms, letter.time_ms) if self.count else letter.time_ms
        self.last_ms = max(self.last_ms, letter.time_ms)
        self.count += 1


def count(found: Iterable[Letter]) -> list[Group]:
    """The most frequent first."""
    groups: dict[tuple[str, str | None, str | None], Group] = {}
    for letter in found:
        key = letter.reason, letter.topic, letter.said.get(names.PIPELINE)
        groups.setdefault(key, Group(*key)).add(letter)
    return sorted(groups.values(), key=lambda group: (-group.count, group.reason, group.topic or ""))
