"""What time takes away: offsets of groups that nobody is in, and the groups with them (KIP-211)."""

import pytest

from fencepost.coordinator.group.requests import Identity, OffsetToCommit
from fencepost.wire.terms import TopicPartition
from tests.unit.coordinator.group.support import GROUP, Client, World, new_members

MINUTE_MS = 60_000
CHECK_MS = 600_000


@pytest.fixture
def world() -> World:
    return World(offsets_retention_minutes=60)


async def test_offsets_of_a_simple_consumer_go_so_long_after_their_commit_and_the_group_with_them(world: World):
    await world.commit(1)
    await world.advance(50 * MINUTE_MS)
    await world.commit(2, partition=1)
    await world.advance(10 * MINUTE_MS)
    assert [one.offset for one in await world.fetch(0, 1)] == [-1, 2]
    assert world.state == "Empty"
    await world.advance(50 * MINUTE_MS)
    for _ in range(2):
        assert world.state == "none"
        assert await world.committed(1) == -1
        world.restart()


async def test_offsets_of_a_group_count_from_when_its_last_member_left(world: World):
    (client,) = await new_members(world, "a", session_ms=1_800_000)
    await world.commit(1, client.identity)
    for _ in range(10):
        await world.advance(20 * MINUTE_MS)
        client.heartbeat()
    assert await world.committed() == 1
    await client.leave()
    world.restart()  # the moment is remembered
    await world.advance(50 * MINUTE_MS)
    assert await world.committed() == 1
    await world.advance(10 * MINUTE_MS)
    assert await world.committed() == -1
    assert world.state == "none"


async def test_a_group_with_members_loses_offsets_of_topics_that_nobody_reads_any_more(world: World):
    (client,) = await new_members(world, "a", topics=["t"], session_ms=1_800_000)
    await world.commit(1, client.identity)
    await world.commit(2, client.identity, topic="former")
    for _ in range(4):
        await world.advance(20 * MINUTE_MS)
        client.heartbeat()
    assert await world.committed() == 1
    assert await world.committed(topic="former") == -1
    assert world.state == "Stable"


async def test_nothing_goes_that_a_transaction_has_yet_to_decide_on(world: World):
    await world.commit(1)
    await world.commit_in_transaction(5, producer_id=9)
    await world.commit_in_transaction(6, producer_id=9, partition=1)
    await world.advance(100 * MINUTE_MS)
    assert await world.committed() == 1
    world.end_transaction(9, commit=False)
    await world.advance(CHECK_MS)
    assert world.state == "none"


async def test_a_group_with_nothing_but_pending_offsets_stays(world: World):
    await world.commit_in_transaction(5, producer_id=9)
    await world.advance(100 * MINUTE_MS)
    world.end_transaction(9, commit=True)
    assert await world.committed() == 5


async def test_a_commit_may_ask_for_a_retention_of_its_own(world: World):
    where = TopicPartition("t", 0)
    commit = world.groups.offsets.commit
    await commit(GROUP, Identity(), [OffsetToCommit(where, 1)], retention_ms=20 * MINUTE_MS)
    world.restart()
    await world.advance(10 * MINUTE_MS)
    assert await world.committed() == 1
    await world.advance(10 * MINUTE_MS)
    assert await world.committed() == -1


async def test_a_group_that_nobody_joined_in_the_end_is_forgotten(world: World):
    await Client(world, "a", session_ms=900_000).ask_for_id()
    await world.advance(CHECK_MS)
    assert world.state == "Empty"  # its id has been given to somebody who may still come
    await world.advance(CHECK_MS)
    assert world.state == "none"
    assert world.log().log_end_offset == 0


async def test_a_group_whose_only_topic_was_deleted_stays_until_the_next_check(world: World):
    (client,) = await new_members(world, "a")
    await world.commit(1, client.identity)
    await client.leave()
    world.groups.offsets.topic_deleted("t")
    for _ in range(2):
        assert world.state == "Empty"
        assert await world.groups.offsets.fetch(GROUP, None) == []
        world.restart()
    await world.advance(CHECK_MS - 1)
    assert world.state == "Empty"
    await world.advance(1)
    assert world.state == "none"


async def test_a_group_that_has_a_member_again_outlives_the_check(world: World):
    await world.commit(1)
    world.groups.offsets.topic_deleted("t")
    await new_members(world, "a", session_ms=2 * CHECK_MS)
    await world.advance(CHECK_MS)
    assert world.state == "Stable"
