"""Groups by hand: the classic protocol in every version, and what is refused to whom."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.clients.raw import Key, Wire, errors
from tests.clients.raw_groups import SUBSCRIPTION, Member, served_group
from tests.conftest import MakeTopic, unique, wait_until


@pytest.fixture
def group(wire: Wire) -> str:
    return served_group(wire)


@pytest.fixture
def member(wire: Wire, group: str) -> Member:
    """The only member of a stable group."""
    alone = Member(wire, group)
    assert alone.join() == set()
    assert errors(alone.sync(assignments={alone.member_id: b"all"})) == set()
    return alone


class TestLife:
    @pytest.mark.parametrize("version", range(10))
    def test_a_member_joins_syncs_beats_commits_and_leaves_in_every_version(
        self, wire: Wire, group: str, topic: MakeTopic, version: int
    ) -> None:
        name, member = topic(), Member(wire, group)
        assert member.join(version) == set()
        assert member.leader == member.member_id != ""
        assert member.generation == 1
        assert [each.member_id for each in member.joined.members] == [member.member_id]
        assert bytes(member.joined.members[0].metadata) == SUBSCRIPTION
        synced = member.sync(min(version, 5), {member.member_id: b"assignment"})
        assert (errors(synced), bytes(synced.assignment)) == (set(), b"assignment")
        assert member.heartbeat(min(version, 4)) == set()
        assert member.commit(name, 5, max(2, min(version, 9))) == set()
        assert member.leave(min(version, 5)) == set()
        assert member.heartbeat() == {"UNKNOWN_MEMBER_ID"}

    def test_two_members_are_brought_into_one_generation(
        self, open_wire: Callable[[], Wire], group: str, member: Member
    ) -> None:
        second = Member(open_wire(), group)
        answer = second.wire.receive(second.send_join())
        second.member_id = answer.member_id
        pending = second.send_join()
        assert wait_until(member.heartbeat, "a rebalance begins") == {"REBALANCE_IN_PROGRESS"}
        assert member.join() == set()
        assert second.joined_with(pending) == set()
        assert member.generation == second.generation == 2
        assert member.leader == second.leader == member.member_id
        assert {each.member_id for each in member.joined.members} == {member.member_id, second.member_id}
        assert second.joined.members == ()
        waiting = second.wire.request(Key.SYNC_GROUP, 5, second.sync_fields({}))
        told = member.sync(assignments={member.member_id: b"one", second.member_id: b"two"})
        assert bytes(told.assignment) == b"one"
        assert bytes(second.wire.receive(waiting).assignment) == b"two"

    def test_a_member_that_does_not_join_again_in_time_is_left_behind(
        self, open_wire: Callable[[], Wire], wire: Wire, group: str
    ) -> None:
        slow, quick = Member(wire, group), Member(open_wire(), group)
        assert slow.join(rebalance_timeout_ms=300) == set()
        slow.sync(assignments={slow.member_id: b"all"})
        assert quick.join(rebalance_timeout_ms=300) == set()  # the slow one does not answer
        assert [each.member_id for each in quick.joined.members] == [quick.member_id]
        assert slow.heartbeat() == {"UNKNOWN_MEMBER_ID"}

    def test_the_protocol_is_one_that_all_members_speak(
        self, open_wire: Callable[[], Wire], wire: Wire, group: str
    ) -> None:
        first = Member(wire, group)
        first.join(protocols=("sticky", "range"))
        assert first.joined.protocol_name == "sticky"
        stranger = Member(open_wire(), group)
        assert stranger.join(protocols=("roundrobin",)) == {"INCONSISTENT_GROUP_PROTOCOL"}

    def test_a_group_that_nobody_joined_has_no_members(self, wire: Wire, group: str) -> None:
        (found,) = wire.call(Key.DESCRIBE_GROUPS, 5, groups=[group]).groups
        assert (found.group_state, found.members) == ("Dead", ())

    def test_a_leader_that_joins_again_begins_a_new_generation(self, member: Member) -> None:
        before = member.generation
        assert member.join() == set()
        assert member.generation == before + 1


class TestRefusals:
    def test_a_generation_of_another_time_is_refused(self, member: Member, topic: MakeTopic) -> None:
        name, member.generation = topic(), member.generation + 1
        assert member.heartbeat() == {"ILLEGAL_GENERATION"}
        assert member.commit(name, 1) == {"ILLEGAL_GENERATION"}
        assert errors(member.sync()) == {"ILLEGAL_GENERATION"}

    def test_a_stranger_is_refused(self, member: Member, topic: MakeTopic) -> None:
        name, member.member_id = topic(), "nobody"
        assert member.heartbeat() == {"UNKNOWN_MEMBER_ID"}
        assert member.commit(name, 1) == {"UNKNOWN_MEMBER_ID"}
        assert errors(member.sync()) == {"UNKNOWN_MEMBER_ID"}
        assert member.join() == {"UNKNOWN_MEMBER_ID"}

    def test_one_who_is_no_member_cannot_commit_for_a_live_group(
        self, wire: Wire, member: Member, topic: MakeTopic
    ) -> None:
        assert Member(wire, member.group).commit(topic(), 1) == {"UNKNOWN_MEMBER_ID"}

    def test_a_session_timeout_out_of_bounds_is_refused(self, wire: Wire, group: str) -> None:
        for timeout in (1, 10**9):
            assert Member(wire, group).join(session_timeout_ms=timeout) == {"INVALID_SESSION_TIMEOUT"}

    def test_a_group_must_have_a_name(self, wire: Wire) -> None:
        assert Member(wire, "").join() == {"INVALID_GROUP_ID"}

    def test_a_group_of_no_protocols_is_refused(self, wire: Wire, group: str) -> None:
        assert Member(wire, group).join(protocols=()) == {"INCONSISTENT_GROUP_PROTOCOL"}

    def test_the_holder_of_an_instance_id_is_fenced_by_the_next(
        self, open_wire: Callable[[], Wire], wire: Wire, group: str, topic: MakeTopic
    ) -> None:
        name = topic()
        old = Member(wire, group, instance_id="same")
        old.join()
        old.sync(assignments={old.member_id: b"all"})
        new = Member(open_wire(), group, instance_id="same")
        assert new.join() == set()
        assert new.generation == old.generation  # no rebalance
        assert bytes(new.sync().assignment) == b"all"
        for refused in (old.heartbeat(), old.commit(name, 1), errors(old.sync()), old.join(), old.leave()):
            assert refused == {"FENCED_INSTANCE_ID"}
        assert new.heartbeat() == set()

    def test_a_member_that_is_silent_for_too_long_is_removed(self, wire: Wire, group: str) -> None:
        member = Member(wire, group)
        member.join(session_timeout_ms=200)
        member.sync(assignments={member.member_id: b"all"})
        wait_until(
            lambda: wire.call(Key.DESCRIBE_GROUPS, 5, groups=[group]).groups[0].group_state == "Empty", "it is removed"
        )
        assert member.heartbeat() == {"UNKNOWN_MEMBER_ID"}


class TestOffsets:
    def fetch(self, wire: Wire, group: str, topics: list[dict[str, Any]] | None, **options: Any) -> Any:
        answer = wire.call(Key.OFFSET_FETCH, 8, groups=[{"group_id": group, "topics": topics}], **options)
        assert errors(answer) == set()
        return {
            (told.name, each.partition_index): (each.committed_offset, each.metadata)
            for told in answer.groups[0].topics
            for each in told.partitions
        }

    def test_offsets_and_their_notes_are_kept_and_listed(self, wire: Wire, group: str, topic: MakeTopic) -> None:
        one, two = topic(), topic()
        nobody = Member(wire, group)
        assert nobody.commit(one, 5, metadata="a note ☃") == set()
        assert nobody.commit(two, 0) == set()
        assert self.fetch(wire, group, None) == {(one, 0): (5, "a note ☃"), (two, 0): (0, "")}
        asked = [{"name": one, "partition_indexes": [0, 7]}]
        assert self.fetch(wire, group, asked) == {(one, 0): (5, "a note ☃"), (one, 7): (-1, "")}

    @pytest.mark.parametrize("version", range(1, 8))
    def test_every_older_version_tells_the_same(self, wire: Wire, group: str, topic: MakeTopic, version: int) -> None:
        name = topic()
        Member(wire, group).commit(name, 5, metadata="note")
        answer = wire.call(
            Key.OFFSET_FETCH, version, group_id=group, topics=[{"name": name, "partition_indexes": [0, 1]}]
        )
        assert errors(answer) == set()
        told = [(each.committed_offset, each.metadata) for each in answer.topics[0].partitions]
        assert told == [(5, "note"), (-1, "")]

    def test_a_group_without_members_loses_its_offsets_with_their_topic_and_stays(
        self, wire: Wire, group: str, topic: MakeTopic
    ) -> None:
        name = topic()
        assert Member(wire, group).commit(name, 5) == set()
        assert errors(wire.call(Key.DELETE_TOPICS, 5, topic_names=[name], timeout_ms=5000)) == set()
        wait_until(lambda: self.fetch(wire, group, None) == {}, "the offsets are gone")
        (found,) = wire.call(Key.DESCRIBE_GROUPS, 6, groups=[group]).groups
        assert (found.error_code, found.group_state) == (0, "Empty")

    def test_a_note_that_is_too_long_is_refused(self, wire: Wire, group: str, topic: MakeTopic) -> None:
        assert Member(wire, group).commit(topic(), 1, metadata="x" * 5000) == {"OFFSET_METADATA_TOO_LARGE"}

    def test_an_offset_for_what_is_not_there_is_refused(self, wire: Wire, group: str) -> None:
        assert Member(wire, group).commit(unique("unknown"), 1) == {"UNKNOWN_TOPIC_OR_PARTITION"}

    def test_several_groups_are_asked_for_at_once(self, wire: Wire, topic: MakeTopic) -> None:
        name, groups = topic(), [unique("group") for _ in range(3)]
        for number, each in enumerate(groups):
            wait_until(lambda: not Member(wire, each).commit(name, number), "it is committed")  # noqa: B023
        answer = wire.call(Key.OFFSET_FETCH, 8, groups=[{"group_id": each, "topics": None} for each in groups])
        told = {each.group_id: each.topics[0].partitions[0].committed_offset for each in answer.groups}
        assert told == {each: number for number, each in enumerate(groups)}


class TestCoordinators:
    def test_every_kind_of_key_finds_its_coordinator(self, wire: Wire) -> None:
        for key_type in (0, 1):
            answer = wire.call(Key.FIND_COORDINATOR, 4, key_type=key_type, coordinator_keys=["one", "two"])
            assert {each.key for each in answer.coordinators} == {"one", "two"}

    def test_an_unknown_kind_of_key_is_refused(self, wire: Wire) -> None:
        answer = wire.call(Key.FIND_COORDINATOR, 4, key_type=9, coordinator_keys=["one"])
        assert errors(answer) == {"INVALID_REQUEST"}
