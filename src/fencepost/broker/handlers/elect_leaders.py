"""ElectLeaders (43): one broker leads every partition, so no election is ever needed."""

from typing import Any

from fencepost.broker.dispatch import Call, Response, handler
from fencepost.errors import ErrorCode

PREFERRED, UNCLEAN = 0, 1


@handler(43, versions=(0, 2))
def elect_leaders(call: Call) -> Response:
    request = call.request
    if request.election_type not in (PREFERRED, UNCLEAN):
        return {"error_code": ErrorCode.INVALID_REQUEST, "replica_election_results": []}
    results: list[dict[str, Any]]
    if request.topic_partitions is None:  # all of them: only those that had an election are listed
        results = [{"topic": topic.name, "partition_result": []} for topic in call.broker.topics.all()]
    else:
        results = [
            {"topic": entry.topic, "partition_result": [_elect(call, entry.topic, index) for index in entry.partitions]}
            for entry in request.topic_partitions
        ]
    return {"error_code": ErrorCode.NONE, "replica_election_results": results}


def _elect(call: Call, name: str, partition: int) -> dict[str, Any]:
    topic = call.broker.topics.get(name)
    if topic is None:
        code, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}"
    elif not 0 <= partition < topic.partitions:
        code, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{partition}"
    else:
        code, message = ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
    return {"partition_id": partition, "error_code": code, "error_message": message}
