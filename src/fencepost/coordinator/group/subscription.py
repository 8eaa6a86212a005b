"""The one thing the coordinator reads of what consumers tell each other: the topics in their subscriptions.

A subscription is `version int16, topics []string, …`; every version of the consumer protocol begins like version 0, and
what follows is not looked at. Other protocol types (Connect's, for instance) stay opaque.
"""

import struct

CONSUMER_PROTOCOL_TYPE = "consumer"

_COUNT = struct.Struct(">hi")
_LENGTH = struct.Struct(">h")


def topics_of(subscription: bytes) -> frozenset[str] | None:
    """The topics that a member of a consumer group subscribes to; None when these bytes are no subscription."""
    try:
        version, count = _COUNT.unpack_from(subscription)
        if version < 0 or not 0 <= count <= len(subscription):
            return None
        position = _COUNT.size
        topics = []
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(subscription, position)
            position += _LENGTH.size
            if length < 0 or position + length > len(subscription):
                return None
            topics.append(subscription[position : position + length].decode())
            position += length
    except (struct.error, UnicodeDecodeError):
        return None
    return frozenset(topics)
