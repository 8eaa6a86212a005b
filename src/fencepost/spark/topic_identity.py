"""Which topic a position belongs to. A name is not enough, because a topic can be deleted and created again.

A topic's identity is its id (KIP-516), written as Kafka's tools print it. Clusters before Kafka 2.8 have no ids. There
the leader epochs of the partitions are used: within one topic they only grow, so a lower epoch means another topic. The
reverse does not hold: a new topic whose leaders have changed as often as the old one's is not detected.

In JSON an identity is a string (an id), or an object of epochs by partition: `"9vNo6AXTTDaBjM2LZOr3jg"`, `{"0": 4}`.
"""

import base64
from collections.abc import Iterable, Mapping
from typing import Any

from fencepost.client.cluster import Cluster, TopicMetadata
from fencepost.errors import Malformed
from fencepost.wire.codec import NULL_UUID

Identity = str | dict[int, int]
#: Of topics, by name.
Identities = dict[str, Identity]


def identity_of(topic: TopicMetadata) -> Identity:
    if topic.id != NULL_UUID:
        return base64.urlsafe_b64encode(topic.id).rstrip(b"=").decode()
    return {index: partition.leader_epoch for index, partition in topic.partitions.items()}


def identities(cluster: Cluster, names: Iterable[str], *, hidden_ok: bool = False) -> Identities:
    """Current identities, without topics that do not exist, and with `hidden_ok` without those we may not see."""
    wanted = set(names)
    found = cluster.refresh(wanted, missing_ok=True, hidden_ok=hidden_ok) if wanted else {}
    return {name: identity_of(topic) for name, topic in found.items()}


def is_other(was: Identity | None, now: Identity | None) -> bool:
    """Whether these are certainly two topics. An unknown identity (None) never differs."""
    if isinstance(was, str) and isinstance(now, str):
        return was != now
    if isinstance(was, dict) and isinstance(now, dict):
        return any(now[index] < epoch for index, epoch in was.items() if now.get(index, -1) >= 0)
    return False  # unknown, or the cluster was upgraded in between


def replaced_topics(was: Mapping[str, Identity], now: Mapping[str, Identity]) -> Identities:
    """The old identities of the topics that were created again."""
    return {name: old for name, old in was.items() if is_other(old, now.get(name))}


def describe(identity: Identity | None) -> str:
    return f"topic id {identity}" if isinstance(identity, str) else "known by its leader epochs"


def identities_as_dict(found: Mapping[str, Identity]) -> dict[str, Any]:
    """For JSON; equal identities give equal text."""
    return {name: _as_json(found[name]) for name in sorted(found)}


def parse_identities(given: object) -> Identities:
    """What `identities_as_dict` gave. Malformed for anything else."""
    if not isinstance(given, Mapping):
        raise Malformed(f"topic identities must be a JSON object, not {given!r:.100}")
    return {str(name): _parse(name, each) for name, each in given.items()}


def _as_json(identity: Identity) -> str | dict[str, int]:
    if isinstance(identity, str):
        return identity
    return {str(index): epoch for index, epoch in sorted(identity.items())}


def _parse(name: object, given: object) -> Identity:
    if isinstance(given, str):
        return given
    try:
        if isinstance(given, Mapping):
            return {int(index): int(epoch) for index, epoch in given.items()}
    except (ValueError, TypeError):
        pass
    raise Malformed(f"{given!r:.100} is not an identity of topic {name!r}")
