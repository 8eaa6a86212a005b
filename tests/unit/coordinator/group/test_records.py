"""The records of __consumer_offsets: Kafka's bytes, and back."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.coordinator.group.records import (
    Commit,
    GroupKey,
    GroupRecord,
    MemberRecord,
    OffsetKey,
    commit_record,
    commit_tombstone,
    group_record,
    group_tombstone,
    read_commit,
    read_group,
    read_key,
)
from fencepost.errors import Malformed
from fencepost.wire.records import Record
from fencepost.wire.terms import TopicPartition

WHERE = TopicPartition("t", 3)


def test_a_commit_is_written_as_kafka_writes_it():
    record = commit_record("g", WHERE, Commit(5, 2, "m", 1000))
    assert record.key == bytes.fromhex("0001 0001 67 0001 74 00000003")
    assert record.value == bytes.fromhex("0003 0000000000000005 00000002 0001 6d 00000000000003e8")


def test_a_commit_with_an_expiry_of_its_own_takes_the_version_that_has_one():
    record = commit_record("g", WHERE, Commit(5, 2, "", 1000, 2000))
    assert record.value is not None and record.value[:2] == b"\x00\x01"
    assert read_commit(record) == Commit(5, -1, "", 1000, 2000, 0)


def test_a_group_is_written_as_kafka_writes_it():
    member = MemberRecord("m", None, "c", "/h", 300, 100, b"s", b"a")
    record = group_record("g", GroupRecord("consumer", 7, "range", "m", 1000, (member,)))
    assert record.key == bytes.fromhex("0002 0001 67")
    assert record.value == (
        b"\x00\x03\x00\x08consumer" + struct.pack(">i", 7) + b"\x00\x05range" + b"\x00\x01m" + struct.pack(">q", 1000)
        + struct.pack(">i", 1)
        + b"\x00\x01m" + b"\xff\xff" + b"\x00\x01c" + b"\x00\x02/h" + struct.pack(">ii", 300, 100)
        + struct.pack(">i", 1) + b"s" + struct.pack(">i", 1) + b"a"
    )  # fmt: skip


text = st.text(max_size=20)
small = st.binary(max_size=20)
number = st.integers(0, 2**31 - 1)


@given(text, text, number, st.builds(Commit, st.integers(-1, 2**63 - 1), st.just(4), text, st.integers(0, 2**60)))
def test_commits_come_back_as_they_went(group_id: str, topic: str, partition: int, commit: Commit):
    where = TopicPartition(topic, partition)
    record = commit_record(group_id, where, commit)
    assert read_key(record) == OffsetKey(group_id, where)
    read = read_commit(Record(record.key, record.value, offset=9))
    assert read is not None
    assert (read.offset, read.metadata, read.commit_ms, read.log_offset) == (
        commit.offset,
        commit.metadata,
        commit.commit_ms,
        9,
    )


members = st.builds(
    MemberRecord, text, st.none() | text, text, text, st.integers(1, 2**31 - 1), st.integers(1, 2**31 - 1), small, small
)
groups = st.builds(
    GroupRecord, text, number, st.none() | text, st.none() | text, st.integers(-1, 2**60), st.tuples(members, members)
)


@given(text, groups)
def test_groups_come_back_as_they_went(group_id: str, group: GroupRecord):
    record = group_record(group_id, group)
    assert read_key(record) == GroupKey(group_id)
    assert read_group(record) == group


def test_tombstones_have_no_value():
    assert read_commit(commit_tombstone("g", WHERE)) is None
    assert read_group(group_tombstone("g")) is None


def test_old_keys_are_read_and_new_kinds_left_alone():
    assert read_key(Record(bytes.fromhex("0000 0001 67 0001 74 00000003"), b"")) == OffsetKey("g", WHERE)
    assert read_key(Record(bytes.fromhex("0003 0001 67"), b"")) is None


@given(st.none() | small, small)
def test_bytes_that_are_no_records_are_malformed_and_nothing_else(key: bytes | None, value: bytes):
    record = Record(key, value)
    for read in (read_key, read_commit, read_group):
        try:
            read(record)
        except Malformed:
            pass


def test_a_value_of_an_unknown_version_is_refused():
    with pytest.raises(Malformed, match="version 9"):
        read_group(Record(b"", b"\x00\x09"))
