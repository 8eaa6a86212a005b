"""Positions in topics as Spark's Kafka source writes them, `{"purchases": {"0": 120}}`, both directions.

An offset of our source says more, under names that no topic can have:

`@from`      where the query began, in the same shape, if this ends its first batch. Spark's offset log keeps ends only,
             so without it a replay of the first batch would begin wherever `startingOffsets` points by then
`@ids`       which topics the positions belong to (`topic_identity`)
`@replaced`  the former identity of topics that were deleted and created again, where the user has said that reading
             goes on with the new one
`@skipped`   where the query should have begun, in partitions whose records are gone, where the user has said that
             reading goes on with what is left

Invariant: equal positions give equal text, because Spark compares texts.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fencepost.errors import Malformed
from fencepost.spark.topic_identity import Identities, identities_as_dict, parse_identities
from fencepost.wire.terms import TopicPartition

START_KEY, IDS_KEY, REPLACED_KEY, SKIPPED_KEY = "@from", "@ids", "@replaced", "@skipped"
EXAMPLE = '{"topic": {"0": 23, "1": 45}}'

Positions = dict[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """The next record of each partition, and where the query began if this ends its first batch."""

    offsets: Positions
    start: Positions | None = None
    topics: Identities = field(default_factory=dict)
    replaced: Identities = field(default_factory=dict)
    skipped: Positions = field(default_factory=dict)

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
        return found

    def json(self) -> str:
        return json.dumps(self.as_dict(), separators=(",", ":"))


def parse(given: str | Mapping[str, Any]) -> SourceOffset:
    """From an offset of our source or of Spark's own, as text or as what the text means. Malformed otherwise."""
    found = _mapping(given, "offsets")
    start = found.get(START_KEY)
    topics = {name: partitions for name, partitions in found.items() if not name.startswith("@")}
    return SourceOffset(
        _natural(topics),
        None if start is None else _natural(_mapping(start, START_KEY)),
        parse_identities(found.get(IDS_KEY, {})),
        parse_identities(found.get(REPLACED_KEY, {})),
        _natural(_mapping(found.get(SKIPPED_KEY, {}), SKIPPED_KEY)),
    )


def parse_numbers(given: str | Mapping[str, Any], example: str = EXAMPLE) -> Positions:
    """A whole number for each partition: offsets, -1 and -2 among them, or times in milliseconds."""
    found: Positions = {}
    for topic, partitions in _mapping(given, "what is given", example).items():
        for partition, number in _mapping(partitions, f"topic {topic!r}", example).items():
            found[_partition(topic, partition)] = _number(f"{topic}-{partition}", number, example)
    return found


def positions_as_dict(positions: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    topics: dict[str, dict[str, int]] = {}
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
            raise Malformed(f"{what} cannot be read as JSON like {example}: {error}; got {_short(given)}") from None
    if not isinstance(given, Mapping):
        raise Malformed(f"{what} must look like {example}, not {_short(given)}")
    return given


def _partition(topic: str, partition: object) -> TopicPartition:
    text = str(partition)
    if not (text.isascii() and text.isdecimal()):
        raise Malformed(f"topic {topic!r}: {text!r} is not the number of a partition")
    return TopicPartition(topic, int(text))


def _number(where: str, number: object, example: str) -> int:
    if isinstance(number, bool) or not isinstance(number, int):
        raise Malformed(f"{where}: expected a whole number as in {example}, not {_short(number)}")
    return number


def _short(given: object) -> str:
    text = repr(given)
    return text if len(text) <= 200 else f"{text[:200]}..."
