"""The group APIs as clients speak them: every version goes in as bytes and comes out as bytes."""

from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.broker.dispatch import handlers
from fencepost.errors import ErrorCode, KafkaError
from tests.fakes import requests
from tests.unit.coordinator.group.support import GROUP, SESSION_MS, World, subscription
from tests.unit.coordinator.machine import settle

OFFSET_COMMIT, OFFSET_FETCH, JOIN, HEARTBEAT, LEAVE, SYNC = 8, 9, 11, 12, 13, 14
DESCRIBE, LIST, TXN_OFFSET_COMMIT, DELETE, OFFSET_DELETE = 15, 16, 28, 42, 47
TOPIC_ID = bytes(range(16))


def versions(key: int) -> range:
    entry = handlers()[key]
    return range(entry.first, entry.last + 1)


def each_version(*keys: int):
    pairs = [(key, version) for key in keys for version in versions(key)]
    return pytest.mark.parametrize(("key", "version"), pairs)


class UserTopics:
    """The topics of the broker under test: `t` with two partitions."""

    def __init__(self) -> None:
        self.topic = SimpleNamespace(name="t", id=TOPIC_ID, partitions=2)

    def get(self, name: str) -> Any:
        return self.topic if name == "t" else None

    def by_id(self, topic_id: bytes) -> Any:
        return self.topic if topic_id == TOPIC_ID else None


class Transactions:
    """Remembers what the coordinator of transactions is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.refusal: KafkaError | None = None

    def add_partitions_from_produce(self, *asked: Any) -> Any:
        self.asked.append(("add", *asked))

        async def later() -> None:
            if self.refusal is not None:
                raise self.refusal

        return later()

    def verify_partitions(self, *asked: Any, missing: ErrorCode) -> None:
        self.asked.append(("verify", *asked, missing))
        if self.refusal is not None:
            raise self.refusal


class Broker:
    def __init__(self, world: World) -> None:
        self.groups = world.groups
        self.topics = UserTopics()
        self.transactions = Transactions()

    async def ask(self, key: int, version: int, **fields: Any) -> Any:
        return await requests.ask(self, key, version, fields)

    async def join(self, version: int = 9, **changes: Any) -> Any:
        fields = {
            "group_id": GROUP,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": 60_000,
            "member_id": "",
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": subscription("t")}],
        }
        joined = await self.ask(JOIN, version, **{**fields, **changes})
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            return await self.join(version, **{**changes, "member_id": joined.member_id})
        return joined

    async def member(self) -> Any:
        """A group with one member that has its assignment."""
        joined = await self.join()
        assignments = [{"member_id": joined.member_id, "assignment": b"all"}]
        await self.ask(
            SYNC, 5, group_id=GROUP, generation_id=1, member_id=joined.member_id, assignments=assignments,
            protocol_type="consumer", protocol_name="range",
        )  # fmt: skip
        return joined


def members(broker: Broker) -> tuple[Any, ...]:
    described = broker.groups.describe(GROUP)
    return () if described is None else described.members


def offset_topics(version: int, name: str = "t", topic_id: bytes = TOPIC_ID) -> dict[str, Any]:
    return {"topic_id": topic_id} if version >= 10 else {"name": name}


@pytest.fixture
def broker(world: World) -> Broker:
    return Broker(world)


@each_version(JOIN)
async def test_join_and_everything_after_it(broker: Broker, key: int, version: int):
    joined = await broker.join(version)
    assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 1, "range")
    assert joined.leader == joined.member_id
    assert [member.member_id for member in joined.members] == [joined.member_id]
    refused = await broker.join(version, session_timeout_ms=1)
    assert refused.error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    described = (await broker.ask(DESCRIBE, 6, groups=[GROUP])).groups[0]
    assert (described.members[0].client_id, described.members[0].client_host) == ("client", "/127.0.0.1")


@each_version(SYNC, HEARTBEAT, LEAVE)
async def test_a_member_syncs_beats_and_leaves(broker: Broker, key: int, version: int):
    joined = await broker.join()
    who = {"group_id": GROUP, "member_id": joined.member_id}
    assignments = [{"member_id": joined.member_id, "assignment": b"all"}]
    names = {"protocol_type": "consumer", "protocol_name": "range"}
    sync_version = version if key == SYNC else 5
    synced = await broker.ask(SYNC, sync_version, **who, generation_id=1, assignments=assignments, **names)
    assert (synced.error_code, synced.assignment) == (0, b"all")
    for generation, code in ((1, ErrorCode.NONE), (7, ErrorCode.ILLEGAL_GENERATION)):
        heartbeat_version = version if key == HEARTBEAT else 4
        beaten = await broker.ask(HEARTBEAT, heartbeat_version, **who, generation_id=generation)
        assert beaten.error_code == code
    if key == LEAVE:
        for code in (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID):
            if version >= 3:
                members = [{"member_id": joined.member_id, "group_instance_id": None}]
                left = await broker.ask(LEAVE, version, group_id=GROUP, members=members)
                assert (left.error_code, left.members[0].error_code) == (0, code)
            else:
                assert (await broker.ask(LEAVE, version, **who)).error_code == code


async def test_from_version_5_on_a_sync_names_the_protocol(broker: Broker):
    joined = await broker.join()
    answer = await broker.ask(SYNC, 5, group_id=GROUP, member_id=joined.member_id, generation_id=1)
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


async def test_a_connection_that_is_lost_takes_its_join_back(broker: Broker):
    await broker.member()
    fields = {
        "group_id": GROUP, "session_timeout_ms": SESSION_MS, "member_id": "", "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": subscription("t")}],
    }  # fmt: skip
    answer = requests.send(broker, JOIN, 1, fields)
    await settle()
    assert len(members(broker)) == 2
    answer.abandon()
    await settle()
    assert len(members(broker)) == 1


@each_version(OFFSET_COMMIT)
async def test_offsets_are_committed(broker: Broker, key: int, version: int):
    parts = [{"partition_index": n, "committed_offset": 40 + n, "committed_metadata": None} for n in (0, 2)]
    unknown = offset_topics(version, "x", bytes(16))
    answer = await broker.ask(
        OFFSET_COMMIT,
        version,
        group_id=GROUP,
        topics=[{**offset_topics(version), "partitions": parts}, {**unknown, "partitions": parts[:1]}],
    )
    codes = [[part.error_code for part in topic.partitions] for topic in answer.topics]
    missing = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == [[ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION], [missing]]
    fetched = await broker.ask(OFFSET_FETCH, 7, group_id=GROUP, topics=None)
    assert [(part.partition_index, part.committed_offset) for part in fetched.topics[0].partitions] == [(0, 40)]


@each_version(OFFSET_COMMIT)
async def test_a_fenced_commit_says_so_for_every_partition(broker: Broker, key: int, version: int):
    parts = [{"partition_index": n, "committed_offset": 1, "committed_metadata": ""} for n in (0, 1)]
    topics = [{**offset_topics(version), "partitions": parts}]
    answer = await broker.ask(
        OFFSET_COMMIT, version, group_id=GROUP, member_id="m", generation_id_or_member_epoch=3, topics=topics
    )
    code = ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION
    assert [part.error_code for part in answer.topics[0].partitions] == [code, code]


@each_version(OFFSET_FETCH)
async def test_offsets_are_fetched(broker: Broker, key: int, version: int):
    parts = [{"partition_index": 0, "committed_offset": 5, "committed_metadata": "m", "committed_leader_epoch": 3}]
    await broker.ask(OFFSET_COMMIT, 9, group_id=GROUP, topics=[{"name": "t", "partitions": parts}])
    wanted = [{**offset_topics(version), "partition_indexes": [0, 1]}]
    for topics in [wanted] if version == 1 else [wanted, None]:
        if version >= 8:
            (found,) = (await broker.ask(key, version, groups=[{"group_id": GROUP, "topics": topics}])).groups
            assert found.group_id == GROUP
        else:
            found = await broker.ask(key, version, group_id=GROUP, topics=topics)
        assert found.error_code == 0
        (topic,) = found.topics
        assert topic.topic_id == TOPIC_ID if version >= 10 else topic.name == "t"
        offsets = [(part.committed_offset, part.metadata, part.error_code) for part in topic.partitions]
        assert offsets == [(5, "m", 0), (-1, "", 0)][: 1 if topics is None else 2]


async def test_an_unknown_topic_id_is_told_when_offsets_are_fetched(broker: Broker):
    topics = [{"topic_id": b"?" * 16, "partition_indexes": [0]}]
    answer = await broker.ask(OFFSET_FETCH, 10, groups=[{"group_id": GROUP, "topics": topics}])
    (part,) = answer.groups[0].topics[0].partitions
    assert (part.error_code, part.committed_offset) == (ErrorCode.UNKNOWN_TOPIC_ID, -1)


@each_version(TXN_OFFSET_COMMIT)
async def test_offsets_in_a_transaction_make_sure_that_it_holds_their_partition(broker: Broker, key: int, version: int):
    fields = {
        "transactional_id": "tx", "group_id": GROUP, "producer_id": 9, "producer_epoch": 0,
        "topics": [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 5,
                                                 "committed_metadata": None}]}],
    }  # fmt: skip
    answer = await broker.ask(key, version, **fields)
    assert answer.topics[0].partitions[0].error_code == 0
    where = [("__consumer_offsets", broker.groups.partition_of(GROUP))]
    missing = ErrorCode.TRANSACTION_ABORTABLE if version == 4 else ErrorCode.INVALID_TXN_STATE
    expected = ("add", "tx", 9, 0, where) if version >= 5 else ("verify", "tx", 9, 0, where, missing)
    assert broker.transactions.asked == [expected]
    (found,) = (await broker.ask(OFFSET_FETCH, 7, group_id=GROUP, require_stable=True, topics=[
        {"name": "t", "partition_indexes": [0]}])).topics  # fmt: skip
    assert found.partitions[0].error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
    broker.transactions.refusal = KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
    refused = await broker.ask(key, version, **fields)
    assert refused.topics[0].partitions[0].error_code == ErrorCode.INVALID_PRODUCER_EPOCH


@each_version(DESCRIBE, LIST)
async def test_groups_are_described_and_listed(broker: Broker, key: int, version: int):
    joined = await broker.member()
    if key == LIST:
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
        return
    found, missing = (await broker.ask(DESCRIBE, version, groups=[GROUP, "x"])).groups
    assert (found.error_code, found.group_state, found.protocol_data) == (0, "Stable", "range")
    (member,) = found.members
    assert (member.member_id, member.member_assignment) == (joined.member_id, b"all")
    assert member.member_metadata == subscription("t")
    assert missing.group_state == "Dead"
    assert missing.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.NONE)


@each_version(DELETE)
async def test_groups_are_deleted(broker: Broker, key: int, version: int):
    await broker.member()
    parts = [{"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}]
    await broker.ask(OFFSET_COMMIT, 9, group_id="simple", topics=[{"name": "t", "partitions": parts}])
    answer = await broker.ask(DELETE, version, groups_names=[GROUP, "simple", "x"])
    assert [(result.group_id, result.error_code) for result in answer.results] == [
        (GROUP, ErrorCode.NON_EMPTY_GROUP),
        ("simple", ErrorCode.NONE),
        ("x", ErrorCode.GROUP_ID_NOT_FOUND),
    ]


async def test_offsets_are_deleted(broker: Broker):
    parts = [{"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}]
    await broker.ask(OFFSET_COMMIT, 9, group_id=GROUP, topics=[{"name": "t", "partitions": parts}])
    wanted = [{"name": name, "partitions": [{"partition_index": 0}]} for name in ("t", "x")]
    answer = await broker.ask(OFFSET_DELETE, 0, group_id=GROUP, topics=wanted)
    assert answer.error_code == 0
    assert [topic.partitions[0].error_code for topic in answer.topics] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    for group_id, code in (("", ErrorCode.INVALID_GROUP_ID), ("x", ErrorCode.GROUP_ID_NOT_FOUND)):
        assert (await broker.ask(OFFSET_DELETE, 0, group_id=group_id, topics=wanted)).error_code == code
