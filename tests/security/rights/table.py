"""The table: every API, the rights it needs, and what is answered when one is missing."""

from typing import Any

from fencepost.broker.acl import SUPPORTED, Operation, Resource
from fencepost.errors import ErrorCode
from tests.clients.every_api import REQUESTS
from tests.security.rights.requests import (
    ALL_KEYS,
    JOIN,
    NO_CONFIGS,
    add_group,
    all_offsets,
    all_topics,
    begin,
    broker_config,
    commit,
    config_of,
    create_new,
    delete_by_id,
    fetch_as_broker,
    find_group,
    find_id,
    idempotent,
    marker,
    move,
    name_new,
    produce_in_transaction,
    reassign,
    transactional,
    with_operations,
)
from tests.security.rights.runner import Ask, Expected, Hidden, Refused, Right, Row, Shows, Tells

READ, WRITE, CREATE, DELETE = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE
ALTER, DESCRIBE, CLUSTER_ACTION = Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION
DESCRIBE_CONFIGS, ALTER_CONFIGS = Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS

TOPIC_FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_FAILED = ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER_FAILED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
ID_FAILED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

BROKER, LOGGER, GROUP_CONFIG = 4, 8, 32


def topic(operation: Operation) -> Right:
    return Right(operation, Resource.TOPIC, "topic")


def new_topic(operation: Operation) -> Right:
    return Right(operation, Resource.TOPIC, "new_topic")


def group(operation: Operation) -> Right:
    return Right(operation, Resource.GROUP, "group")


def an_id(operation: Operation) -> Right:
    return Right(operation, Resource.TRANSACTIONAL_ID, "transactional_id")


def cluster(operation: Operation) -> Right:
    return Right(operation, Resource.CLUSTER, "cluster")


def bits(*operations: Operation) -> int:
    return sum(1 << operation for operation in operations)


def row(
    api: str,
    versions: tuple[int, ...],
    rights: dict[Right, Expected | tuple[Expected, ...]],
    note: str = "",
    ask: Ask | None = None,
    errors: tuple[str, ...] = (),
    **more: Any,
) -> Row:
    return Row(api, versions, rights, ask or REQUESTS[api], note=note, errors=frozenset(errors), **more)


PRODUCED, FETCHED = "responses.partition_responses.error_code", "responses.partitions.error_code"
OF_PARTITIONS = "topics.partitions.error_code"
ADDED = "results_by_topic_v3_and_below.results_by_partition.partition_error_code"
OF_KEYS = "coordinators.error_code"
OF_GROUP_PARTITIONS = "groups.topics.partitions.error_code"

RECORDS = [
    row("produce", (3, 9, 12, 13), {topic(WRITE): Refused(PRODUCED, TOPIC_FAILED)}),
    row(
        "produce", (12, 13),
        {an_id(WRITE): Refused(PRODUCED, ID_FAILED), topic(WRITE): Refused(PRODUCED, TOPIC_FAILED)},
        "in a transaction", produce_in_transaction,
    ),
    row("fetch", (4, 12, 13, 17), {topic(READ): Refused(FETCHED, TOPIC_FAILED)}),
    row(
        "fetch", (11, 17), {cluster(CLUSTER_ACTION): Refused(FETCHED, TOPIC_FAILED)}, "as a broker", fetch_as_broker,
        ("NOT_LEADER_OR_FOLLOWER", "UNKNOWN_LEADER_EPOCH", "UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_SERVER_ERROR"),
    ),
    row("list_offsets", (1, 7, 10), {topic(DESCRIBE): Refused(OF_PARTITIONS, TOPIC_FAILED)}),
    row("offset_for_leader_epoch", (2, 4), {topic(DESCRIBE): Refused(OF_PARTITIONS, TOPIC_FAILED)}),
    row(
        "offset_for_leader_epoch", (4,), {cluster(CLUSTER_ACTION): Refused(OF_PARTITIONS, TOPIC_FAILED)}, "as a broker",
    ),
    row("delete_records", (0, 2), {topic(DELETE): Refused(OF_PARTITIONS, TOPIC_FAILED)}),
    row("describe_producers", (0,), {topic(READ): Refused(OF_PARTITIONS, TOPIC_FAILED)}),
]  # fmt: skip

TOPICS = [
    row("metadata", (1, 9, 13), {topic(DESCRIBE): Refused("topics.error_code", TOPIC_FAILED)}),
    row("metadata", (1, 12), {topic(DESCRIBE): Hidden("topics.name", "topic")}, "of all topics", all_topics),
    row(
        "metadata", (12,), {topic(DESCRIBE): (Refused("topics.error_code", TOPIC_FAILED), Shows("topics.name", None))},
        "by id", lambda world: {"topics": [{"name": None, "topic_id": world.topic_id}]},
    ),
    row(
        "metadata", (4, 12),
        {new_topic(DESCRIBE): Refused("topics.error_code", TOPIC_FAILED),
         new_topic(CREATE): Refused("topics.error_code", TOPIC_FAILED)},
        "creating", name_new, ("UNKNOWN_TOPIC_OR_PARTITION", "LEADER_NOT_AVAILABLE"),
    ),
    row(
        "metadata", (12,),
        {new_topic(DESCRIBE): Refused("topics.error_code", TOPIC_FAILED),
         cluster(CREATE): Refused("topics.error_code", TOPIC_FAILED)},
        "creating in the cluster", name_new, ("UNKNOWN_TOPIC_OR_PARTITION", "LEADER_NOT_AVAILABLE"),
    ),
    row(
        "metadata", (8, 10),
        {topic(READ): Refused("topics.error_code", TOPIC_FAILED),
         cluster(DESCRIBE): Shows("cluster_authorized_operations", 0)},
        "with operations",
        with_operations,
        shows=Shows("topics.topic_authorized_operations", bits(READ, DESCRIBE)),
    ),
    row(
        "describe_topic_partitions", (0,), {topic(WRITE): Refused("topics.error_code", TOPIC_FAILED)},
        shows=Shows("topics.topic_authorized_operations", bits(WRITE, DESCRIBE)),
    ),
    row(
        "describe_topic_partitions", (0,), {topic(DESCRIBE): Hidden("topics.name", "topic")}, "of all topics",
        lambda world: {"topics": [], "response_partition_limit": 2000},
    ),
    row(
        "create_topics", (5, 7),
        {new_topic(CREATE): Refused("topics.error_code", TOPIC_FAILED),
         new_topic(DESCRIBE_CONFIGS): (
             Refused("topics.topic_config_error_code", TOPIC_FAILED), Shows("topics.num_partitions", -1))},
        ask=create_new,
    ),
    row("create_topics", (2,), {new_topic(CREATE): Refused("topics.error_code", TOPIC_FAILED)}, "old", create_new),
    row(
        "create_topics", (4,), {cluster(CREATE): Refused("topics.error_code", TOPIC_FAILED)}, "in the cluster",
        create_new,
    ),
    row(
        "delete_topics", (1, 5), {topic(DELETE): Refused("responses.error_code", TOPIC_FAILED)}, "by name",
        lambda world: {"topic_names": [world.topic], "timeout_ms": 30_000},
    ),
    row(
        "delete_topics", (6,),
        {topic(DELETE): (Refused("responses.error_code", TOPIC_FAILED), Shows("responses.name", None))}, "by id",
        delete_by_id,
    ),
    row(
        "delete_topics", (6,),
        {topic(DELETE): (Refused("responses.error_code", TOPIC_FAILED), Tells("responses.name", "topic")),
         topic(DESCRIBE): Shows("responses.error_code", 0)},  # DELETE includes it
        "by id of what is known", delete_by_id,
    ),
    row(
        "delete_topics", (6,), {cluster(DELETE): Refused("responses.error_code", TOPIC_FAILED)}, "in the cluster",
        lambda world: {"topics": [{"name": world.topic}], "timeout_ms": 30_000},
    ),
    row("create_partitions", (0, 3), {topic(ALTER): Refused("results.error_code", TOPIC_FAILED)}),
]  # fmt: skip

NOT_IN_KAFKA_41 = "Kafka 4.1 does not announce this version"

GROUPS = [
    row(
        "offset_commit", (2, 8, 9),
        {group(READ): Refused(OF_PARTITIONS, GROUP_FAILED), topic(READ): Refused(OF_PARTITIONS, TOPIC_FAILED)},
    ),
    row(
        "offset_commit", (10,),
        {group(READ): Refused(OF_PARTITIONS, GROUP_FAILED), topic(READ): Refused(OF_PARTITIONS, TOPIC_FAILED)},
        "by id", only_ours=NOT_IN_KAFKA_41,
    ),
    row(
        "offset_fetch", (1,),
        {group(DESCRIBE): Refused(OF_PARTITIONS, GROUP_FAILED), topic(DESCRIBE): Refused(OF_PARTITIONS, TOPIC_FAILED)},
        "oldest",
    ),
    row(
        "offset_fetch", (2, 7),
        {group(DESCRIBE): Refused("error_code", GROUP_FAILED), topic(DESCRIBE): Refused(OF_PARTITIONS, TOPIC_FAILED)},
        "of one group",
    ),
    row(
        "offset_fetch", (8, 9),
        {group(DESCRIBE): Refused("groups.error_code", GROUP_FAILED),
         topic(DESCRIBE): Refused(OF_GROUP_PARTITIONS, TOPIC_FAILED)},
    ),
    row(
        "offset_fetch", (10,),
        {group(DESCRIBE): Refused("groups.error_code", GROUP_FAILED),
         topic(DESCRIBE): Refused(OF_GROUP_PARTITIONS, TOPIC_FAILED)},
        "by id", only_ours=NOT_IN_KAFKA_41,
    ),
    row(
        "offset_fetch", (8,), {group(DESCRIBE): Refused("groups.error_code", GROUP_FAILED),
                               topic(DESCRIBE): Hidden("groups.topics.name", "topic")},
        "of all topics", all_offsets, before=commit,
    ),
    row(
        "offset_delete", (0,),
        {group(DELETE): Refused("error_code", GROUP_FAILED), topic(READ): Refused(OF_PARTITIONS, TOPIC_FAILED)},
        ask=lambda world: {"group_id": world.group, "topics": world.topics(partitions=[{"partition_index": 0}])},
        before=commit,
    ),
    row("find_coordinator", (0, 3), {group(DESCRIBE): Refused("error_code", GROUP_FAILED)}, "of one", find_group),
    row("find_coordinator", (4, 6), {group(DESCRIBE): Refused(OF_KEYS, GROUP_FAILED)}, "of many", find_group),
    row("find_coordinator", (1, 3), {an_id(DESCRIBE): Refused("error_code", ID_FAILED)}, "of one id", find_id),
    row("find_coordinator", (4, 6), {an_id(DESCRIBE): Refused(OF_KEYS, ID_FAILED)}, "of many ids", find_id),
    row("join_group", (4, 9), {group(READ): Refused("error_code", GROUP_FAILED)}, "", JOIN, ("MEMBER_ID_REQUIRED",)),
    row("heartbeat", (0, 4), {group(READ): Refused("error_code", GROUP_FAILED)}, errors=("UNKNOWN_MEMBER_ID",)),
    row("sync_group", (0, 5), {group(READ): Refused("error_code", GROUP_FAILED)}, errors=("UNKNOWN_MEMBER_ID",)),
    row("leave_group", (0, 3, 5), {group(READ): Refused("error_code", GROUP_FAILED)}, errors=("UNKNOWN_MEMBER_ID",)),
    row(
        "describe_groups", (0, 3, 6), {group(READ): Refused("groups.error_code", GROUP_FAILED)}, before=commit,
    ),
    row(
        "describe_groups", (4,), {group(READ): Refused("groups.error_code", GROUP_FAILED)}, "with operations",
        before=commit, shows=Shows("groups.authorized_operations", bits(READ, DESCRIBE)),
    ),
    row("list_groups", (0, 5), {group(DESCRIBE): Hidden("groups.group_id", "group")}, before=commit),
    row("list_groups", (5,), {cluster(DESCRIBE): Hidden("groups.group_id", "group")}, "in the cluster", before=commit),
    row(
        "delete_groups", (0, 2), {group(DELETE): Refused("results.error_code", GROUP_FAILED)},
        ask=lambda world: {"groups_names": [world.group]}, before=commit,
    ),
]  # fmt: skip

TRANSACTIONS = [
    row("init_producer_id", (0, 5), {an_id(WRITE): Refused("error_code", ID_FAILED)}, "", transactional),
    row("init_producer_id", (0, 5), {topic(WRITE): Refused("error_code", CLUSTER_FAILED)}, "idempotent", idempotent),
    row(
        "init_producer_id", (4,), {cluster(Operation.IDEMPOTENT_WRITE): Refused("error_code", CLUSTER_FAILED)},
        "idempotent in the cluster", idempotent,
    ),
    row(
        "add_partitions_to_txn", (0, 3),
        {an_id(WRITE): Refused(ADDED, ID_FAILED), topic(WRITE): Refused(ADDED, TOPIC_FAILED)},
    ),
    row(
        "add_partitions_to_txn", (4, 5), {cluster(CLUSTER_ACTION): Refused("error_code", CLUSTER_FAILED)},
        "as a broker",
    ),
    row(
        "add_offsets_to_txn", (0, 4),
        {an_id(WRITE): Refused("error_code", ID_FAILED), group(READ): Refused("error_code", GROUP_FAILED)},
    ),
    row(
        "txn_offset_commit", (0, 3, 5),
        {an_id(WRITE): Refused(OF_PARTITIONS, ID_FAILED), group(READ): Refused(OF_PARTITIONS, GROUP_FAILED),
         topic(READ): Refused(OF_PARTITIONS, TOPIC_FAILED)},
        before=add_group,
    ),
    row("end_txn", (0, 5), {an_id(WRITE): Refused("error_code", ID_FAILED)}, before=begin),
    row(
        "write_txn_markers", (1,), {cluster(ALTER): Refused("markers.topics.partitions.error_code", CLUSTER_FAILED)},
        ask=marker,
    ),
    row(
        "write_txn_markers", (1,),
        {cluster(CLUSTER_ACTION): Refused("markers.topics.partitions.error_code", CLUSTER_FAILED)},
        "as a broker", marker,
    ),
    row(
        "describe_transactions", (0,),
        {an_id(DESCRIBE): Refused("transaction_states.error_code", ID_FAILED),
         topic(DESCRIBE): Hidden("transaction_states.topics.topic", "topic")},
        before=begin,
    ),
    row(
        "list_transactions", (0, 1),
        {an_id(DESCRIBE): Hidden("transaction_states.transactional_id", "transactional_id")}, before=begin,
    ),
]  # fmt: skip

OF_RESOURCES, OF_RESPONSES = "results.error_code", "responses.error_code"

CONFIGS = [
    row("describe_configs", (1, 4), {topic(DESCRIBE_CONFIGS): Refused(OF_RESOURCES, TOPIC_FAILED)}, "of a topic",
        config_of(2, "topic", **ALL_KEYS)),
    row("describe_configs", (1, 4), {cluster(DESCRIBE_CONFIGS): Refused(OF_RESOURCES, CLUSTER_FAILED)}, "of a broker",
        broker_config(BROKER, **ALL_KEYS)),
    row("describe_configs", (4,), {cluster(DESCRIBE_CONFIGS): Refused(OF_RESOURCES, CLUSTER_FAILED)}, "of loggers",
        broker_config(LOGGER, **ALL_KEYS)),
    row("describe_configs", (4,), {group(DESCRIBE_CONFIGS): Refused(OF_RESOURCES, GROUP_FAILED)}, "of a group",
        config_of(GROUP_CONFIG, "group", **ALL_KEYS)),
    row("alter_configs", (0, 2), {topic(ALTER_CONFIGS): Refused(OF_RESPONSES, TOPIC_FAILED)}, "of a topic",
        config_of(2, "topic", **NO_CONFIGS)),
    row("alter_configs", (2,), {cluster(ALTER_CONFIGS): Refused(OF_RESPONSES, CLUSTER_FAILED)}, "of a broker",
        broker_config(BROKER, **NO_CONFIGS)),
    row("incremental_alter_configs", (0, 1), {topic(ALTER_CONFIGS): Refused(OF_RESPONSES, TOPIC_FAILED)}, "of a topic",
        config_of(2, "topic", **NO_CONFIGS)),
    row("incremental_alter_configs", (1,), {cluster(ALTER_CONFIGS): Refused(OF_RESPONSES, CLUSTER_FAILED)},
        "of a broker", broker_config(BROKER, **NO_CONFIGS)),
    row("incremental_alter_configs", (1,), {cluster(ALTER_CONFIGS): Refused(OF_RESPONSES, CLUSTER_FAILED)},
        "of loggers", broker_config(LOGGER, **NO_CONFIGS)),
    row("incremental_alter_configs", (1,), {group(ALTER_CONFIGS): Refused(OF_RESPONSES, GROUP_FAILED)}, "of a group",
        config_of(GROUP_CONFIG, "group", **NO_CONFIGS)),
    row("list_config_resources", (0, 1), {cluster(DESCRIBE_CONFIGS): Refused("error_code", CLUSTER_FAILED)}),
]  # fmt: skip

OF_ELECTIONS = "replica_election_results.partition_result.error_code"

CLUSTER = [
    row("describe_acls", (1, 3), {cluster(DESCRIBE): Refused("error_code", CLUSTER_FAILED)}),
    row("create_acls", (1, 3), {cluster(ALTER): Refused("results.error_code", CLUSTER_FAILED)}),
    row("delete_acls", (1, 3), {cluster(ALTER): Refused("filter_results.error_code", CLUSTER_FAILED)}),
    row(
        "describe_cluster", (0, 1), {cluster(DESCRIBE): Shows("cluster_authorized_operations", 0)},
        shows=Shows("cluster_authorized_operations", bits(DESCRIBE)),
    ),
    row("describe_log_dirs", (1,), {cluster(DESCRIBE): Hidden("results.topics.name", "topic")}, "old"),
    row("describe_log_dirs", (3, 4), {cluster(DESCRIBE): Refused("error_code", CLUSTER_FAILED)}),
    row(
        "alter_replica_log_dirs", (1, 2), {cluster(ALTER): Refused("results.partitions.error_code", CLUSTER_FAILED)},
        "", move, ("LOG_DIR_NOT_FOUND",),
    ),
    row(
        "elect_leaders", (0,), {cluster(ALTER): Refused(OF_ELECTIONS, CLUSTER_FAILED)}, "old",
        errors=("ELECTION_NOT_NEEDED",),
    ),
    row(
        "elect_leaders", (1, 2), {cluster(ALTER): Refused(f"error_code {OF_ELECTIONS}", CLUSTER_FAILED)},
        errors=("ELECTION_NOT_NEEDED",),
    ),
    row(
        "alter_partition_reassignments", (0, 1),
        {cluster(ALTER): Refused("error_code responses.partitions.error_code", CLUSTER_FAILED)}, "", reassign,
    ),
    row("list_partition_reassignments", (0,), {cluster(DESCRIBE): Refused("error_code", CLUSTER_FAILED)}),
    row("describe_client_quotas", (0, 1), {cluster(DESCRIBE_CONFIGS): Refused("error_code", CLUSTER_FAILED)}),
    row(
        "describe_user_scram_credentials", (0,),
        {cluster(DESCRIBE): Refused("error_code results.error_code", CLUSTER_FAILED)},
        "", lambda world: {"users": [{"name": "nobody"}]}, ("RESOURCE_NOT_FOUND",),
    ),
    row(
        "alter_user_scram_credentials", (0,), {cluster(ALTER): Refused("results.error_code", CLUSTER_FAILED)},
        errors=("RESOURCE_NOT_FOUND",),
    ),
    row("describe_quorum", (0, 2), {cluster(DESCRIBE): Refused("error_code", CLUSTER_FAILED)}),
    row(
        "update_features", (0, 1, 2), {cluster(ALTER): Refused("error_code", CLUSTER_FAILED)}, "",
        lambda world: {"feature_updates": [{"feature": "transaction.version", "max_version_level": 2}]},
    ),
]  # fmt: skip

EVERYTHING = Operation.ALL
WITH_ALL = [
    row(
        "metadata", (8,),
        {topic(EVERYTHING): Refused("topics.error_code", TOPIC_FAILED),
         cluster(EVERYTHING): Shows("cluster_authorized_operations", 0)},
        "with all operations", with_operations,
        shows=(Shows("topics.topic_authorized_operations", bits(*SUPPORTED[Resource.TOPIC])),
               Shows("cluster_authorized_operations", bits(*SUPPORTED[Resource.CLUSTER]))),
    ),
    row(
        "describe_groups", (3,), {group(EVERYTHING): Refused("groups.error_code", GROUP_FAILED)},
        "with all operations", before=commit,
        shows=Shows("groups.authorized_operations", bits(*SUPPORTED[Resource.GROUP])),
    ),
]  # fmt: skip

#: For everybody, before a login and after it.
FREE = [
    row("api_versions", (0, 4), {}),
    row("sasl_handshake", (1,), {}, errors=("ILLEGAL_SASL_STATE",)),
    row("sasl_authenticate", (2,), {}, errors=("ILLEGAL_SASL_STATE", "SASL_AUTHENTICATION_FAILED")),
]

ROWS = [*RECORDS, *TOPICS, *GROUPS, *TRANSACTIONS, *CONFIGS, *CLUSTER, *WITH_ALL, *FREE]
