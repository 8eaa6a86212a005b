"""AlterReplicaLogDirs (34): move replicas between data directories. There is one, and everything is in it already."""

from typing import Any

from fencepost.broker.dispatch import Call, Response, handler
from fencepost.errors import ErrorCode


@handler(34, versions=(1, 2))
def alter_replica_log_dirs(call: Call) -> Response:
    results: dict[str, list[dict[str, Any]]] = {}
    for directory in call.request.dirs:
        for topic in directory.topics:
            results.setdefault(topic.name, []).extend(
                {"partition_index": index, "error_code": _move(call, directory.path, topic.name, index)}
                for index in topic.partitions
            )
    return {"results": [{"topic_name": name, "partitions": found} for name, found in results.items()]}


def _move(call: Call, path: str, topic_name: str, partition: int) -> ErrorCode:
    topics = call.broker.topics
    if path.rstrip("/") != str(topics.data_dir):
        return ErrorCode.LOG_DIR_NOT_FOUND
    topic = topics.get(topic_name)
    if topic is None or not 0 <= partition < topic.partitions:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE
