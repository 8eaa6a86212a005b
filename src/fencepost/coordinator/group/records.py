"""The records of `__consumer_offsets`, in Kafka's format, so that Kafka's own tools and formatters read them.

A record's key begins with an int16 that says what it is about; its value with the int16 version of its schema::

    key 0, 1   OffsetCommitKey      group, topic, partition     value 0-4   OffsetCommitValue     written: 1 and 3
    key 2      GroupMetadataKey     group                       value 0-4   GroupMetadataValue    written: 3

A null value is a tombstone: the offset or the group is gone. Values are written as version 3, which Kafka 2.1 and later
read; version 1 alone can hold an expiry of its own, for commits that ask for one (OffsetCommit v2 to v4). All versions
are read. Keys of a kind unknown to us (Kafka's newer group types) are left alone.
"""

import struct
from dataclasses import dataclass
from typing import Any

from fencepost.errors import Malformed
from fencepost.wire import messages
from fencepost.wire.messages import Message
from fencepost.wire.records import Record
from fencepost.wire.terms import TopicPartition

NO_TIMESTAMP = -1

_OFFSET_KEY_VERSION = 1
_GROUP_KEY_VERSION = 2
_OFFSET_VALUE_VERSION = 3
_OFFSET_VALUE_VERSION_WITH_EXPIRY = 1
_GROUP_VALUE_VERSION = 3

#: Strings in these records, and in older versions of requests, have an int16 length; newer ones can carry longer
#: strings in. The rest is for the "-" and the UUID that make a member id out of a name.
MAX_NAME_BYTES = 2**15 - 1 - 64
MAX_TIMESTAMP = 2**63 - 1

_VERSION = struct.Struct(">h")


@dataclass(frozen=True, slots=True)
class Commit:
    """A committed offset. `log_offset` is where in `__consumer_offsets` it stands: the later of two commits wins."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int = NO_TIMESTAMP
    log_offset: int = -1


@dataclass(frozen=True, slots=True)
class MemberRecord:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """A group as of one generation: what a restarted broker goes on with."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_ms: int
    members: tuple[MemberRecord, ...]


@dataclass(frozen=True, slots=True)
class OffsetKey:
    group_id: str
    where: TopicPartition


@dataclass(frozen=True, slots=True)
class GroupKey:
    group_id: str


def can_hold(*names: str) -> bool:
    """Whether names that a client made up fit into a record."""
    return all(len(name) <= MAX_NAME_BYTES // 4 or len(name.encode()) <= MAX_NAME_BYTES for name in names)


def commit_record(group_id: str, where: TopicPartition, commit: Commit) -> Record:
    fields: dict[str, Any] = {
        "offset": commit.offset,
        "leader_epoch": commit.leader_epoch,
        "metadata": commit.metadata,
        "commit_timestamp": commit.commit_ms,
        "expire_timestamp": commit.expire_ms,
    }
    has_expiry = commit.expire_ms != NO_TIMESTAMP
    version = _OFFSET_VALUE_VERSION_WITH_EXPIRY if has_expiry else _OFFSET_VALUE_VERSION
    return Record(_offset_key(group_id, where), _encode("offset_commit_value", version, fields))


def commit_tombstone(group_id: str, where: TopicPartition) -> Record:
    return Record(_offset_key(group_id, where), None)


def group_record(group_id: str, group: GroupRecord) -> Record:
    fields = {
        "protocol_type": group.protocol_type,
        "generation": group.generation,
        "protocol": group.protocol,
        "leader": group.leader,
        "current_state_timestamp": group.state_ms,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "rebalance_timeout": member.rebalance_timeout_ms,
                "session_timeout": member.session_timeout_ms,
                "subscription": member.subscription,
                "assignment": member.assignment,
            }
            for member in group.members
        ],
    }
    return Record(_group_key(group_id), _encode("group_metadata_value", _GROUP_VALUE_VERSION, fields))


def group_tombstone(group_id: str) -> Record:
    return Record(_group_key(group_id), None)


def read_key(record: Record) -> OffsetKey | GroupKey | None:
    """What a record is about; None for a kind that is not ours."""
    if record.key is None or len(record.key) < _VERSION.size:
        raise Malformed("a record of __consumer_offsets has no key")
    (version,) = _VERSION.unpack_from(record.key)
    if version in (0, _OFFSET_KEY_VERSION):
        key = messages.data("offset_commit_key").decode(version, record.key, _VERSION.size)
        return OffsetKey(key.group, TopicPartition(key.topic, key.partition))
    if version == _GROUP_KEY_VERSION:
        return GroupKey(messages.data("group_metadata_key").decode(version, record.key, _VERSION.size).group)
    return None


def read_commit(record: Record) -> Commit | None:
    """The commit, or None for a tombstone."""
    if record.value is None:
        return None
    value = _decode("offset_commit_value", record.value)
    return Commit(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        value.expire_timestamp,
        record.offset,
    )


def read_group(record: Record) -> GroupRecord | None:
    """The group, or None for a tombstone."""
    if record.value is None:
        return None
    value = _decode("group_metadata_value", record.value)
    members = tuple(
        MemberRecord(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            # Version 0 has no rebalance timeout, and some writers put -1: the session timeout stood in for it then.
            member.rebalance_timeout if member.rebalance_timeout > 0 else member.session_timeout,
            member.session_timeout,
            member.subscription,
            member.assignment,
        )
        for member in value.members
    )
    return GroupRecord(
        value.protocol_type, value.generation, value.protocol, value.leader, value.current_state_timestamp, members
    )


def _offset_key(group_id: str, where: TopicPartition) -> bytes:
    fields = {"group": group_id, "topic": where.topic, "partition": where.partition}
    return _encode("offset_commit_key", _OFFSET_KEY_VERSION, fields)


def _group_key(group_id: str) -> bytes:
    return _encode("group_metadata_key", _GROUP_KEY_VERSION, {"group": group_id})


def _encode(schema: str, version: int, fields: dict[str, Any]) -> bytes:
    return bytes(messages.data(schema).encode(version, fields, bytearray(_VERSION.pack(version))))


def _decode(schema: str, value: bytes) -> Message:
    if len(value) < _VERSION.size:
        raise Malformed(f"a {schema} has no version")
    (version,) = _VERSION.unpack_from(value)
    if version not in messages.data(schema).versions:
        raise Malformed(f"a {schema} has version {version}, which is unknown")
    return messages.data(schema).decode(version, value, _VERSION.size)
