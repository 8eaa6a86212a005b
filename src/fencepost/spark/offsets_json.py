"""Positions in topics as Spark's Kafka source writes them, `{"purchases": {"0": 120}}`, both directions.

An offset of our source has more, under names that no topic can have:

`@from`      where the query began, in the same shape; only in the end of its first batch. Spark's offset log keeps only
             ends. Without this, a replay of the first batch would begin where `startingOffsets` points by then
`@ids`       the identities of the topics (`topic_identity`)
`@replaced`  the former identities of topics that were deleted and created again, with failOnDataLoss=false
`@skipped`   where the query should have begun in partitions whose records are gone, with failOnDataLoss=false

`@commits`   the consumer group that the source itself commits to (`commitOffsets`); no sink may commit to it as well

Invariant: equal positions give equal text, because Spark compares texts.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fencepost.errors import Malformed
from fencepost.spark.topic_identity import Identities, identities_as_dict, parse_identities
from fencepost.wire.terms import TopicPartition

START_KEY, IDS_KEY, REPLACED_KEY, SKIPPED_KEY, COMMITS_KEY = "@from", "@ids", "@replaced", "@skipped", "@commits"
EXAMPLE = '{"topic": {"0": 23, "1": 45}}'

Positions = dict[TopicPartition, int]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """The next offset of each partition, and where the query began if this ends its first batch."""

    offsets: Positions
    start: Positions | None = None
    topics: Identities = field(default_factory=dict)
    replaced: Identities = field(default_factory=dict)
    skipped: Positions = field(default_factory=dict)
    commits: str | None = None  #: the group that the source commits to

    @property
    def is_initial(self) -> bool:
        """Whether this is where the query began."""
        return self.start is not None and self.start == self.offsets

    def as_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = positions_as_dict(self.offsets)
        if self.start is not None:
            found[START_KEY] = positions_as_dict(self.start)
        if self.topics:
            found[IDS_KEY] = identities_as_dict(self.topics)
        if self.replaced:
            found[REPLACED_KEY] = identities_as_dict(self.replaced)
        if self.skipped:
            found[SKIPPED_KEY] = positions_as_dict(self.skipped)
        if self.commits is not None:
            found[COMMITS_KEY] = self.commits
        return found

    def json(self) -> str:
        return json.dumps(self.as_dict(), separators=(",", ":"))


def parse(given: str | Mapping[str, Any]) -> SourceOffset:
    """Parse an offset of our source or Spark's own, as text or as parsed JSON. Raises Malformed for anything else."""
    found = _mapping(given, "offsets")
    start = found.get(START_KEY)
    topics = {name: partitions for name, partitions in found.items() if not name.startswith("@")}
    return SourceOffset(
        _natural(topics),
        None if start is None else _natural(_mapping(start, START_KEY)),
        parse_identities(found.get(IDS_KEY, {})),
        parse_identities(found.get(REPLACED_KEY, {})),
        _natural(_mapping(found.get(SKIPPED_KEY, {}), SKIPPED_KEY)),
        str(found[COMMITS_KEY]) if COMMITS_KEY in found else None,
    )


def parse_numbers(given: str | Mapping[str, Any], example: str = EXAMPLE) -> Positions:
    """An integer for each partition: offsets, including -1 and -2, or times in milliseconds."""
    found: Positions = {}
    for topic, partitions in _mapping(given, "the value", example).items():
        for partition, number in _mapping(partitions, f"topic {topic!r}", example).items():
            found[_partition(topic, partition)] = _number(f"{topic}-{partition}", number, example)
    return found


def positions_as_dict(positions: Mapping[TopicPartition, T]) -> dict[str, dict[str, T]]:
    topics: dict[str, dict[str, T]] = {}
    for (topic, partition), number in sorted(positions.items()):
        topics.setdefault(topic, {})[str(partition)] = number
    return topics


def _natural(topics: Mapping[str, Any]) -> Positions:
    found = parse_numbers(topics)
    for where, offset in found.items():
        if offset < 0:
            raise Malformed(f"{where}: {offset} is not an offset")
    return found


def _mapping(given: object, what: str, example: str = EXAMPLE) -> Mapping[str, Any]:
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError as error:
            raise Malformed(f"{what} must be JSON like {example}, not {_short(given)}: {error}") from None
    if not isinstance(given, Mapping):
        raise Malformed(f"{what} must look like {example}, not {_short(given)}")
    return given


def _partition(topic: str, partition: object) -> TopicPartition:
    text = str(partition)
    if not (text.isascii() and text.isdecimal()):
        raise Malformed(f"topic {topic!r}: {text!r} is not a partition number")
    return TopicPartition(topic, int(text))


def _number(where: str, number: object, example: str) -> int:
    if isinstance(number, bool) or not isinstance(number, int):
        raise Malformed(f"{where}: expected an integer as in {example}, not {_short(number)}")
    return number


def _short(given: object) -> str:
    text = repr(given)
    return text if len(text) <= 200 else f"{text[:200]}..."
