"""The disk refuses: nobody is told what is not true, nothing half happens, and it goes on when the disk does."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fencepost.errors import ErrorCode, KafkaError
from tests.unit.coordinator.group.support import GROUP, SESSION_MS, Client, World, join_together, stable, start

FULL = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no space left on device")


@contextmanager
def full_disk(world: World) -> Iterator[None]:
    log = world.log()

    def refuse(*_: object) -> None:
        raise FULL

    log.append = refuse  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        del log.append


def test_a_commit_is_refused_and_nothing_has_changed(play):
    async def story(world: World) -> None:
        await world.commit(1)
        with full_disk(world):
            with pytest.raises(KafkaError, match="NOT_COORDINATOR"):
                await world.commit(2)
            assert await world.committed() == 1
        await world.commit(3)
        assert await world.committed() == 3

    play(story)


def test_an_assignment_that_cannot_be_recorded_is_not_handed_out(play):
    async def story(world: World) -> None:
        clients = [Client(world, name) for name in "ab"]
        await join_together(world, *clients)
        leader, follower = sorted(clients, key=lambda client: not client.is_leader)
        waiting = await start(follower.sync())
        with full_disk(world):
            assert (await leader.assign(leader.last_join)).error is ErrorCode.NOT_COORDINATOR
            assert (await waiting).error is ErrorCode.NOT_COORDINATOR
        assert world.state == "PreparingRebalance"
        await stable(world, *clients)

    play(story)


def test_a_static_member_that_cannot_be_replaced_stays_who_it_was(play):
    async def story(world: World) -> None:
        static = Client(world, "a", instance_id="i-a")
        await stable(world, static)
        with full_disk(world):
            joined = await Client(world, "a", instance_id="i-a").join()
            assert joined.error is ErrorCode.NOT_COORDINATOR
        assert static.heartbeat() is ErrorCode.NONE
        assert world.state == "Stable"

    play(story)


def test_a_group_that_nobody_is_in_is_empty_whatever_the_disk_says(play):
    async def story(world: World) -> None:
        client = Client(world, "a")
        await stable(world, client)
        with full_disk(world):
            await world.advance(SESSION_MS)
        assert world.state == "Empty"
        world.restart()  # the last generation is back, and times out
        assert world.state == "Stable"
        await world.advance(SESSION_MS)
        assert world.state == "Empty"

    play(story)


def test_a_group_that_cannot_be_deleted_is_still_there(play):
    async def story(world: World) -> None:
        await world.commit(1)
        with full_disk(world):
            assert await world.groups.delete_group(GROUP) is ErrorCode.NOT_COORDINATOR
            world.groups.topics_deleted(["t"])  # says so in the log, and does not raise
        assert await world.committed() == 1

    play(story)


def test_what_a_failed_sync_may_have_lost_is_not_told(play):
    async def story(world: World) -> None:
        client = Client(world, "a")
        await client.join()
        log = world.log()

        def failed(_: int) -> "asyncio.Future[None]":
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            future.set_exception(FULL)
            return future

        log.when_durable = failed  # type: ignore[method-assign]
        assert (await client.assign(client.last_join)).error is ErrorCode.NOT_COORDINATOR
        assert (await client.sync()).error is ErrorCode.NOT_COORDINATOR
        with pytest.raises(KafkaError, match="NOT_COORDINATOR"):
            await world.commit(1, client.identity)
        with pytest.raises(KafkaError, match="NOT_COORDINATOR"):
            await world.committed()

    play(story)
