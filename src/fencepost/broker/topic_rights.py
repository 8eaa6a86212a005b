"""Rights on topics that a request names by name or, in the latest versions, by id."""

from typing import TYPE_CHECKING

from fencepost.broker.acl import Operation, Resource, refusal

if TYPE_CHECKING:
    from fencepost.broker.dispatch import Call


def may_topic(call: "Call", operation: Operation, topic: str | bytes, *, quietly: bool = False) -> bool:
    """An id that no topic has needs no right: the answer is UNKNOWN_TOPIC_ID for everybody."""
    if isinstance(topic, bytes):
        known = call.broker.topics.by_id(topic)
        return known is None or call.may(operation, Resource.TOPIC, known.name, quietly=quietly)
    return call.may(operation, Resource.TOPIC, topic, quietly=quietly)


def require_topic(call: "Call", operation: Operation, topic: str | bytes) -> None:
    """KafkaError, TOPIC_AUTHORIZATION_FAILED, unless the client may do this."""
    if not may_topic(call, operation, topic):
        raise refusal(Resource.TOPIC)
