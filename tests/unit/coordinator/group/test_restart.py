"""Killed and started again: the same groups, the same offsets, the same things pending."""

import asyncio

from hypothesis import example, given, settings
from hypothesis import strategies as st

from fencepost.coordinator.group.decide import is_abandoned
from fencepost.coordinator.group.states import State
from fencepost.errors import ErrorCode
from tests.unit.coordinator.group.support import GROUP, SESSION_MS, Client, World, join_together, new_members, stable
from tests.unit.coordinator.machine import code_of, compact, settle, start


async def test_members_go_on_in_their_generation(world: World):
    clients = await new_members(world, "abc")
    before = world.groups.describe(GROUP)
    world.restart()
    assert world.groups.describe(GROUP) == before
    assert [client.heartbeat() for client in clients] == [ErrorCode.NONE] * 3
    assert (await clients[1].sync()).assignment == clients[1].member_id.encode()
    assert await world.commit(5, clients[2].identity) is ErrorCode.NONE


async def test_sessions_start_again_when_a_group_is_loaded(world: World):
    alive, dead = await new_members(world)
    await world.advance(SESSION_MS - 1)
    world.restart()
    await world.advance(SESSION_MS - 1)
    assert alive.heartbeat() is ErrorCode.NONE
    await world.advance(1)
    assert dead.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert await code_of(alive.join_and_sync()) is ErrorCode.NONE


async def test_a_rebalance_under_way_falls_back_to_the_generation_before(world: World):
    clients = await new_members(world)
    late = Client(world, "c")
    await start(late.join())
    await join_together(world, *clients)
    assert clients[0].generation == 2
    world.restart()
    assert clients[0].heartbeat() is ErrorCode.ILLEGAL_GENERATION
    assert late.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    await stable(world, *clients)


async def test_an_empty_group_remembers_its_generation(world: World):
    (client,) = await new_members(world, "a")
    await client.leave()
    world.restart()
    assert world.state == "Empty"
    (again,) = await new_members(world, "b")
    assert again.generation == 3


async def test_pending_offsets_are_pending_again_and_end_with_their_marker(world: World):
    await world.commit_in_transaction(5, producer_id=9)
    await world.commit_in_transaction(6, producer_id=8, partition=1)
    await world.commit_in_transaction(7, producer_id=7, partition=2)
    world.end_transaction(7, commit=True)
    world.restart()
    fetched = await world.fetch(0, 1, 2, require_stable=True)
    assert [one.error for one in fetched] == [
        ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.NONE,
    ]  # fmt: skip
    world.end_transaction(9, commit=True)
    world.end_transaction(8, commit=False)
    for _ in range(2):
        fetched = await world.fetch(0, 1, 2, require_stable=True)
        assert [one.offset for one in fetched] == [5, -1, 7]
        world.restart()


async def test_compaction_changes_nothing(world: World):
    (client,) = await new_members(world, "a")
    await world.commit(1, client.identity)
    await world.commit_in_transaction(2, producer_id=9)
    world.end_transaction(9, commit=False)
    await world.commit_in_transaction(3, producer_id=8, partition=1)
    await world.commit(4, client.identity, partition=1)
    world.end_transaction(8, commit=True)
    await client.leave()
    assert world.records() == 6
    await compact(world.log())
    assert world.records() == 3  # a group, and an offset for each of two partitions
    world.restart()
    assert [one.offset for one in await world.fetch(0, 1)] == [1, 4]
    assert world.state == "Empty"


async def test_a_marker_for_a_shard_that_was_never_used_is_found_when_it_is(world: World):
    world.topics.ensure_internal("__consumer_offsets")
    world.end_transaction(9, commit=True)
    await world.commit(1)
    assert await world.committed() == 1


steps = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), st.integers(0, 2), st.integers(0, 99)),
        st.tuples(st.just("txn"), st.integers(0, 2), st.integers(0, 2)),
        st.tuples(st.just("end"), st.integers(0, 2), st.booleans()),
        st.tuples(st.just("delete topic"), st.just(0), st.just(0)),
        st.tuples(st.just("join"), st.integers(0, 2), st.just(0)),
        st.tuples(st.just("leave"), st.integers(0, 2), st.just(0)),
        st.tuples(st.just("delete group"), st.just(0), st.just(0)),
        st.tuples(st.just("time"), st.integers(0, 100), st.just(0)),
        st.tuples(st.just("compact"), st.just(0), st.just(0)),
    ),
    max_size=25,
)


async def take(world: World, clients: list[Client], what: str, which: int, value: int) -> None:
    match what:
        case "commit":
            if world.state in ("none", "Empty"):
                await world.commit(value, partition=which)
        case "txn":
            await world.commit_in_transaction(value, producer_id=which, partition=value)
        case "end":
            world.end_transaction(which, commit=bool(value))
        case "delete topic":
            world.groups.offsets.topic_deleted("t")
        case "join":
            clients[which].member_id = ""
            await start(clients[which].join_and_sync())
        case "leave":
            await clients[which].leave()
        case "delete group":
            await code_of(world.groups.delete_group(GROUP))
        case "time":
            await world.advance(which * 1000)
        case "compact":
            await compact(world.log())


@settings(max_examples=60)
@given(steps)
@example([("commit", 0, 0), ("delete topic", 0, 0), ("compact", 0, 0)])
@example([("txn", 1, 0), ("end", 1, False), ("compact", 0, 0)])
def test_whatever_happened_a_restart_finds_what_was_there(steps):
    """The state in memory is what replaying the log gives: except for rebalances, which start over."""

    async def story() -> None:
        world = World()
        clients = [Client(world, str(number), instance_id=f"i-{number}") for number in range(3)]
        for what, which, value in steps:
            await take(world, clients, what, which, value)
        await settle()
        before = snapshot(world)
        world.restart()
        after = snapshot(world)
        assert after[0] == before[0]
        if before[0] and before[1] in (State.EMPTY.value, State.STABLE.value):
            assert after[1:] == before[1:]
        world.groups.stop()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    def snapshot(world: World):
        shards = {
            shard.partition: (shard.machine.offsets._committed, shard.machine.offsets._pending)
            for shard in world.groups._shards
            # A group that nobody is in and that has no offsets is about to be removed, and need not be there again.
            if not all(is_abandoned(group, shard.machine.offsets) for group in shard.machine.groups.values())
        }
        return shards, world.state, world.groups.describe(GROUP)

    asyncio.run(story())
