"""Which names a topic may have. The rules and their wording are Kafka's."""

import re

from fencepost.errors import ErrorCode, KafkaError

#: Kafka's controllers keep their log under this name. It does not exist here and cannot be created.
CLUSTER_METADATA = "__cluster_metadata"

MAX_LENGTH = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def validate(name: str) -> None:
    """INVALID_TOPIC_EXCEPTION, with the reason, for a name that no topic can have."""
    if not name:
        problem = "the empty string is not allowed"
    elif name in (".", ".."):
        problem = f"'{name}' is not allowed"
    elif len(name) > MAX_LENGTH:
        problem = f"the length of '{name}' is longer than the max allowed length {MAX_LENGTH}"
    elif _LEGAL.fullmatch(name) is None:
        problem = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return
    raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


def collision_key(name: str) -> str:
    """Two names with the same key would be one name in metric systems, which have no dots."""
    return name.replace(".", "_")
