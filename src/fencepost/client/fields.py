"""How requests name partitions: under their topics."""

from collections.abc import Iterable
from typing import Any, TypeVar

E = TypeVar("E")


def by_topic(entries: Iterable[tuple[str, E]], inside: str = "partitions", name: str = "name") -> list[dict[str, Any]]:
    """One struct for each topic, with its entries under `inside`, in the order in which they come."""
    topics: dict[str, list[E]] = {}
    for topic, entry in entries:
        topics.setdefault(topic, []).append(entry)
    return [{name: topic, inside: of_topic} for topic, of_topic in topics.items()]
