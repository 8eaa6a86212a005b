"""Committed offsets and offsets of partitions, from brokers old and new, calm and moving."""

from typing import Any

import pytest

from fencepost.client.cluster import NO_LEADER
from fencepost.client.groups import CommittedOffset, commit_offsets, committed_offsets
from fencepost.client.offsets import latest
from fencepost.errors import ConfigError, ErrorCode, NotAuthorized, TopicNotFound, Unsupported
from fencepost.wire.terms import TopicPartition
from tests.fakes.frames import HANG_UP
from tests.unit.client.scripted import METADATA, TOPIC

LIST_OFFSETS, OFFSET_COMMIT, OFFSET_FETCH = 2, 8, 9
WHERE = TopicPartition(TOPIC, 0)


def offsets_answer(code: int = 0, group_code: int = 0) -> dict[str, Any]:
    partitions = [
        {"partition_index": 0, "committed_offset": 5, "metadata": "m", "committed_leader_epoch": 2, "error_code": code},
        {"partition_index": 1, "committed_offset": -1, "metadata": ""},
    ]
    entry = {"topics": [{"name": TOPIC, "partitions": partitions}], "error_code": group_code}
    return {**entry, "groups": [{"group_id": "g", **entry}]}


@pytest.mark.parametrize("newest", [7, 8, 9, 10])
def test_committed_offsets_are_read_from_brokers_of_every_age(broker, cluster, newest):
    broker.versions[OFFSET_FETCH] = (1, newest)
    broker.answers[OFFSET_FETCH] = offsets_answer()
    expected = {WHERE: CommittedOffset(5, "m", 2)}
    assert committed_offsets(cluster, "g", [WHERE, TopicPartition(TOPIC, 1)]) == expected
    [asked] = broker.requests(OFFSET_FETCH)
    assert asked.require_stable
    entry = asked.groups[0] if newest > 7 else asked
    assert [(topic.name, topic.partition_indexes) for topic in entry.topics] == [(TOPIC, [0, 1])]


def test_a_broker_that_cannot_promise_stable_offsets_is_refused(broker, cluster):
    broker.versions[OFFSET_FETCH] = (1, 6)
    with pytest.raises(Unsupported, match="offset_fetch in versions 1 to 6"):
        committed_offsets(cluster, "g", [WHERE])


@pytest.mark.parametrize(
    "trouble",
    [
        HANG_UP,
        offsets_answer(ErrorCode.UNSTABLE_OFFSET_COMMIT),
        offsets_answer(group_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        offsets_answer(group_code=ErrorCode.NOT_COORDINATOR),
    ],
    ids=["hung up", "unstable", "loading", "moved"],
)
def test_offsets_that_are_not_certain_yet_are_waited_for(broker, cluster, trouble):
    broker.queued[OFFSET_FETCH] = [trouble, trouble, offsets_answer()]
    assert committed_offsets(cluster, "g", [WHERE]) == {WHERE: CommittedOffset(5, "m", 2)}


def test_a_group_that_is_not_there_has_nothing_and_one_that_is_forbidden_says_so(broker, cluster):
    broker.queued[OFFSET_FETCH] = [
        offsets_answer(group_code=ErrorCode.GROUP_ID_NOT_FOUND),
        offsets_answer(group_code=ErrorCode.GROUP_AUTHORIZATION_FAILED),
    ]
    assert committed_offsets(cluster, "g", [WHERE]) == {}
    with pytest.raises(NotAuthorized, match="the right Read on group 'g'"):
        committed_offsets(cluster, "g", [WHERE])


def commit_answer(code: int) -> dict[str, Any]:
    return {"topics": [{"name": TOPIC, "partitions": [{"partition_index": 0, "error_code": code}]}]}


@pytest.mark.parametrize("newest", [2, 5, 9, 10])
def test_offsets_are_committed_by_somebody_who_is_no_member(broker, cluster, newest):
    broker.versions[OFFSET_COMMIT] = (2, newest)
    broker.queued[OFFSET_COMMIT] = [commit_answer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), commit_answer(0)]
    commit_offsets(cluster, "g", {WHERE: 7})
    asked = broker.requests(OFFSET_COMMIT)[-1]
    assert (asked.group_id, asked.generation_id_or_member_epoch, asked.member_id) == ("g", -1, "")
    [topic] = asked.topics
    assert (topic.name, [(each.partition_index, each.committed_offset) for each in topic.partitions]) == (
        TOPIC,
        [(0, 7)],
    )


@pytest.mark.parametrize(
    ("code", "error", "said"),
    [
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, NotAuthorized, "the right Read on group 'g'"),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, NotAuthorized, "the right Read on topic 't'"),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, TopicNotFound, "topic 't' does not exist"),
        (ErrorCode.UNKNOWN_MEMBER_ID, ConfigError, "group 'g' has members"),
    ],
)
def test_offsets_that_cannot_be_committed_say_why(broker, cluster, code, error, said):
    broker.answers[OFFSET_COMMIT] = commit_answer(code)
    with pytest.raises(error, match=said):
        commit_offsets(cluster, "g", {WHERE: 7})


def listed(offset: int, code: int = 0) -> dict[str, Any]:
    entry = {"partition_index": 0, "offset": offset, "error_code": code}
    return {"topics": [{"name": TOPIC, "partitions": [entry]}]}


@pytest.mark.parametrize(
    "trouble",
    [HANG_UP, listed(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER), listed(-1, ErrorCode.OFFSET_NOT_AVAILABLE)],
    ids=["hung up", "moved", "not available"],
)
def test_a_leader_that_moved_is_asked_again_elsewhere(broker, cluster, trouble):
    broker.queued[LIST_OFFSETS] = [trouble, listed(42)]
    assert latest(cluster, [WHERE]) == {WHERE: 42}
    assert len(broker.requests(METADATA)) == 2


def test_a_leader_that_is_being_elected_is_waited_for(broker, cluster):
    broker.queued[METADATA] = [broker.metadata(leader=NO_LEADER)] * 2
    broker.answers[LIST_OFFSETS] = listed(42)
    assert latest(cluster, [WHERE]) == {WHERE: 42}


def test_a_partition_that_one_may_not_ask_about_is_refused(broker, cluster):
    broker.answers[LIST_OFFSETS] = listed(-1, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(NotAuthorized, match="the right Describe on topic 't'"):
        latest(cluster, [WHERE])
