"""The disk refuses: nobody is told what is not true, nothing half happens, and it goes on when the disk does."""

import pytest

from fencepost.errors import ErrorCode, KafkaError
from tests.unit.coordinator.group.support import GROUP, SESSION_MS, Client, World, new_members, stable
from tests.unit.coordinator.machine import code_of, start


async def test_a_commit_is_refused_and_nothing_has_changed(world: World):
    await world.commit(1)
    with world.machine.full_disk():
        with pytest.raises(KafkaError, match="NOT_COORDINATOR"):
            await world.commit(2)
        assert await world.committed() == 1
    await world.commit(3)
    assert await world.committed() == 3


async def test_an_assignment_that_cannot_be_recorded_is_not_handed_out(world: World):
    leader, follower = await new_members(world, are_assigned=False)
    waiting = await start(follower.sync())
    with world.machine.full_disk():
        assert await code_of(leader.assign()) is ErrorCode.NOT_COORDINATOR
        assert await code_of(waiting) is ErrorCode.NOT_COORDINATOR
    assert world.state == "PreparingRebalance"
    await stable(world, leader, follower)


async def test_a_static_member_that_cannot_be_replaced_stays_who_it_was(world: World):
    (static,) = await new_members(world, "a", is_static=True)
    with world.machine.full_disk():
        assert await code_of(Client(world, "a", instance_id="i-a").join()) is ErrorCode.NOT_COORDINATOR
    assert static.heartbeat() is ErrorCode.NONE
    assert world.state == "Stable"


async def test_a_group_that_nobody_is_in_is_empty_whatever_the_disk_says(world: World):
    await new_members(world, "a")
    with world.machine.full_disk():
        await world.advance(SESSION_MS)
    assert world.state == "Empty"
    world.restart()  # the last generation is back, and times out
    assert world.state == "Stable"
    await world.advance(SESSION_MS)
    assert world.state == "Empty"


async def test_a_group_that_cannot_be_deleted_is_still_there(world: World):
    await world.commit(1)
    with world.machine.full_disk():
        assert await code_of(world.groups.delete_group(GROUP)) is ErrorCode.NOT_COORDINATOR
        world.groups.offsets.topic_deleted("t")  # says so in the log, and does not raise
    assert await world.committed() == 1


async def test_what_a_failed_sync_may_have_lost_is_not_told(world: World):
    client = Client(world, "a")
    await client.join()
    world.machine.disk.fail_syncs = True
    assert await code_of(client.assign()) is ErrorCode.NOT_COORDINATOR
    assert await code_of(client.sync()) is ErrorCode.NOT_COORDINATOR
    with pytest.raises(KafkaError, match="NOT_COORDINATOR"):
        await world.commit(1, client.identity)
    with pytest.raises(KafkaError, match="NOT_COORDINATOR"):
        await world.committed()
