"""What a request does to a group: every request in every state, and what is refused whatever the state."""

from collections.abc import Callable

import pytest

from fencepost.coordinator.group import decide
from fencepost.coordinator.group.decide import Join
from fencepost.coordinator.group.group import Group
from fencepost.coordinator.group.machine import GroupMachine, Offsets
from fencepost.coordinator.group.members import Member
from fencepost.coordinator.group.requests import Identity, Leaver, OffsetToCommit, Protocol, SyncRequest
from fencepost.coordinator.group.settings import GroupSettings
from fencepost.coordinator.group.states import State
from fencepost.errors import ErrorCode, KafkaError
from fencepost.wire.terms import TopicPartition
from tests.unit.coordinator.group.support import GROUP, join_request, subscription

GENERATION = 3
WHERE, OTHER = TopicPartition("t", 0), TopicPartition("other", 0)
LONG = "x" * 40_000


def group_in(state: State, protocol_type: str = "consumer") -> Group:
    """With a leader, a follower and a static member, unless it is empty; one more id has been given out."""
    group = Group(GROUP)
    group.expect("given")
    if state is State.EMPTY:
        return group
    for member_id, instance_id in (("leader", None), ("follower", None), ("static", "i")):
        group.add(Member.joining(member_id, join_request(instance_id=instance_id)), protocol_type)
    group.generation = GENERATION - 1
    group.begin_rebalance(0)
    if state is not State.PREPARING:
        group.begin_generation(0)
    if state is State.STABLE:
        group.adopt(group.record({}, 0))
    group.generation = GENERATION
    return group


def outcome(decision: Callable[[], object]) -> str:
    """The name of what was decided, the code of the refusal, or ok."""
    try:
        decided = decision()
    except KafkaError as error:
        return error.code.name
    return decided.name if isinstance(decided, Join) else "ok"


def join(member_id: str = "", **changes: object) -> Callable[[Group], object]:
    return lambda group: decide.join(group, join_request(member_id, **changes), GroupSettings())


def sync(member_id: str, instance_id: str | None = None, generation: int = GENERATION, **protocol: str):
    request = SyncRequest(
        group_id=GROUP, member_id=member_id, instance_id=instance_id, generation=generation, **protocol
    )
    return lambda group: decide.check_sync(group, request)


def commit(*who: object):
    return lambda group: decide.check_commit(group, Identity(*who), knows_missing_group=True)  # type: ignore[arg-type]


def txn_commit(*who: object):
    return lambda group: decide.check_txn_commit(group, Identity(*who))  # type: ignore[arg-type]


def leave(member_id: str, instance_id: str | None = None):
    return lambda group: decide.leave(group, Leaver(member_id, instance_id))


UNKNOWN, FENCED, OLD = "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID", "ILLEGAL_GENERATION"
BUSY, ODD, FULL = "REBALANCE_IN_PROGRESS", "INCONSISTENT_GROUP_PROTOCOL", "NON_EMPTY_GROUP"

#: A request, and what becomes of it in the states Empty, PreparingRebalance, CompletingRebalance and Stable.
TABLE: list[tuple[str, Callable[[Group], object], str, str, str, str]] = [
    ("join", join(), *["GIVE_MEMBER_ID"] * 4),
    ("join of an old client", join(needs_member_id=False), *["ADMIT"] * 4),
    ("join with a given id", join("given"), *["ADMIT"] * 4),
    ("join of a new static member", join(instance_id="new"), *["ADMIT"] * 4),
    ("join of a static member that came back", join(instance_id="i"), "ADMIT", *["REPLACE"] * 3),
    ("join with an unknown id", join("x"), *[UNKNOWN] * 4),
    ("join under another's instance id", join("follower", instance_id="i"), UNKNOWN, *[FENCED] * 3),
    ("join again, as leader", join("leader"), UNKNOWN, "REJOIN", "TELL", "REJOIN"),
    ("join again, as follower", join("follower"), UNKNOWN, "REJOIN", "TELL", "TELL"),
    ("join again, subscribed otherwise",
     join("follower", protocols=(Protocol("range", subscription("other")),)), UNKNOWN, *["REJOIN"] * 3),
    ("join with a protocol that nobody knows", join(protocols=(Protocol("rare", b""),)), "GIVE_MEMBER_ID", *[ODD] * 3),
    ("join with another protocol type", join(protocol_type="connect"), "GIVE_MEMBER_ID", *[ODD] * 3),
    ("join without a protocol", join(protocols=()), *[ODD] * 4),
    ("sync", sync("follower"), UNKNOWN, BUSY, "ok", "ok"),
    ("sync that names its protocol",
     sync("follower", protocol="range", protocol_type="consumer"), UNKNOWN, BUSY, "ok", "ok"),
    ("sync with an unknown id", sync("x"), *[UNKNOWN] * 4),
    ("sync with an unknown instance id", sync("follower", "x"), *[UNKNOWN] * 4),
    ("sync under another's instance id", sync("follower", "i"), UNKNOWN, *[FENCED] * 3),
    ("sync in an old generation", sync("follower", generation=2), UNKNOWN, *[OLD] * 3),
    ("sync with another protocol", sync("follower", protocol="sticky"), UNKNOWN, BUSY, ODD, ODD),
    ("sync with another protocol type", sync("follower", protocol_type="connect"), UNKNOWN, *[ODD] * 3),
    ("commit by nobody", commit(), "ok", *[UNKNOWN] * 3),
    ("commit", commit("follower", GENERATION), UNKNOWN, "ok", BUSY, "ok"),
    ("commit of a static member", commit("static", GENERATION, "i"), UNKNOWN, "ok", BUSY, "ok"),
    ("commit with an unknown id", commit("x", GENERATION), *[UNKNOWN] * 4),
    ("commit without a generation", commit("follower"), "ok", *[OLD] * 3),
    ("commit in an old generation", commit("follower", 2), UNKNOWN, *[OLD] * 3),
    ("commit under another's instance id", commit("x", GENERATION, "i"), UNKNOWN, *[FENCED] * 3),
    ("commit in a transaction by nobody", txn_commit(), *["ok"] * 4),
    ("commit in a transaction", txn_commit("follower", GENERATION), UNKNOWN, *["ok"] * 3),
    ("commit in a transaction without a generation", txn_commit("static", -1, "i"), "ok", *[OLD] * 3),
    ("commit in a transaction in an old generation", txn_commit("follower", 2), UNKNOWN, *[OLD] * 3),
    ("commit in a transaction under another's instance id", txn_commit("x", GENERATION, "i"), UNKNOWN, *[FENCED] * 3),
    ("leave", leave("follower"), UNKNOWN, *["ok"] * 3),
    ("leave with a given id", leave("given"), *["ok"] * 4),
    ("leave with an unknown id", leave("x"), *[UNKNOWN] * 4),
    ("leave by instance id", leave("", "i"), UNKNOWN, *["ok"] * 3),
    ("leave by an unknown instance id", leave("", "x"), *[UNKNOWN] * 4),
    ("leave under another's instance id", leave("follower", "i"), UNKNOWN, *[FENCED] * 3),
    ("leave without a name", leave(""), *[UNKNOWN] * 4),
    ("delete the group", lambda group: decide.delete_group(group, Offsets()), "ok", *[FULL] * 3),
    ("delete offsets", lambda group: decide.delete_offsets(group, Offsets(), [WHERE]), *["ok"] * 4),
]  # fmt: skip


@pytest.mark.parametrize(
    ("request_of", "expected"), [(row[1], row[2:]) for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_every_request_in_every_state(request_of, expected):
    states = (State.EMPTY, State.PREPARING, State.COMPLETING, State.STABLE)
    assert tuple(outcome(lambda state=state: request_of(group_in(state))) for state in states) == expected


@pytest.mark.parametrize(
    ("request_of", "expected"),
    [
        (join(), "GIVE_MEMBER_ID"),
        (join("x"), UNKNOWN),
        (commit(), "ok"),
        (commit("a", 1), "GROUP_ID_NOT_FOUND"),
        (lambda group: decide.check_commit(group, Identity("a", 1), knows_missing_group=False), OLD),
        (txn_commit(), "ok"),
        (txn_commit("a", 1), OLD),
    ],
)
def test_a_group_that_does_not_exist(request_of, expected):
    assert outcome(lambda: request_of(None)) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"session_timeout_ms": 5_999}, "INVALID_SESSION_TIMEOUT"),
        ({"session_timeout_ms": 1_800_001}, "INVALID_SESSION_TIMEOUT"),
        ({"group_id": ""}, "INVALID_GROUP_ID"),
        ({"group_id": LONG}, "INVALID_GROUP_ID"),
        ({"instance_id": LONG}, "INVALID_REQUEST"),
        ({"client_id": LONG}, "INVALID_REQUEST"),
        ({"protocol_type": LONG}, ODD),
        ({"protocols": (Protocol(LONG, b""),)}, ODD),
    ],
)
def test_a_join_that_no_state_allows(changes, expected):
    assert outcome(lambda: join(**changes)(Group(GROUP))) == expected


@pytest.mark.parametrize("state", [State.COMPLETING, State.STABLE])
def test_a_full_group_turns_newcomers_away_and_keeps_its_members(state):
    settings = GroupSettings(group_max_size=3)
    for request, expected in (
        (join_request(), "TURN_AWAY"),
        (join_request("given"), "TURN_AWAY"),
        (join_request("follower"), "TELL"),
        (join_request(instance_id="i"), "REPLACE"),
    ):
        assert outcome(lambda asked=request: decide.join(group_in(state), asked, settings)) == expected


def test_offsets_are_committed_unless_their_metadata_is_too_long():
    offsets = [OffsetToCommit(WHERE, 1, metadata="x" * 11), OffsetToCommit(OTHER, 2, metadata="x" * 10)]
    change = decide.commit(GROUP, offsets, now_ms=0, metadata_limit=10)
    assert change.results == {WHERE: ErrorCode.OFFSET_METADATA_TOO_LARGE, OTHER: ErrorCode.NONE}
    assert len(change.records) == 1


def test_no_limit_lets_through_what_no_record_can_hold():
    with pytest.raises(KafkaError, match="INVALID_GROUP_ID"):
        decide.commit(LONG, [OffsetToCommit(WHERE, 1)], now_ms=0, metadata_limit=2**31 - 1)
    change = decide.commit(GROUP, [OffsetToCommit(WHERE, 1, metadata=LONG)], now_ms=0, metadata_limit=2**31 - 1)
    assert change.results == {WHERE: ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert decide.commit(
        GROUP, [OffsetToCommit(WHERE, 1)], now_ms=5, metadata_limit=0, retention_ms=2**63 - 1
    ).records, "an expiry that does not fit is the latest that does"


def test_offsets_of_members_are_deleted_only_if_it_is_known_what_they_read():
    opaque = group_in(State.STABLE, "connect")
    assert outcome(lambda: decide.delete_offsets(opaque, Offsets(), [WHERE])) == FULL
    results = decide.delete_offsets(group_in(State.STABLE), Offsets(), [WHERE, OTHER]).results
    assert results == {WHERE: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, OTHER: ErrorCode.NONE}


def test_a_group_is_removed_when_it_has_neither_members_nor_offsets():
    for state in (State.EMPTY, State.PREPARING, State.COMPLETING, State.STABLE):
        machine = GroupMachine()
        group = machine.groups[GROUP] = group_in(state)
        group.note_commit()
        assert decide.expire(machine, 0, 1) == [], "an id was given out: its holder may still join"
        group.remove("given")
        assert len(decide.expire(machine, 0, 1)) == (state is State.EMPTY)
