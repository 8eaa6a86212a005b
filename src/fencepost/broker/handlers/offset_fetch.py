"""OffsetFetch (9): a group's committed offsets, for some partitions or (from version 2) for all.

From version 7 on clients may require stable offsets: while a transaction is open the answer is UNSTABLE_OFFSET_COMMIT,
and the client asks again. Version 8 asks for many groups at once. Version 10 names topics by id.
"""

from typing import Any

from fencepost.broker.acl import Operation, Resource
from fencepost.broker.dispatch import Call, Response, handler
from fencepost.broker.offset_topics import find, missing, names
from fencepost.coordinator.group.requests import FetchedOffset
from fencepost.errors import ErrorCode, KafkaError
from fencepost.wire.terms import TopicPartition

FIRST_WITH_GROUP_ERROR = 2
FIRST_BATCHED = 8
FIRST_WITH_IDS = 10


@handler(9, versions=(1, 10))
async def offset_fetch(call: Call) -> Response:
    request = call.request
    if call.version >= FIRST_BATCHED:
        return {"groups": [{"group_id": entry.group_id, **await _fetch(call, entry)} for entry in request.groups]}
    answer = await _fetch(call, request)
    if call.version < FIRST_WITH_GROUP_ERROR and "error_code" in answer:
        return {"topics": [_refuse(topic, answer["error_code"]) for topic in request.topics]}
    return answer


async def _fetch(call: Call, entry: Any) -> dict[str, Any]:
    try:
        call.require(Operation.DESCRIBE, Resource.GROUP, entry.group_id)
        topics = await (_fetch_all(call, entry) if entry.topics is None else _fetch_some(call, entry))
    except KafkaError as error:
        return {"topics": [], "error_code": error.code}
    return {"topics": topics}


async def _fetch_all(call: Call, entry: Any) -> list[dict[str, Any]]:
    offsets = call.broker.groups.offsets
    by_topic: dict[str, list[dict[str, Any]]] = {}
    for fetched in await offsets.fetch(entry.group_id, None, require_stable=call.request.require_stable):
        if not call.may(Operation.DESCRIBE, Resource.TOPIC, fetched.where.topic, quietly=True):
            continue
        by_topic.setdefault(fetched.where.topic, []).append(_partition(fetched, fetched.where.partition))
    if call.version < FIRST_WITH_IDS:
        return [{"name": name, "partitions": partitions} for name, partitions in by_topic.items()]
    known = ((call.broker.topics.get(name), partitions) for name, partitions in by_topic.items())
    return [{"topic_id": topic.id, "partitions": partitions} for topic, partitions in known if topic is not None]


async def _fetch_some(call: Call, entry: Any) -> list[dict[str, Any]]:
    offsets = call.broker.groups.offsets
    answer = []
    for asked in entry.topics:
        name = asked.name
        if call.version >= FIRST_WITH_IDS:
            topic = find(call.broker.topics, asked)
            if topic is None:
                answer.append(_refuse(asked, missing(asked)))
                continue
            name = topic.name
        if not call.may(Operation.DESCRIBE, Resource.TOPIC, name):
            answer.append(_refuse(asked, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            continue
        # A deleted topic may still have offsets, and clients may ask for them by its name.
        wanted = [TopicPartition(name, index) for index in asked.partition_indexes]
        fetched = await offsets.fetch(entry.group_id, wanted, require_stable=call.request.require_stable)
        answer.append({**names(asked), "partitions": [_partition(one, one.where.partition) for one in fetched]})
    return answer


def _refuse(asked: Any, code: ErrorCode) -> dict[str, Any]:
    failed = FetchedOffset(TopicPartition("", 0), error=code)
    return {**names(asked), "partitions": [_partition(failed, index) for index in asked.partition_indexes]}


def _partition(fetched: FetchedOffset, index: int) -> dict[str, Any]:
    return {
        "partition_index": index,
        "committed_offset": fetched.offset,
        "committed_leader_epoch": fetched.leader_epoch,
        "metadata": fetched.metadata,
        "error_code": fetched.error,
    }
