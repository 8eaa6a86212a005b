"""Positions in topics as Spark's Kafka source writes them, `{"purchases": {"0": 120}}`, both directions.

An offset of our source may say in addition where its query began: `"@from"`, which no topic can be called, holds the
start in the same shape. Spark's offset log keeps ends only, so without it a replay of the first batch would begin
wherever `startingOffsets` points by then. Invariant: equal positions give equal text, because Spark compares texts.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fencepost.client.cluster import TopicPartition
from fencepost.errors import Malformed

START_KEY = "@from"
EXAMPLE = '{"topic": {"0": 23, "1": 45}}'

Positions = dict[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """The next record of each partition, and where the query began if this ends its first batch."""

    offsets: Positions
    start: Positions | None = None

    def as_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = positions_as_dict(self.offsets)
        if self.start is not None:
            found[START_KEY] = positions_as_dict(self.start)
        return found

    def json(self) -> str:
        return json.dumps(self.as_dict(), separators=(",", ":"))


def parse(given: str | Mapping[str, Any]) -> SourceOffset:
    """From an offset of our source or of Spark's own, as text or as what the text means. Malformed otherwise."""
    found = _mapping(given, "offsets")
    start = found.get(START_KEY)
    topics = {name: partitions for name, partitions in found.items() if not name.startswith("@")}
    return SourceOffset(_natural(topics), None if start is None else _natural(_mapping(start, START_KEY)))


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
