"""What the table asks, where it differs from the smallest valid request, and what must be there before."""

from typing import Any

from tests.clients.every_api import REQUESTS
from tests.clients.raw import batch
from tests.security.rights.runner import Ask, World

ONE_OFFSET = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]


# -- what must be there before -----------------------------------------------------------------------------------------


def commit(world: World) -> None:
    """The group exists, and has an offset."""
    topics = world.topics(partitions=ONE_OFFSET)
    world.admin.settled("offset_commit", 8, group_id=world.group, topics=topics)


def begin(world: World) -> None:
    """A transaction is open, with the topic in it."""
    fields = {f"v3_and_below_{name}": value for name, value in world.session.fields.items()}
    world.admin.settled("add_partitions_to_txn", 3, **fields, v3_and_below_topics=world.topics(partitions=[0]))


def add_group(world: World) -> None:
    """A transaction is open, with the group in it."""
    world.admin.settled("add_offsets_to_txn", 3, **world.session.fields, group_id=world.group)


# -- requests ----------------------------------------------------------------------------------------------------------


def produce_in_transaction(world: World) -> dict[str, Any]:
    records = batch(b"v", producer=(world.session.producer_id, world.session.epoch), sequence=0, transactional=True)
    return {
        "transactional_id": world.transactional_id,
        "acks": -1,
        "timeout_ms": 5000,
        "topic_data": world.topics_and_ids(partition_data=[{"index": 0, "records": records}]),
    }


def fetch_as_broker(world: World) -> dict[str, Any]:
    who = {"replica_id": world.node_id, "replica_state": {"replica_id": world.node_id}}
    return REQUESTS["fetch"](world) | who


def all_topics(world: World) -> dict[str, Any]:
    return {"topics": None}


def create_new(world: World) -> dict[str, Any]:
    return {
        "topics": [{"name": world.new_topic, "num_partitions": 1, "replication_factor": 1}],
        "timeout_ms": 30_000,
    }


def delete_by_id(world: World) -> dict[str, Any]:
    return {"topics": [{"name": None, "topic_id": world.topic_id}], "timeout_ms": 30_000}


def name_new(world: World) -> dict[str, Any]:
    return {"topics": [{"name": world.new_topic}], "allow_auto_topic_creation": True}


def with_operations(world: World) -> dict[str, Any]:
    asked = ("include_topic_authorized_operations", "include_cluster_authorized_operations")
    return {"topics": world.topics(), **dict.fromkeys(asked, True)}


def config_of(kind: int, name: str, **inside: Any) -> Ask:
    def ask(world: World) -> dict[str, Any]:
        return {"resources": [{"resource_type": kind, "resource_name": getattr(world, name, name), **inside}]}

    return ask


def broker_config(kind: int, **inside: Any) -> Ask:
    return lambda world: {"resources": [{"resource_type": kind, "resource_name": str(world.node_id), **inside}]}


def marker(world: World) -> dict[str, Any]:
    producer = {"producer_id": world.session.producer_id, "producer_epoch": world.session.epoch}
    topics = [{"name": world.topic, "partition_indexes": [0]}]
    return {"markers": [{**producer, "transaction_result": False, "topics": topics, "coordinator_epoch": 0}]}


def in_group(**fields: Any) -> Ask:
    return lambda world: {"group_id": world.group, "member_id": "nobody", "generation_id": 1, **fields}


JOIN = in_group(
    member_id="", session_timeout_ms=6000, rebalance_timeout_ms=6000, protocol_type="consumer",
    protocols=[{"name": "range", "metadata": b""}],
)  # fmt: skip


def find_group(world: World) -> dict[str, Any]:
    return {"key": world.group, "coordinator_keys": [world.group]}


def find_id(world: World) -> dict[str, Any]:
    return {"key": world.transactional_id, "coordinator_keys": [world.transactional_id], "key_type": 1}


def idempotent(world: World) -> dict[str, Any]:
    return {"transactional_id": None, "transaction_timeout_ms": 60_000}


def transactional(world: World) -> dict[str, Any]:
    return {"transactional_id": world.transactional_id, "transaction_timeout_ms": 60_000}


def move(world: World) -> dict[str, Any]:
    return {"dirs": [{"path": "/nowhere", "topics": world.topics(partitions=[0])}]}


def reassign(world: World) -> dict[str, Any]:
    wanted = [{"partition_index": 0, "replicas": [world.node_id]}]
    return {"timeout_ms": 5000, "topics": world.topics(partitions=wanted)}


def all_offsets(world: World) -> dict[str, Any]:
    return {"groups": [{"group_id": world.group, "topics": None}]}


NO_CONFIGS: dict[str, Any] = {"configs": []}
ALL_KEYS: dict[str, Any] = {"configuration_keys": None}
