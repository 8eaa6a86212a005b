"""Static members (KIP-345): a restart within the session disturbs nobody, and the one before is fenced."""

from fencepost.coordinator.group.requests import Leaver
from fencepost.errors import ErrorCode
from tests.unit.coordinator.group.support import GROUP, REBALANCE_MS, SESSION_MS, Client, World, new_members, stable
from tests.unit.coordinator.machine import code_of, start


def reborn(client: Client, **options) -> Client:
    """The same client after a restart: it has its instance id, and has lost its member id."""
    return Client(client.world, client.name, instance_id=client.instance_id, version=client.version, **options)


async def test_a_follower_that_restarts_gets_its_assignment_back_without_a_rebalance(world: World):
    _, old, _ = await new_members(world, "abc", is_static=True)
    new = reborn(old)
    joined = await new.join()
    assert (joined.generation, joined.skip_assignment) == (1, False)
    assert joined.member_id != old.member_id and joined.member_id.startswith(f"i-{old.name}-")
    assert world.state == "Stable"
    assert (await new.sync()).assignment == old.member_id.encode()
    assert old.heartbeat() is ErrorCode.FENCED_INSTANCE_ID
    assert await code_of(old.sync()) is ErrorCode.FENCED_INSTANCE_ID
    assert await code_of(old.join()) is ErrorCode.FENCED_INSTANCE_ID
    assert await old.leave() is ErrorCode.FENCED_INSTANCE_ID
    assert new.heartbeat() is ErrorCode.NONE


async def test_a_leader_that_restarts_is_told_to_skip_the_assignment(world: World):
    leader, _ = await new_members(world, is_static=True)
    new = reborn(leader)
    joined = await new.join()
    assert joined.leader == joined.member_id == new.member_id
    assert joined.skip_assignment
    assert len(joined.members) == 2
    assert world.state == "Stable"


async def test_an_old_leader_that_restarts_is_told_that_its_former_self_leads(world: World):
    """A client without the flag of KIP-814 would assign partitions again if it thought that it leads."""
    old, _ = await new_members(world, is_static=True, version=7)
    joined = await reborn(old).join()
    assert joined.leader == old.member_id != joined.member_id
    assert not joined.members and not joined.skip_assignment


async def test_a_restart_with_other_protocols_is_a_rebalance(world: World):
    steady, old = await new_members(world, is_static=True, protocols=["range", "sticky"])
    joining = await start(reborn(old, protocols=["sticky"]).join())
    assert world.state == "PreparingRebalance"
    await start(steady.join())
    assert (await joining).protocol == "sticky"


async def test_a_restart_while_the_leader_assigns_begins_the_rebalance_again(world: World):
    leader, old = await new_members(world, is_static=True, are_assigned=False)
    waiting = await start(old.sync())
    joining = await start(reborn(old).join())
    assert await code_of(waiting) is ErrorCode.FENCED_INSTANCE_ID
    assert await code_of(leader.assign()) is ErrorCode.REBALANCE_IN_PROGRESS
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
    leader = steady if steady.is_leader else late
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
    (static,) = await new_members(world, "a", is_static=True)
    await world.advance(SESSION_MS - 1)
    assert await code_of(reborn(static).join()) is ErrorCode.NONE
    await world.advance(SESSION_MS - 1)
    assert world.state == "Stable"  # the session of the old id does not count any more
    await world.advance(1)
    assert world.state == "Empty"


async def test_an_administrator_removes_static_members_by_name(world: World):
    *gone, left = await new_members(world, "abc", is_static=True)
    leavers = [Leaver("", client.instance_id) for client in gone]
    codes = await world.groups.leave(GROUP, [*leavers, Leaver("", "i-x"), Leaver("")])
    assert codes == [ErrorCode.NONE] * 2 + [ErrorCode.UNKNOWN_MEMBER_ID] * 2
    assert left.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert await code_of(left.join_and_sync()) is ErrorCode.NONE


async def test_the_new_id_survives_a_restart_of_the_broker(world: World):
    _, old = await new_members(world, is_static=True)
    new = reborn(old)
    await new.join()
    world.restart()
    assert new.heartbeat() is ErrorCode.NONE
    assert (await new.sync()).assignment == old.member_id.encode()
    assert old.heartbeat() is ErrorCode.FENCED_INSTANCE_ID
