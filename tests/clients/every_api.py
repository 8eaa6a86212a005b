"""A valid request for each API that the broker announces."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fencepost.client.raw import Session
from tests.clients.raw import batch
from tests.clients.raw_records import fetch_fields
from tests.conftest import unique

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4


@dataclass(frozen=True, slots=True)
class World:
    """What a request may name: things that exist, and names for those that it makes."""

    topic: str
    topic_id: bytes
    node_id: int
    session: Session
    group: str

    def topics(self, **inside: Any) -> list[dict[str, Any]]:
        return [{"name": self.topic, **inside}]

    def topics_and_ids(self, **inside: Any) -> list[dict[str, Any]]:
        return self.topics(topic_id=self.topic_id, **inside)

    def resources(self, **inside: Any) -> list[dict[str, Any]]:
        return [{"resource_type": TOPIC_RESOURCE, "resource_name": self.topic, **inside}]


#: A valid request for each API, as small as it can be. What a version lacks is left out when it is encoded.
Request = Callable[[Any], dict[str, Any]]
REQUESTS: dict[str, Request] = {
    "produce": lambda w: {
        "acks": -1,
        "timeout_ms": 5000,
        "topic_data": w.topics_and_ids(partition_data=[{"index": 0, "records": batch(b"v")}]),
    },
    "fetch": lambda w: fetch_fields({w.topic: {0: 0}}, topic_ids={w.topic: w.topic_id}),
    "list_offsets": lambda w: {
        "replica_id": -1,
        "topics": w.topics(partitions=[{"partition_index": 0, "timestamp": -1}]),
    },
    "metadata": lambda w: {"topics": w.topics()},
    "offset_commit": lambda w: {
        "group_id": w.group,
        "topics": w.topics_and_ids(
            partitions=[{"partition_index": 0, "committed_offset": 1, "committed_metadata": "note"}]
        ),
    },
    "offset_fetch": lambda w: {
        "group_id": w.group,
        "topics": w.topics(partition_indexes=[0]),
        "groups": [{"group_id": w.group, "topics": w.topics_and_ids(partition_indexes=[0])}],
    },
    "find_coordinator": lambda w: {"key": w.group, "coordinator_keys": [w.group, w.group + "2"]},
    "join_group": lambda w: {
        "group_id": unique("group"),
        "session_timeout_ms": 6000,
        "rebalance_timeout_ms": 6000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    },
    "heartbeat": lambda w: {"group_id": w.group, "generation_id": 1, "member_id": "nobody"},
    "leave_group": lambda w: {"group_id": w.group, "member_id": "nobody", "members": [{"member_id": "nobody"}]},
    "sync_group": lambda w: {
        "group_id": w.group,
        "generation_id": 1,
        "member_id": "nobody",
        "protocol_type": "consumer",
        "protocol_name": "range",
    },
    "describe_groups": lambda w: {"groups": [w.group], "include_authorized_operations": True},
    "consumer_group_describe": lambda w: {"group_ids": [w.group]},
    "list_groups": lambda w: {},
    "api_versions": lambda w: {"client_software_name": "raw", "client_software_version": "1"},
    "create_topics": lambda w: {
        "topics": [
            {
                "name": unique("made"),
                "num_partitions": 1,
                "replication_factor": 1,
                "configs": [{"name": "retention.ms", "value": "1000"}],
            }
        ],
        "timeout_ms": 5000,
    },
    "delete_topics": lambda w: {
        "topic_names": [unique("unknown")],
        "topics": [{"name": unique("unknown")}],
        "timeout_ms": 5000,
    },
    "delete_records": lambda w: {
        "topics": w.topics(partitions=[{"partition_index": 1, "offset": -1}]),
        "timeout_ms": 5000,
    },
    "init_producer_id": lambda w: {"transactional_id": None, "transaction_timeout_ms": 1000},
    "offset_for_leader_epoch": lambda w: {
        "replica_id": -1,
        "topics": [{"topic": w.topic, "partitions": [{"partition": 0, "leader_epoch": 0}]}],
    },
    "add_partitions_to_txn": lambda w: {
        **{f"v3_and_below_{name}": value for name, value in w.session.fields.items()},
        "v3_and_below_topics": w.topics(partitions=[0]),
        "transactions": [{**w.session.fields, "topics": w.topics(partitions=[0])}],
    },
    "add_offsets_to_txn": lambda w: {**w.session.fields, "group_id": w.group},
    "end_txn": lambda w: {**w.session.fields, "committed": True},
    "write_txn_markers": lambda w: {"markers": []},
    "txn_offset_commit": lambda w: {
        **w.session.fields,
        "group_id": w.group,
        "topics": w.topics(partitions=[{"partition_index": 0, "committed_offset": 1, "committed_metadata": None}]),
    },
    "describe_acls": lambda w: {"resource_type_filter": 1, "operation": 1, "permission_type": 1},
    "create_acls": lambda w: {
        "creations": [
            {
                "resource_type": TOPIC_RESOURCE,
                "resource_name": w.topic,
                "principal": "User:nobody",
                "host": "*",
                "operation": 3,
                "permission_type": 3,
            }
        ]
    },
    "delete_acls": lambda w: {
        "filters": [
            {
                "resource_type_filter": TOPIC_RESOURCE,
                "resource_name_filter": w.topic,
                "principal_filter": "User:nobody",
                "operation": 1,
                "permission_type": 1,
            }
        ]
    },
    "describe_configs": lambda w: {
        "resources": [
            *w.resources(configuration_keys=None),
            {"resource_type": BROKER_RESOURCE, "resource_name": str(w.node_id), "configuration_keys": None},
        ],
        "include_synonyms": True,
        "include_documentation": True,
    },
    "alter_configs": lambda w: {"resources": w.resources(configs=[{"name": "retention.ms", "value": "1000000"}])},
    "alter_replica_log_dirs": lambda w: {"dirs": []},
    "describe_log_dirs": lambda w: {"topics": [{"topic": w.topic, "partitions": [0, 1]}]},
    "create_partitions": lambda w: {
        "topics": w.topics(count=3, assignments=None),
        "timeout_ms": 5000,
        "validate_only": True,
    },
    "delete_groups": lambda w: {"groups_names": [unique("unknown")]},
    "elect_leaders": lambda w: {"topic_partitions": [{"topic": w.topic, "partitions": [0]}], "timeout_ms": 5000},
    "incremental_alter_configs": lambda w: {
        "resources": w.resources(configs=[{"name": "retention.ms", "config_operation": 0, "value": "1000000"}])
    },
    "alter_partition_reassignments": lambda w: {"topics": [], "timeout_ms": 5000},
    "list_partition_reassignments": lambda w: {"topics": None, "timeout_ms": 5000},
    "sasl_handshake": lambda w: {"mechanism": "PLAIN"},
    "sasl_authenticate": lambda w: {"auth_bytes": b""},
    "describe_client_quotas": lambda w: {"components": [{"entity_type": "user", "match_type": 2, "match": None}]},
    "describe_user_scram_credentials": lambda w: {"users": None},
    "alter_user_scram_credentials": lambda w: {
        "deletions": [{"name": unique("user"), "mechanism": 1}],
        "upsertions": [],
    },
    "offset_delete": lambda w: {"group_id": unique("unknown"), "topics": w.topics(partitions=[{"partition_index": 0}])},
    "describe_quorum": lambda w: {
        "topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    },
    "update_features": lambda w: {"feature_updates": [], "timeout_ms": 5000},
    "describe_cluster": lambda w: {"include_cluster_authorized_operations": True},
    "describe_producers": lambda w: {"topics": w.topics(partition_indexes=[0])},
    "describe_transactions": lambda w: {"transactional_ids": [w.session.transactional_id]},
    "list_transactions": lambda w: {},
    "list_config_resources": lambda w: {},
    "describe_topic_partitions": lambda w: {"topics": w.topics()},
}
