"""The protocol itself: every announced API in every announced version, and the rules of a connection."""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from fencepost.client.connection import Pending
from fencepost.client.raw import Session
from fencepost.wire import messages
from tests.clients.raw import Key, Wire, batch, errors
from tests.clients.raw_records import fetch_fields
from tests.clients.raw_transactions import settled
from tests.conftest import MakeTopic, unique

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4


@pytest.fixture(scope="module")
def announced(bootstrap: str) -> dict[int, range]:
    """API key to versions, as the broker tells."""
    with Wire(bootstrap) as opened:
        answer = opened.call(Key.API_VERSIONS, 3, client_software_name="raw", client_software_version="1")
    return {each.api_key: range(each.min_version, each.max_version + 1) for each in answer.api_keys}


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


@pytest.fixture
def world(wire: Wire, topic: MakeTopic) -> World:
    name, transactional_id = topic(partitions=2), unique("tx")
    metadata = wire.call(Key.METADATA, 12, topics=[{"name": name}])
    return World(
        topic=name,
        topic_id=metadata.topics[0].topic_id.bytes,
        node_id=metadata.brokers[0].node_id,
        session=Session(*settled(wire, transactional_id), transactional_id),
        group=unique("group"),
    )


#: A valid request for each API, as small as it can be. What a version lacks is left out when it is encoded.
Request = Callable[[World], dict[str, Any]]
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

#: What must have been asked before.
BEFORE: dict[str, tuple[str, int]] = {
    "txn_offset_commit": ("add_offsets_to_txn", 3),
    "describe_transactions": ("add_partitions_to_txn", 3),
}

#: The errors that Kafka gives to some of these: the request is well-formed, but there is nothing that it could act on.
EXPECTED: dict[str, set[str]] = {
    "heartbeat": {"UNKNOWN_MEMBER_ID"},
    "leave_group": {"UNKNOWN_MEMBER_ID"},
    "sync_group": {"UNKNOWN_MEMBER_ID"},
    "join_group": {"MEMBER_ID_REQUIRED"},
    "describe_groups": {"GROUP_ID_NOT_FOUND"},
    "delete_topics": {"UNKNOWN_TOPIC_OR_PARTITION"},
    "end_txn": {"INVALID_TXN_STATE"},
    "describe_acls": {"SECURITY_DISABLED"},
    "delete_groups": {"GROUP_ID_NOT_FOUND"},
    "offset_delete": {"GROUP_ID_NOT_FOUND"},
    "elect_leaders": {"ELECTION_NOT_NEEDED"},
    "sasl_handshake": {"ILLEGAL_SASL_STATE"},
    "sasl_authenticate": {"ILLEGAL_SASL_STATE"},
    "alter_user_scram_credentials": {"RESOURCE_NOT_FOUND"},
}


class TestEveryApi:
    @pytest.mark.parametrize(("key", "name"), messages.api_names().items(), ids=str)
    def test_every_version_is_answered_in_a_form_that_a_stranger_reads(
        self, wire: Wire, world: World, announced: dict[int, range], key: int, name: str, is_original: bool
    ) -> None:
        if key not in announced:
            pytest.skip("not announced")
        table = messages.api(key).request.versions
        if not is_original:
            assert set(announced[key]) - {0, 1, 2} <= set(range(table.first, table.last + 1))
        if name in BEFORE:
            first, version = BEFORE[name]
            assert errors(wire.call(Key[first.upper()], version, **self.fields(first, version, world))) == set()
        for version in announced[key]:
            if version not in table:
                continue
            answer = wire.call(key, version, **self.fields(name, version, world))
            assert errors(answer) <= EXPECTED.get(name, set()), f"{name} v{version}"
            assert wire.is_open()

    def fields(self, name: str, version: int, world: World) -> dict[str, Any]:
        known = {field.name for field in messages.api(Key[name.upper()]).request.fields}
        return {key: value for key, value in REQUESTS[name](world).items() if key in known}

    def test_what_is_announced_has_a_request_here(self, announced: dict[int, range], is_original: bool) -> None:
        assert set(REQUESTS) == set(messages.api_names().values())
        if not is_original:
            assert announced.keys() <= messages.api_names().keys()


class TestApiVersions:
    def test_a_version_from_the_future_is_answered_in_version_0(self, wire: Wire, announced: dict[int, range]) -> None:
        asked = Pending(Key.API_VERSIONS, 0, 7)
        wire.send_bytes(struct.pack(">ihhih", 4 + 4 + 2 + 3, Key.API_VERSIONS, 99, 7, -1) + b"\x00\x01\x02", asked)
        answer = wire.receive(asked)
        assert answer.error_code == ErrorCode.unsupported_version
        told = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
        assert told[Key.API_VERSIONS] == (announced[Key.API_VERSIONS][0], announced[Key.API_VERSIONS][-1])
        assert wire.is_open()

    def test_the_second_transaction_protocol_is_finalised(self, wire: Wire) -> None:
        answer = wire.call(Key.API_VERSIONS, 4, client_software_name="raw", client_software_version="1")
        supported = {each.name: (each.min_version, each.max_version) for each in answer.supported_features}
        finalised = {each.name: each.max_version_level for each in answer.finalized_features}
        assert supported["transaction.version"][1] == 2
        assert finalised["transaction.version"] == 2
        assert answer.finalized_features_epoch >= 0

    def test_a_client_whose_name_is_not_a_name_is_refused(self, wire: Wire) -> None:
        answer = wire.call(Key.API_VERSIONS, 3, client_software_name="no blanks", client_software_version="1")
        assert errors(answer) == {"INVALID_REQUEST"}


class TestConnection:
    def test_requests_in_one_write_are_answered_in_their_order(self, wire: Wire, world: World) -> None:
        asked = [
            ("produce", 9),
            ("metadata", 12),
            ("fetch", 12),
            ("find_coordinator", 4),
            ("list_offsets", 7),
            ("api_versions", 3),
            ("init_producer_id", 4),
            ("describe_configs", 4),
        ] * 25
        frames = [
            wire.frame(Key[name.upper()], version, TestEveryApi().fields(name, version, world))
            for name, version in asked
        ]
        wire.send_bytes(b"".join(data for data, _ in frames), *(sent for _, sent in frames))
        for _, sent in frames:
            assert errors(wire.receive(sent)) == set()

    def test_a_waiting_fetch_holds_up_only_its_own_connection(
        self, open_wire: Callable[[], Wire], wire: Wire, world: World
    ) -> None:
        waiting = wire.request(Key.FETCH, 12, fetch_fields({world.topic: {0: 0}}, max_wait_ms=15_000, min_bytes=1))
        other = open_wire()
        assert other.is_open()
        other.call(Key.PRODUCE, 9, **REQUESTS["produce"](world))
        answer = wire.receive(waiting)
        assert answer.responses[0].partitions[0].high_watermark == 1
