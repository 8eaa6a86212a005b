"""DescribeLogDirs (35): the data directory, the size of each partition, and the free space on its disk."""

import shutil
from collections.abc import Iterable
from typing import Any

from fencepost.broker.acl import Operation, Resource
from fencepost.broker.dispatch import Call, Response, handler
from fencepost.broker.topics import Topic
from fencepost.errors import ErrorCode


@handler(35, versions=(1, 5))
def describe_log_dirs(call: Call) -> Response:
    if not call.may(Operation.DESCRIBE, Resource.CLUSTER):
        return {"error_code": ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "results": []}
    topics, wanted = call.broker.topics, call.request.topics
    if wanted is None:
        described = [_topic(call, topic, range(topic.partitions)) for topic in topics.all()]
    else:
        found = ((topics.get(entry.topic), entry.partitions) for entry in wanted)
        described = [_topic(call, topic, partitions) for topic, partitions in found if topic is not None]
    total_bytes, usable_bytes = _space(str(topics.data_dir))
    return {
        "error_code": ErrorCode.NONE,
        "results": [
            {
                "error_code": ErrorCode.NONE,
                "log_dir": str(topics.data_dir),
                "topics": [topic for topic in described if topic["partitions"]],
                "total_bytes": total_bytes,
                "usable_bytes": usable_bytes,
            }
        ],
    }


def _topic(call: Call, topic: Topic, partitions: Iterable[int]) -> dict[str, Any]:
    # A partition without an open log has never been written.
    sizes = {log.partition: log.size_bytes() for log in call.broker.topics.logs_of(topic)}
    return {
        "name": topic.name,
        "partitions": [
            {"partition_index": index, "partition_size": sizes.get(index, 0), "offset_lag": 0, "is_future_key": False}
            for index in partitions
            if topic.has(index)
        ],
    }


def _space(path: str) -> tuple[int, int]:
    """(size, free bytes) of the disk; -1 means unknown."""
    try:
        usage = shutil.disk_usage(path)
    except OSError:
        return -1, -1
    return usage.total, usage.free
