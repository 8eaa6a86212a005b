"""Produce and Fetch requests by hand, for one partition or for many."""

from typing import Any

from fencepost.client.raw import produce_fields
from tests.clients.raw import Key, Wire, errors

#: The id of no topic.
NOWHERE = b"\x07" * 16


def id_of(wire: Wire, name: str) -> bytes:
    return (
        wire.call(Key.METADATA, 12, topics=[{"name": name}], allow_auto_topic_creation=False).topics[0].topic_id.bytes
    )


def produce(
    wire: Wire,
    topic: str,
    records: bytes | None,
    version: int = 12,
    *,
    partition: int = 0,
    acks: int = -1,
    transactional_id: str | None = None,
    topic_id: bytes = NOWHERE,
) -> Any:
    """The answer for the one partition."""
    fields = produce_fields({(topic, partition): records}, transactional_id, acks)
    fields["topic_data"][0]["topic_id"] = topic_id
    (told,) = wire.call(Key.PRODUCE, version, **fields).responses
    (found,) = told.partition_responses
    return found


def fetch(wire: Wire, topic: str, offset: int = 0, version: int = 12, **options: Any) -> Any:
    """The answer for partition 0 of the one topic."""
    answer = ask_fetch(wire, version, {topic: {0: offset}}, **options)
    assert errors(answer.error_code) == set() if version >= 7 else True
    (told,) = answer.responses
    (found,) = told.partitions
    return found


def ask_fetch(wire: Wire, version: int, wanted: dict[str, dict[int, int]], **options: Any) -> Any:
    return wire.call(Key.FETCH, version, **fetch_fields(wanted, **options))


def fetch_fields(
    wanted: dict[str, dict[int, int]],
    *,
    topic_ids: dict[str, bytes] | None = None,
    session: tuple[int, int] = (0, -1),
    forgotten: dict[str, list[int]] | None = None,
    partition: dict[str, Any] | None = None,
    **options: Any,
) -> dict[str, Any]:
    ids = topic_ids or {}
    return {
        "max_wait_ms": 0,
        "min_bytes": 0,
        "session_id": session[0],
        "session_epoch": session[1],
        "topics": [
            {
                "topic": name,
                "topic_id": ids.get(name, NOWHERE),
                "partitions": [
                    {"partition": number, "fetch_offset": offset, "partition_max_bytes": 1 << 20, **(partition or {})}
                    for number, offset in offsets.items()
                ],
            }
            for name, offsets in wanted.items()
        ],
        "forgotten_topics_data": [
            {"topic": name, "topic_id": ids.get(name, NOWHERE), "partitions": numbers}
            for name, numbers in (forgotten or {}).items()
        ],
        **options,
    }
