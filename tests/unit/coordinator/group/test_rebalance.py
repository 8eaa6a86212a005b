"""Members come, go and die; the group gets from one generation to the next."""

import asyncio

import pytest

from fencepost.coordinator.group.rebalance import FIRST_JOIN_GRACE_MS, NEW_MEMBER_JOIN_TIMEOUT_MS
from fencepost.errors import ErrorCode, KafkaError
from tests.unit.coordinator.group.support import GROUP, REBALANCE_MS, SESSION_MS, Client, World, new_members, stable
from tests.unit.coordinator.machine import code_of, settle, start


async def test_a_single_member_starts_at_once(world: World):
    client = Client(world, "a")
    synced = await client.join_and_sync()
    assert synced.assignment == client.member_id.encode()
    assert (client.generation, world.state) == (1, "Stable")
    assert (synced.protocol_type, synced.protocol) == ("consumer", "range")
    assert client.heartbeat() is ErrorCode.NONE


async def test_three_members_get_what_the_leader_gives_them(world: World):
    clients = await new_members(world, "abc")
    assert {client.generation for client in clients} == {1}
    assert [client.is_leader for client in clients] == [True, False, False]
    assert [len(client.last_join.members) for client in clients] == [3, 0, 0]
    assert {member.member_id for member in clients[0].last_join.members} == {c.member_id for c in clients}
    described = world.groups.describe(GROUP)
    assert described is not None
    assert {m.member_id: m.assignment for m in described.members} == {
        c.member_id: c.member_id.encode() for c in clients
    }


async def test_a_fourth_member_makes_the_others_join_again(world: World):
    clients = await new_members(world, "abc")
    late = Client(world, "d")
    joining = await start(late.join_and_sync())
    assert world.state == "PreparingRebalance"
    assert [client.heartbeat() for client in clients] == [ErrorCode.REBALANCE_IN_PROGRESS] * 3
    await stable(world, *clients)
    assert (await joining).assignment == late.member_id.encode()
    assert {client.generation for client in (*clients, late)} == {2}


async def test_who_does_not_join_again_in_time_is_left_behind(world: World):
    quick, slow = await new_members(world)
    joining = await start(quick.join_and_sync())
    for _ in range(REBALANCE_MS // 1000 - 1):
        await world.advance(1000)
        assert slow.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert not joining.done()
    await world.advance(1000)
    await joining
    assert quick.generation == 2
    assert slow.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_silent_member_is_removed_when_its_session_is_over(world: World):
    alive, silent = await new_members(world)
    await world.advance(SESSION_MS - 1)
    assert alive.heartbeat() is ErrorCode.NONE
    await world.advance(1)
    assert world.state == "PreparingRebalance"
    assert silent.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    synced = await alive.join_and_sync()
    assert synced.assignment == alive.member_id.encode()
    assert alive.generation == 2


async def test_a_member_that_waits_needs_no_heartbeat(world: World):
    first, second = await new_members(world)
    late = Client(world, "c")
    joining = await start(late.join_and_sync())
    again = await start(first.join_and_sync())
    for _ in range(4):
        await world.advance(SESSION_MS - 1)
        second.heartbeat()
    assert not again.done()
    await stable(world, second)
    await asyncio.gather(joining, again)


async def test_a_new_member_that_waits_for_ever_is_told_to_start_over(world: World):
    (stubborn,) = await new_members(world, "a", rebalance_ms=10 * NEW_MEMBER_JOIN_TIMEOUT_MS)
    late = Client(world, "b")
    joining = await start(late.join())
    for _ in range(NEW_MEMBER_JOIN_TIMEOUT_MS // 1000):
        stubborn.heartbeat()
        await world.advance(1000)
    assert await code_of(joining) is ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_cooperative_rebalance_is_two_generations_in_a_row(world: World):
    """Incremental assignment is between the members: they keep working, give up partitions, and join once more."""
    old, new = (Client(world, name, protocols=["cooperative-sticky"]) for name in "ab")
    await stable(world, old)
    joining = await start(new.join_and_sync())
    assert await world.commit(5, old.identity) is ErrorCode.NONE  # it still owns everything while others join
    await stable(world, old)
    await joining
    rejoined = await start(old.join_and_sync())  # having revoked what the new member is to get
    assert new.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    await stable(world, new)
    await rejoined
    assert old.generation == new.generation == 3


async def test_the_protocol_with_the_most_votes_that_all_know_is_chosen(world: World):
    clients = [
        Client(world, "a", protocols=["range", "sticky", "rare"]),
        Client(world, "b", protocols=["sticky", "range"]),
        Client(world, "c", protocols=["sticky", "range"]),
    ]
    await stable(world, *clients)
    assert {client.last_join.protocol for client in clients} == {"sticky"}


async def test_a_member_id_that_was_given_and_never_used_expires(world: World):
    client = Client(world, "a")
    await client.ask_for_id()
    await world.advance(SESSION_MS)
    assert await code_of(client.join()) is ErrorCode.UNKNOWN_MEMBER_ID


async def test_members_that_start_together_share_the_first_generation(world: World):
    first, second = Client(world, "a"), Client(world, "b")
    await second.ask_for_id()
    joining = await start(first.join())
    assert not joining.done()
    assert (await second.join()).generation == (await joining).generation == 1


async def test_the_first_generation_does_not_wait_long_for_somebody_who_was_given_an_id_and_died(world: World):
    await Client(world, "b").ask_for_id()
    joining = await start(Client(world, "a").join())
    await world.advance(FIRST_JOIN_GRACE_MS)
    assert (await joining).generation == 1


async def test_an_initial_delay_gathers_members_and_is_prolonged_by_new_ones(world: World):
    world.settings.group_initial_rebalance_delay_ms = 3_000
    first = await start(Client(world, "a").join())
    await world.advance(2_000)
    second = await start(Client(world, "b").join())
    await world.advance(1_000)
    assert not first.done()
    await world.advance(2_999)
    assert not first.done()
    await world.advance(1)
    assert (await first).generation == (await second).generation == 1


async def test_an_initial_delay_never_exceeds_the_rebalance_timeout(world: World):
    world.settings.group_initial_rebalance_delay_ms = 3_000
    clients = [await start(Client(world, "0", rebalance_ms=10_000).join())]
    for name in range(1, 12):
        await world.advance(1_000)
        if not clients[0].done():
            clients.append(await start(Client(world, str(name), rebalance_ms=10_000).join()))
    assert clients[0].done()


async def test_when_the_limit_was_lowered_the_last_to_join_again_goes_and_nobody_else_may_come(world: World):
    clients = await new_members(world, "abc")
    world.settings.group_max_size = 2
    world.restart()
    assert world.state == "PreparingRebalance"
    first, second = await start(clients[0].join()), await start(clients[1].join())
    assert await code_of(clients[2].join()) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert (await first).generation == (await second).generation == 2
    await asyncio.gather(clients[0].assign(), clients[1].assign())
    assert await code_of(Client(world, "d").join()) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.state == "Stable"


async def test_who_does_not_ask_for_an_assignment_in_time_is_removed(world: World):
    leader, idle = await new_members(world, are_assigned=False)
    assert await code_of(leader.assign()) is ErrorCode.NONE
    for _ in range(REBALANCE_MS // 1000):
        assert leader.heartbeat() is ErrorCode.NONE
        assert idle.heartbeat() is ErrorCode.NONE  # alive, but it never asks
        await world.advance(1000)
    assert idle.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert leader.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS


async def test_followers_that_wait_for_a_leader_that_died_are_sent_back_to_join(world: World):
    _, follower = await new_members(world, are_assigned=False)
    waiting = await start(follower.sync())
    await world.advance(SESSION_MS)
    assert await code_of(waiting) is ErrorCode.REBALANCE_IN_PROGRESS
    assert await code_of(follower.join_and_sync()) is ErrorCode.NONE


async def test_a_join_that_is_repeated_gets_the_answer_that_was_missed(world: World):
    leader, _ = await new_members(world, are_assigned=False)
    before = leader.last_join
    assert await leader.join() == before


async def test_a_second_join_of_the_same_member_answers_the_first(world: World):
    leader, other = await new_members(world)
    first = await start(world.groups.join(leader.request()))
    second = await start(world.groups.join(leader.request()))
    assert await code_of(first) is ErrorCode.REBALANCE_IN_PROGRESS
    await start(other.join())
    assert (await second).generation == 2


async def test_nobody_is_a_member_of_a_group_that_does_not_exist(world: World):
    client = Client(world, "a")
    assert client.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert await code_of(client.sync()) is ErrorCode.UNKNOWN_MEMBER_ID
    assert await code_of(client.sync(group_id="")) is ErrorCode.INVALID_GROUP_ID
    with pytest.raises(KafkaError, match="INVALID_GROUP_ID"):
        world.groups.heartbeat("", "", None, 0)


# -- clients that go away while they wait


async def test_a_client_that_hangs_up_while_it_joins_does_not_hold_up_the_others(world: World):
    steady, fickle = await new_members(world)
    late = Client(world, "c")
    joining = await start(late.join_and_sync())
    hanging = await start(fickle.join())
    hanging.cancel()
    await settle()
    await stable(world, steady)
    await joining
    assert steady.generation == 2
    assert fickle.member_id in world.members  # as in Kafka: until its session is over
    for _ in range(SESSION_MS // 1000):
        await world.advance(1000)
        steady.heartbeat()
        late.heartbeat()
    assert fickle.member_id not in world.members


async def test_a_client_that_hangs_up_before_it_knew_its_id_is_forgotten_at_once(world: World):
    (steady,) = await new_members(world, "a")
    hanging = await start(Client(world, "b", version=3).join())
    assert len(world.members) == 2
    hanging.cancel()
    await settle()
    assert list(world.members) == [steady.member_id]
    await stable(world, steady)


async def test_who_hung_up_does_not_become_the_leader(world: World):
    leader, other = await new_members(world)
    hanging = await start(leader.join())
    hanging.cancel()
    await settle()
    joined = await other.join()
    assert joined.leader == other.member_id


async def test_a_client_that_hangs_up_while_it_syncs_loses_its_session_if_it_stays_away(world: World):
    leader, other = await new_members(world, are_assigned=False)
    hanging = await start(other.sync())
    await world.advance(SESSION_MS - 1)
    leader.heartbeat()
    hanging.cancel()
    await settle()
    assert await code_of(leader.assign()) is ErrorCode.NONE
    await world.advance(SESSION_MS - 1)
    leader.heartbeat()
    assert world.state == "Stable"
    await world.advance(1)
    assert world.state == "PreparingRebalance"


async def test_nothing_is_left_waiting_when_the_coordinator_stops(world: World):
    await new_members(world, "a")
    joining = await start(Client(world, "b").join())
    world.groups.stop()
    assert await code_of(joining) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    await world.advance(10 * REBALANCE_MS)  # no timer is left to fire
