"""The protocol itself: every announced API in every announced version, and the rules of a connection."""

import struct
from collections.abc import Callable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from fencepost.client.connection import Pending
from fencepost.client.raw import Session
from fencepost.wire import messages
from tests.clients.every_api import REQUESTS, World
from tests.clients.raw import Key, Wire, errors
from tests.clients.raw_groups import served_group
from tests.clients.raw_records import fetch_fields
from tests.clients.raw_transactions import settled
from tests.conftest import MakeTopic, unique


@pytest.fixture(scope="module")
def announced(bootstrap: str) -> dict[int, range]:
    """API key to versions, as the broker tells."""
    with Wire(bootstrap) as opened:
        answer = opened.call(Key.API_VERSIONS, 3, client_software_name="raw", client_software_version="1")
    return {each.api_key: range(each.min_version, each.max_version + 1) for each in answer.api_keys}


@pytest.fixture
def world(wire: Wire, topic: MakeTopic) -> World:
    name, transactional_id = topic(partitions=2), unique("tx")
    metadata = wire.call(Key.METADATA, 12, topics=[{"name": name}])
    return World(
        topic=name,
        topic_id=metadata.topics[0].topic_id.bytes,
        node_id=metadata.brokers[0].node_id,
        session=Session(*settled(wire, transactional_id), transactional_id),
        group=served_group(wire),
    )


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
    "consumer_group_describe": {"GROUP_ID_NOT_FOUND"},
    "delete_topics": {"UNKNOWN_TOPIC_OR_PARTITION"},
    "end_txn": {"INVALID_TXN_STATE"},
    "describe_acls": {"SECURITY_DISABLED"},
    "create_acls": {"SECURITY_DISABLED"},
    "delete_acls": {"SECURITY_DISABLED"},
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
