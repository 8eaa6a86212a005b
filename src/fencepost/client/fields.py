"""What many requests have in common: partitions under their topics, and the producer of a transaction."""

from collections.abc import Iterable
from typing import Any, TypeVar

E = TypeVar("E")


def producer_fields(transactional_id: str | None, producer_id: int, epoch: int) -> dict[str, Any]:
    return {"transactional_id": transactional_id, "producer_id": producer_id, "producer_epoch": epoch}


def by_topic(entries: Iterable[tuple[str, E]], inside: str = "partitions", name: str = "name") -> list[dict[str, Any]]:
    """One struct for each topic, with its entries under `inside`, in their order."""
    topics: dict[str, list[E]] = {}
    for topic, entry in entries:
        topics.setdefault(topic, []).append(entry)
    return [{name: topic, inside: of_topic} for topic, of_topic in topics.items()]
