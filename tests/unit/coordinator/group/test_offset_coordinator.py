"""Committing, fetching and deleting offsets: who may, and what is seen when."""

import pytest

from fencepost.coordinator.group.requests import FetchedOffset, Identity, OffsetToCommit
from fencepost.errors import ErrorCode, KafkaError
from fencepost.wire.terms import TopicPartition
from tests.unit.coordinator.group.support import GROUP, SESSION_MS, World, new_members
from tests.unit.coordinator.machine import code_of, settle

WHERE = TopicPartition("t", 0)


def refused(code: ErrorCode):
    return pytest.raises(KafkaError, match=f"^{code.name}")


async def test_a_consumer_without_a_group_commits_and_fetches(world: World):
    assert await world.committed() == -1
    where = TopicPartition("t", 3)
    await world.groups.offsets.commit(GROUP, Identity(), [OffsetToCommit(where, 42, 7, "note")])
    assert await world.fetch(3, 4) == [
        FetchedOffset(where, 42, 7, "note"),
        FetchedOffset(TopicPartition("t", 4)),
    ]
    assert await world.groups.offsets.fetch(GROUP, None) == [FetchedOffset(where, 42, 7, "note")]
    assert world.state == "Empty"


async def test_asking_creates_nothing(world: World):
    assert await world.groups.offsets.fetch(GROUP, None) == []
    assert world.groups.describe_all() == []
    assert world.topics.get("__consumer_offsets") is None


async def test_a_commit_counts_as_a_heartbeat(world: World):
    (client,) = await new_members(world, "a")
    for offset in range(3):
        await world.advance(SESSION_MS - 1)
        await world.commit(offset, client.identity)
    assert world.state == "Stable"


async def test_a_commit_is_answered_when_it_is_durable(world: World):
    await world.commit(1)
    log = world.log()
    assert log.high_watermark == log.log_end_offset
    pending = world.groups.offsets.commit(GROUP, Identity(), [OffsetToCommit(WHERE, 2)])
    pending.send(None)  # as far as it gets without the disk
    assert log.high_watermark < log.log_end_offset
    pending.close()
    await settle()


# -- in a transaction


async def test_a_transaction_without_a_producer_is_refused(world: World):
    with refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING):
        await world.commit_in_transaction(1, producer_id=-1)


async def test_offsets_in_a_transaction_are_pending_until_its_marker(world: World):
    await world.commit(1)
    await world.commit_in_transaction(5, producer_id=9)
    assert await world.committed() == 1
    (unstable, stable_one) = await world.fetch(0, 1, require_stable=True)
    assert (unstable.error, unstable.offset) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    assert stable_one.error is ErrorCode.NONE
    (listed,) = await world.groups.offsets.fetch(GROUP, None, require_stable=True)
    assert listed.error is ErrorCode.UNSTABLE_OFFSET_COMMIT
    world.end_transaction(9, commit=True)
    assert await world.fetch(0, require_stable=True) == [FetchedOffset(WHERE, 5)]


async def test_a_plain_commit_during_the_transaction_wins_before_and_after_a_restart(world: World):
    await world.commit_in_transaction(5, producer_id=9)
    await world.commit(8)
    world.end_transaction(9, commit=True)
    assert await world.committed() == 8
    world.restart()
    assert await world.committed() == 8


async def test_two_transactions_on_one_partition_end_one_by_one_and_a_marker_may_come_again(world: World):
    await world.commit_in_transaction(5, producer_id=9)
    await world.commit_in_transaction(6, producer_id=8)
    world.end_transaction(8, commit=True)
    (unstable,) = await world.fetch(0, require_stable=True)
    assert unstable.error is ErrorCode.UNSTABLE_OFFSET_COMMIT
    for producer_id in (9, 9, 7):
        world.end_transaction(producer_id, commit=True)
    assert await world.fetch(0, require_stable=True) == [FetchedOffset(WHERE, 6)], "the later one in the log"


async def test_an_older_producer_epoch_is_fenced_by_the_log(world: World):
    await world.commit_in_transaction(1, producer_id=9, epoch=3)
    world.end_transaction(9, commit=True, epoch=3)
    with refused(ErrorCode.INVALID_PRODUCER_EPOCH):
        await world.commit_in_transaction(2, producer_id=9, epoch=2)
    assert await world.committed() == 1


# -- deleting


async def test_offsets_are_deleted_unless_somebody_reads_the_topic(world: World):
    offsets = world.groups.offsets
    with refused(ErrorCode.GROUP_ID_NOT_FOUND):
        await offsets.delete(GROUP, [WHERE])
    (client,) = await new_members(world, "a", topics=["t"])
    await world.commit(1, client.identity)
    await world.commit(2, client.identity, topic="other")
    other = TopicPartition("other", 0)
    assert await offsets.delete(GROUP, [WHERE, other, TopicPartition("other", 9)]) == {
        WHERE: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        other: ErrorCode.NONE,
        TopicPartition("other", 9): ErrorCode.NONE,
    }
    assert (await world.committed(), await world.committed(topic="other")) == (1, -1)
    await client.leave()
    assert await offsets.delete(GROUP, [WHERE]) == {WHERE: ErrorCode.NONE}
    assert await world.committed() == -1


async def test_a_group_is_deleted_with_its_offsets_when_it_is_empty(world: World):
    assert await code_of(world.groups.delete_group(GROUP)) is ErrorCode.GROUP_ID_NOT_FOUND
    (client,) = await new_members(world, "a")
    await world.commit(1, client.identity)
    assert await code_of(world.groups.delete_group(GROUP)) is ErrorCode.NON_EMPTY_GROUP
    await client.leave()
    await world.commit_in_transaction(5, producer_id=9, partition=1)
    await world.groups.delete_group(GROUP)
    world.end_transaction(9, commit=True)
    for _ in range(2):
        assert world.state == "none"
        assert await world.groups.offsets.fetch(GROUP, None) == []
        world.restart()


async def test_a_deleted_topic_takes_its_offsets_along(world: World):
    await world.commit(1)
    await world.commit(2, topic="other")
    await world.commit_in_transaction(5, producer_id=9, partition=1)
    world.groups.offsets.topic_deleted("t")
    world.end_transaction(9, commit=True)
    for _ in range(2):
        assert [one.offset for one in await world.fetch(0, 1)] == [-1, -1]
        assert await world.committed(topic="other") == 2
        world.restart()
