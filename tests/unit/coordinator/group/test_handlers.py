"""The group APIs as clients speak them: every version goes in as bytes and comes out as bytes."""

from typing import Any

import pytest

from fencepost.broker.dispatch import handlers
from fencepost.client.raw import offset_topics
from fencepost.coordinator.txn.coordinator import TransactionCoordinator
from fencepost.coordinator.txn.settings import TransactionSettings
from fencepost.errors import ErrorCode
from fencepost.wire.terms import TopicPartition
from tests.fakes import requests
from tests.unit.coordinator.group.support import GROUP, SESSION_MS, World, subscription
from tests.unit.coordinator.machine import settle

OFFSET_COMMIT, OFFSET_FETCH, JOIN, HEARTBEAT, LEAVE, SYNC = 8, 9, 11, 12, 13, 14
DESCRIBE, LIST, TXN_OFFSET_COMMIT, DELETE, OFFSET_DELETE = 15, 16, 28, 42, 47
JOIN_FIELDS = {
    "group_id": GROUP,
    "session_timeout_ms": SESSION_MS,
    "rebalance_timeout_ms": 60_000,
    "member_id": "",
    "protocol_type": "consumer",
    "protocols": [{"name": "range", "metadata": subscription("t")}],
}


def each_version(key: int):
    entry = handlers()[key]
    return pytest.mark.parametrize("version", range(entry.first, entry.last + 1))


class Broker:
    """Its only topic is `t`, with two partitions."""

    authorizer = None

    def __init__(self, world: World) -> None:
        self.groups = world.groups
        self.topics = world.topics
        self.topic_id = self.topics.create("t", 2, {}).id
        self.transactions = TransactionCoordinator(
            topics=self.topics,
            clock=world.clock,
            settings=TransactionSettings(),
            marker_appended=self.groups.marker_appended,
        )

    async def ask(self, key: int, version: int, **fields: Any) -> Any:
        return await requests.ask(self, key, version, fields)

    async def join(self, version: int = 9, **changes: Any) -> Any:
        joined = await self.ask(JOIN, version, **{**JOIN_FIELDS, **changes})
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            return await self.join(version, **{**changes, "member_id": joined.member_id})
        return joined

    async def member(self, version: int = 9) -> Any:
        """A group with one member that has its assignment."""
        joined = await self.join(version)
        assignments = [{"member_id": joined.member_id, "assignment": b"all"}]
        synced = await self.ask(
            SYNC, min(version, 5), group_id=GROUP, generation_id=1, member_id=joined.member_id, assignments=assignments,
            protocol_type="consumer", protocol_name="range",
        )  # fmt: skip
        assert (synced.error_code, synced.assignment) == (0, b"all")
        return joined

    async def commit(self, topics: list[dict[str, Any]], version: int = 9, **changes: Any) -> Any:
        return await self.ask(OFFSET_COMMIT, version, **{"group_id": GROUP, "topics": topics, **changes})

    def named(self, version: int) -> dict[str, Any]:
        return {"topic_id": self.topic_id} if version >= 10 else {"name": "t"}


@pytest.fixture
def broker(world: World) -> Broker:
    return Broker(world)


@each_version(JOIN)
async def test_a_member_joins_syncs_beats_and_leaves(broker: Broker, version: int):
    joined = await broker.member(version)
    assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 1, "range")
    assert joined.leader == joined.member_id
    assert [member.member_id for member in joined.members] == [joined.member_id]
    refused = await broker.join(version, session_timeout_ms=1)
    assert refused.error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    who = {"group_id": GROUP, "member_id": joined.member_id}
    for generation, code in ((1, ErrorCode.NONE), (7, ErrorCode.ILLEGAL_GENERATION)):
        assert (await broker.ask(HEARTBEAT, min(version, 4), **who, generation_id=generation)).error_code == code
    for code in (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID):
        if version >= 3:
            left = await broker.ask(LEAVE, min(version, 5), group_id=GROUP, members=[{"member_id": joined.member_id}])
            assert (left.error_code, left.members[0].error_code) == (0, code)
        else:
            assert (await broker.ask(LEAVE, version, **who)).error_code == code


async def test_from_version_5_on_a_sync_names_the_protocol(broker: Broker):
    joined = await broker.join()
    answer = await broker.ask(SYNC, 5, group_id=GROUP, member_id=joined.member_id, generation_id=1)
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


async def test_a_connection_that_is_lost_takes_its_join_back(world: World, broker: Broker):
    await broker.member()
    answer = requests.send(broker, JOIN, 1, JOIN_FIELDS)
    await settle()
    assert len(world.members) == 2
    answer.abandon()
    await settle()
    assert len(world.members) == 1


@each_version(OFFSET_COMMIT)
async def test_offsets_are_committed(broker: Broker, version: int):
    parts = [{"partition_index": n, "committed_offset": 40 + n, "committed_metadata": None} for n in (0, 2)]
    unknown = {"topic_id": b"?" * 16} if version >= 10 else {"name": "x"}
    topics = [{**broker.named(version), "partitions": parts}, {**unknown, "partitions": parts[:1]}]
    answer = await broker.commit(topics, version)
    codes = [[part.error_code for part in topic.partitions] for topic in answer.topics]
    missing = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == [[ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION], [missing]]
    fetched = await broker.ask(OFFSET_FETCH, 7, group_id=GROUP, topics=None)
    assert [(part.partition_index, part.committed_offset) for part in fetched.topics[0].partitions] == [(0, 40)]


@each_version(OFFSET_COMMIT)
async def test_a_fenced_commit_says_so_for_every_partition(broker: Broker, version: int):
    (topic,) = offset_topics({("t", 0): 1, ("t", 1): 1})
    topics = [{**topic, **broker.named(version)}]
    answer = await broker.commit(topics, version, member_id="m", generation_id_or_member_epoch=3)
    code = ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION
    assert [part.error_code for part in answer.topics[0].partitions] == [code, code]


@each_version(OFFSET_FETCH)
async def test_offsets_are_fetched(broker: Broker, version: int):
    await broker.commit(offset_topics({("t", 0): 5}, "m"))
    wanted = [{**broker.named(version), "partition_indexes": [0, 1]}]
    for topics in [wanted] if version == 1 else [wanted, None]:
        if version >= 8:
            (found,) = (await broker.ask(OFFSET_FETCH, version, groups=[{"group_id": GROUP, "topics": topics}])).groups
            assert found.group_id == GROUP
        else:
            found = await broker.ask(OFFSET_FETCH, version, group_id=GROUP, topics=topics)
        assert found.error_code == 0
        (topic,) = found.topics
        assert topic.topic_id == broker.topic_id if version >= 10 else topic.name == "t"
        offsets = [(part.committed_offset, part.metadata, part.error_code) for part in topic.partitions]
        assert offsets == [(5, "m", 0), (-1, "", 0)][: 1 if topics is None else 2]


async def test_an_unknown_topic_id_is_told_when_offsets_are_fetched(broker: Broker):
    topics = [{"topic_id": b"?" * 16, "partition_indexes": [0]}]
    answer = await broker.ask(OFFSET_FETCH, 10, groups=[{"group_id": GROUP, "topics": topics}])
    (part,) = answer.groups[0].topics[0].partitions
    assert (part.error_code, part.committed_offset) == (ErrorCode.UNKNOWN_TOPIC_ID, -1)


@each_version(TXN_OFFSET_COMMIT)
async def test_offsets_in_a_transaction_make_sure_that_it_holds_their_partition(broker: Broker, version: int):
    producer = await broker.transactions.init_producer_id("tx", 60_000)
    where = TopicPartition("__consumer_offsets", broker.groups.partition_of(GROUP))

    async def commit(epoch: int) -> int:
        fields = {"transactional_id": "tx", "producer_id": producer.producer_id, "producer_epoch": epoch}
        topics = offset_topics({("t", 0): 5})
        answer = await broker.ask(TXN_OFFSET_COMMIT, version, **fields, group_id=GROUP, topics=topics)
        return answer.topics[0].partitions[0].error_code

    if version < 5:
        missing = ErrorCode.TRANSACTION_ABORTABLE if version == 4 else ErrorCode.INVALID_TXN_STATE
        assert await commit(producer.epoch) == missing
        await broker.transactions.add_partitions("tx", producer, [where])
    assert await commit(producer.epoch) == ErrorCode.NONE
    assert broker.transactions.describe("tx").partitions == {where}
    wanted = [{"name": "t", "partition_indexes": [0]}]
    found = await broker.ask(OFFSET_FETCH, 7, group_id=GROUP, require_stable=True, topics=wanted)
    assert found.topics[0].partitions[0].error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert await commit(producer.epoch + 1) == ErrorCode.INVALID_PRODUCER_EPOCH


@each_version(LIST)
async def test_groups_are_listed(broker: Broker, version: int):
    await broker.member()
    (listed,) = (await broker.ask(LIST, version)).groups
    assert (listed.group_id, listed.protocol_type) == (GROUP, "consumer")
    assert listed.group_state == ("Stable" if version >= 4 else "")
    assert listed.group_type == ("classic" if version >= 5 else "")
    if version >= 4:
        assert not (await broker.ask(LIST, version, states_filter=["Empty"])).groups
        assert len((await broker.ask(LIST, version, states_filter=["stable", "Dead"])).groups) == 1
    if version >= 5:
        assert not (await broker.ask(LIST, version, types_filter=["consumer"])).groups
        assert len((await broker.ask(LIST, version, types_filter=["Classic"])).groups) == 1


@each_version(DESCRIBE)
async def test_groups_are_described(broker: Broker, version: int):
    joined = await broker.member()
    found, missing = (await broker.ask(DESCRIBE, version, groups=[GROUP, "x"])).groups
    assert (found.error_code, found.group_state, found.protocol_data) == (0, "Stable", "range")
    (member,) = found.members
    assert (member.member_id, member.member_assignment) == (joined.member_id, b"all")
    assert member.member_metadata == subscription("t")
    assert (member.client_id, member.client_host) == ("client", "/127.0.0.1")
    assert missing.group_state == "Dead"
    assert missing.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.NONE)


@each_version(DELETE)
async def test_groups_are_deleted(broker: Broker, version: int):
    await broker.member()
    await broker.commit(offset_topics({("t", 0): 5}), group_id="simple")
    answer = await broker.ask(DELETE, version, groups_names=[GROUP, "simple", "x"])
    assert [(result.group_id, result.error_code) for result in answer.results] == [
        (GROUP, ErrorCode.NON_EMPTY_GROUP),
        ("simple", ErrorCode.NONE),
        ("x", ErrorCode.GROUP_ID_NOT_FOUND),
    ]


async def test_offsets_are_deleted(broker: Broker):
    await broker.commit(offset_topics({("t", 0): 5}))
    wanted = [{"name": name, "partitions": [{"partition_index": 0}]} for name in ("t", "x")]
    answer = await broker.ask(OFFSET_DELETE, 0, group_id=GROUP, topics=wanted)
    assert answer.error_code == 0
    assert [topic.partitions[0].error_code for topic in answer.topics] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    for group_id, code in (("", ErrorCode.INVALID_GROUP_ID), ("x", ErrorCode.GROUP_ID_NOT_FOUND)):
        assert (await broker.ask(OFFSET_DELETE, 0, group_id=group_id, topics=wanted)).error_code == code
