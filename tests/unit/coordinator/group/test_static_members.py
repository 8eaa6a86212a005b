"""Static members (KIP-345): a restart within the session disturbs nobody, and the one before is fenced."""

import pytest

from fencepost.coordinator.group.requests import Identity, Leaver
from fencepost.errors import ErrorCode, KafkaError
from tests.unit.coordinator.group.support import GROUP, REBALANCE_MS, SESSION_MS, Client, World, join_together, stable
from tests.unit.coordinator.machine import code_of, settle, start


def by_rank(clients: list[Client]) -> list[Client]:
    return sorted(clients, key=lambda client: not client.is_leader)


def reborn(client: Client, **changes) -> Client:
    again = Client(client.world, client.name, instance_id=client.instance_id, version=client.version)
    for name, value in changes.items():
        setattr(again, name, value)
    return again


async def test_a_follower_that_restarts_gets_its_assignment_back_without_a_rebalance(world: World):
    clients = [Client(world, name, instance_id=f"i-{name}") for name in "abc"]
    await stable(world, *clients)
    old = by_rank(clients)[1]
    new = reborn(old)
    joined = await new.join()
    assert (joined.generation, joined.skip_assignment) == (1, False)
    assert joined.member_id != old.member_id and joined.member_id.startswith(f"i-{old.name}-")
    assert world.state == "Stable"
    assert (await new.sync()).assignment == old.member_id.encode()
    assert old.heartbeat() is ErrorCode.FENCED_INSTANCE_ID
    assert await code_of(old.sync()) is ErrorCode.FENCED_INSTANCE_ID
    assert await code_of(old.join()) is ErrorCode.FENCED_INSTANCE_ID
    assert (await old.leave())[0].error is ErrorCode.FENCED_INSTANCE_ID
    assert new.heartbeat() is ErrorCode.NONE


async def test_a_leader_that_restarts_is_told_to_skip_the_assignment(world: World):
    clients = [Client(world, name, instance_id=f"i-{name}") for name in "ab"]
    await stable(world, *clients)
    new = reborn(by_rank(clients)[0])
    joined = await new.join()
    assert joined.leader == joined.member_id == new.member_id
    assert joined.skip_assignment
    assert len(joined.members) == 2
    assert world.state == "Stable"


async def test_an_old_leader_that_restarts_is_told_that_its_former_self_leads(world: World):
    """Clients without the flag of KIP-814 would assign anew on their own if they thought that they lead."""

    clients = [Client(world, name, instance_id=f"i-{name}", version=7) for name in "ab"]
    await stable(world, *clients)
    old = by_rank(clients)[0]
    joined = await reborn(old).join()
    assert joined.leader == old.member_id != joined.member_id
    assert not joined.members and not joined.skip_assignment


async def test_a_restart_with_other_protocols_is_a_rebalance(world: World):
    both = ["range", "sticky"]
    clients = [Client(world, name, instance_id=f"i-{name}", protocols=both) for name in "a"]
    clients += [Client(world, "b", instance_id="i-b", protocols=["range", "sticky"])]
    await stable(world, *clients)
    new = reborn(clients[1], protocols=Client(world, "x", protocols=["sticky"]).protocols)
    joining = await start(new.join())
    assert world.state == "PreparingRebalance"
    await start(clients[0].join())
    assert (await joining).protocol == "sticky"


async def test_a_restart_while_the_leader_assigns_begins_the_rebalance_again(world: World):
    clients = [Client(world, name, instance_id=f"i-{name}") for name in "ab"]
    await join_together(world, *clients)
    leader, old = by_rank(clients)
    waiting = await start(old.sync())
    joining = await start(reborn(old).join())
    assert await code_of(waiting) is ErrorCode.FENCED_INSTANCE_ID
    assert await code_of(leader.assign(leader.last_join)) is ErrorCode.REBALANCE_IN_PROGRESS
    await start(leader.join())
    assert (await joining).generation == 2


async def test_a_twin_that_joins_while_the_first_one_waits_fences_it(world: World):
    steady, static = Client(world, "a"), Client(world, "b", instance_id="i-b")
    await stable(world, steady)
    first = await start(static.join())
    second = await start(reborn(static).join())
    assert await code_of(first) is ErrorCode.FENCED_INSTANCE_ID
    await stable(world, steady)
    assert (await second).generation == 2


async def test_a_static_member_that_is_away_keeps_its_place_through_a_rebalance(world: World):
    away = Client(world, "a", instance_id="i-a", session_ms=5 * REBALANCE_MS)
    steady = Client(world, "b")
    await stable(world, away, steady)
    late = Client(world, "c")
    joining = await start(late.join())
    rejoined = await start(steady.join())
    for _ in range(REBALANCE_MS // 1000):
        await world.advance(1000)
    assert (await joining).generation == (await rejoined).generation == 2
    leader = steady if steady.last_join.leader == steady.member_id else late
    assert away.member_id in {member.member_id for member in leader.last_join.members}


async def test_when_only_absent_static_members_are_left_the_group_waits_for_their_sessions(world: World):
    away = Client(world, "a", instance_id="i-a", session_ms=2 * REBALANCE_MS)
    leaving = Client(world, "b")
    await stable(world, away, leaving)
    await leaving.leave()
    await world.advance(REBALANCE_MS)
    assert world.state == "PreparingRebalance"
    await world.advance(REBALANCE_MS)
    assert world.state == "Empty"


async def test_a_static_member_stays_when_it_is_silent_for_less_than_its_session(world: World):
    static = Client(world, "a", instance_id="i-a")
    await stable(world, static)
    await world.advance(SESSION_MS - 1)
    assert await code_of(reborn(static).join()) is ErrorCode.NONE
    await world.advance(SESSION_MS - 1)
    assert world.state == "Stable"  # the session of the old id does not count any more
    await world.advance(1)
    assert world.state == "Empty"


async def test_an_administrator_removes_static_members_by_name(world: World):
    clients = [Client(world, name, instance_id=f"i-{name}") for name in "abc"]
    await stable(world, *clients)
    left = await world.groups.leave(GROUP, [Leaver("", "i-a"), Leaver("", "i-x"), Leaver("", "i-b"), Leaver("")])
    assert [one.error for one in left] == [
        ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID,
    ]  # fmt: skip
    assert clients[2].heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert await code_of(clients[2].join_and_sync()) is ErrorCode.NONE


async def test_the_new_id_survives_a_restart_of_the_broker(world: World):
    clients = [Client(world, name, instance_id=f"i-{name}") for name in "ab"]
    await stable(world, *clients)
    old = by_rank(clients)[1]
    new = reborn(old)
    await new.join()
    world.restart()
    await settle()
    assert new.heartbeat() is ErrorCode.NONE
    assert (await new.sync()).assignment == old.member_id.encode()
    assert old.heartbeat() is ErrorCode.FENCED_INSTANCE_ID


async def test_commits_of_the_one_before_are_fenced(world: World):
    static = Client(world, "a", instance_id="i-a")
    await stable(world, static)
    new = reborn(static)
    await new.join()
    assert await world.commit(1, new.identity) is ErrorCode.NONE
    for who in (static.identity, Identity("x", 1, "i-a")):
        with pytest.raises(KafkaError, match="FENCED_INSTANCE_ID"):
            await world.commit(2, who)
