"""Committed offsets and offsets of partitions, from brokers old and new, calm and moving."""

from typing import Any

import pytest

from fencepost.client import Cluster
from fencepost.client.groups import CommittedOffset, committed_offsets
from fencepost.client.offsets import at_times, earliest, latest, topics_matching
from fencepost.errors import ErrorCode, Refused, Unsupported
from fencepost.wire.terms import TopicPartition
from tests.fakes.frames import HANG_UP
from tests.unit.client.scripted import METADATA, TOPIC, ScriptedBroker, settings

LIST_OFFSETS, OFFSET_FETCH = 2, 9
WHERE = TopicPartition(TOPIC, 0)


def offsets_answer(code: int = 0, group_code: int = 0) -> dict[str, Any]:
    partitions = [
        {"partition_index": 0, "committed_offset": 5, "metadata": "m", "committed_leader_epoch": 2, "error_code": code},
        {"partition_index": 1, "committed_offset": -1, "metadata": ""},
    ]
    entry = {"topics": [{"name": TOPIC, "partitions": partitions}], "error_code": group_code}
    return {**entry, "groups": [{"group_id": "g", **entry}]}


@pytest.mark.parametrize("newest", [7, 8, 9, 10])
def test_committed_offsets_are_read_from_brokers_of_every_age(newest):
    def script(api_key, _request):
        return offsets_answer() if api_key == OFFSET_FETCH else None

    with ScriptedBroker(script, versions={OFFSET_FETCH: (1, newest)}) as broker, Cluster(settings(broker)) as cluster:
        expected = {WHERE: CommittedOffset(5, "m", 2)}
        assert committed_offsets(cluster, "g", [WHERE, TopicPartition(TOPIC, 1)]) == expected
        [asked] = [request for key, request in broker.asked if key == OFFSET_FETCH]
    assert asked.require_stable
    entry = asked.groups[0] if newest > 7 else asked
    assert [(topic.name, topic.partition_indexes) for topic in entry.topics] == [(TOPIC, [0, 1])]


def test_a_broker_that_cannot_promise_stable_offsets_is_refused():
    with (
        ScriptedBroker(versions={OFFSET_FETCH: (1, 6)}) as broker,
        Cluster(settings(broker)) as cluster,
        pytest.raises(Unsupported, match="offset_fetch in versions 1 to 6"),
    ):
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
def test_offsets_that_are_not_certain_yet_are_waited_for(trouble):
    troubles = [trouble, trouble]

    def script(api_key, _request):
        if api_key != OFFSET_FETCH:
            return None
        return troubles.pop() if troubles else offsets_answer()

    with ScriptedBroker(script) as broker, Cluster(settings(broker)) as cluster:
        assert committed_offsets(cluster, "g", [WHERE]) == {WHERE: CommittedOffset(5, "m", 2)}


@pytest.mark.parametrize(("code", "outcome"), [(ErrorCode.GROUP_ID_NOT_FOUND, {}), (30, Refused)])
def test_a_group_that_is_not_there_has_nothing_and_one_that_is_forbidden_says_so(code, outcome):
    def script(api_key, _request):
        return offsets_answer(group_code=code) if api_key == OFFSET_FETCH else None

    with ScriptedBroker(script) as broker, Cluster(settings(broker)) as cluster:
        if outcome is Refused:
            with pytest.raises(Refused, match="GROUP_AUTHORIZATION_FAILED"):
                committed_offsets(cluster, "g", [WHERE])
        else:
            assert committed_offsets(cluster, "g", [WHERE]) == outcome


def listed(offset: int, code: int = 0) -> dict[str, Any]:
    entry = {"partition_index": 0, "offset": offset, "error_code": code}
    return {"topics": [{"name": TOPIC, "partitions": [entry]}]}


@pytest.mark.parametrize("trouble", [HANG_UP, listed(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER), listed(-1, 78)])
def test_a_leader_that_moved_is_asked_again_elsewhere(trouble):
    troubles = [trouble]

    def script(api_key, _request):
        if api_key != LIST_OFFSETS:
            return None
        return troubles.pop() if troubles else listed(42)

    with ScriptedBroker(script) as broker, Cluster(settings(broker)) as cluster:
        assert latest(cluster, [WHERE]) == {WHERE: 42}
        assert [key for key, _ in broker.asked].count(METADATA) == 2


def test_beginnings_ends_and_times_are_asked_for_by_their_numbers():
    def script(api_key, _request):
        return listed(-1) if api_key == LIST_OFFSETS else None

    with ScriptedBroker(script) as broker, Cluster(settings(broker)) as cluster:
        earliest(cluster, [WHERE])
        latest(cluster, [WHERE])
        assert at_times(cluster, {WHERE: 1234}) == {WHERE: None}
        asked = [request for key, request in broker.asked if key == LIST_OFFSETS]
    assert [request.topics[0].partitions[0].timestamp for request in asked] == [-2, -1, 1234]
    assert {request.isolation_level for request in asked} == {1}


def test_a_partition_that_one_may_not_ask_about_is_refused():
    def script(api_key, _request):
        return listed(-1, ErrorCode.TOPIC_AUTHORIZATION_FAILED) if api_key == LIST_OFFSETS else None

    with (
        ScriptedBroker(script) as broker,
        Cluster(settings(broker)) as cluster,
        pytest.raises(Refused, match="offsets of t-0"),
    ):
        latest(cluster, [WHERE])


def test_internal_topics_match_no_pattern():
    def script(api_key, _request):
        if api_key != METADATA:
            return None
        return {
            "topics": [{"name": "__consumer_offsets", "is_internal": True}, {"name": "shop.a"}, {"name": "shopping"}]
        }

    with ScriptedBroker(script) as broker, Cluster(settings(broker)) as cluster:
        assert topics_matching(cluster, r".*") == ["shop.a", "shopping"]
        assert topics_matching(cluster, r"shop\..*") == ["shop.a"]
