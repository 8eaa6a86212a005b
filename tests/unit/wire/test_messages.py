"""Every message of every version, held against kio in both directions; the rules for handlers.

`tests/fuzz` throws hostile bytes at every message, and cuts them short.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.errors import InvariantBroken, Malformed
from fencepost.wire import messages
from fencepost.wire.codec import MAX_REQUEST_ITEMS
from fencepost.wire.messages import Schema
from fencepost.wire.varint import write_unsigned
from tests.fuzz.targets import COORDINATOR_RECORDS
from tests.unit.wire import kio_bridge, strategies

SIDES = [(key, kind) for key in messages.api_names() for kind in ("request", "response")]


def side_id(side: tuple[int, str]) -> str:
    return f"{messages.api(side[0]).name}-{side[1]}"


def schema_of(side: tuple[int, str]) -> Schema:
    return getattr(messages.api(side[0]), side[1])


def all_versions(schema: Schema) -> range:
    return range(schema.versions.first, schema.versions.last + 1)


@pytest.mark.parametrize("side", SIDES, ids=side_id)
@settings(max_examples=8)
@given(data=st.data())
def test_kio_reads_what_we_write_and_we_read_what_kio_writes(side, data):
    api, schema = messages.api(side[0]), schema_of(side)
    for version in all_versions(schema):
        values = data.draw(strategies.values_of_kafkas(schema, version, kio_bridge.LEAVES), label=f"v{version}")
        kind = kio_bridge.entity_class(api, version, side[1])

        encoded = bytes(schema.encode(version, values))
        assert kio_bridge.from_kio(kio_bridge.decode(kind, encoded)) == values

        theirs = kio_bridge.encode(kio_bridge.to_kio(kind, values))
        assert kio_bridge.plain(schema.decode(version, theirs), values) == values
        again = schema.encode(version, schema.decode(version, b"before" + encoded, 6))
        assert again == encoded, "a decoded message can be written again"


@pytest.mark.parametrize("name", COORDINATOR_RECORDS)
@settings(max_examples=8)
@given(data=st.data())
def test_a_coordinators_record_is_read_back(name, data):
    schema = messages.data(name)
    for version in all_versions(schema):
        values = data.draw(strategies.values(schema, version), label=f"v{version}")
        decoded = schema.decode(version, schema.encode(version, values))
        assert kio_bridge.plain(decoded, values) == values


def test_an_empty_message_has_the_defaults_of_every_version():
    for schema in [schema_of(side) for side in SIDES] + [messages.data(name) for name in COORDINATOR_RECORDS]:
        for version in all_versions(schema):
            encoded = schema.encode(version, {})
            assert schema.encode(version, schema.decode(version, encoded)) == encoded, (schema.name, version)


def test_an_array_that_claims_more_items_than_there_are_bytes_is_refused_at_once():
    schema = messages.api(19).request
    for version in all_versions(schema):
        lie = b"\xff\xff\xff\xff\x07" if version in schema.flexible else b"\x7f\xff\xff\xff"
        with pytest.raises(Malformed, match="items"):
            schema.decode(version, lie + bytes(100))


def test_a_request_with_more_items_than_anybody_needs_is_refused_before_it_fills_the_memory():
    schema = messages.api(9).request
    group = b"\x01\x01\x00"  # an empty name, no topics, no tags: three bytes that would become an object
    many = bytearray()
    write_unsigned(many, MAX_REQUEST_ITEMS + 2)
    with pytest.raises(Malformed, match="more than"):
        schema.decode(8, many + group * (MAX_REQUEST_ITEMS + 1) + b"\x00\x00")

    tags = bytearray(schema.encode(8, {})[:-1])
    write_unsigned(tags, MAX_REQUEST_ITEMS + 1)
    with pytest.raises(Malformed, match="more than"):
        schema.decode(8, tags + b"\x63\x00" * (MAX_REQUEST_ITEMS + 1))

    nested = {"groups": [{"topics": [{"partition_indexes": [1] * 1000}]}] * 101}
    with pytest.raises(Malformed, match="more than"):
        schema.decode(8, schema.encode(8, nested))
    assert schema.decode(8, schema.encode(8, {"groups": nested["groups"][:90]})), "and each request counts for itself"


def test_a_string_longer_than_kafka_allows_is_refused_even_where_the_length_could_say_it():
    schema = messages.api(26).request
    fits = schema.encode(3, {"transactional_id": "x" * 0x7FFF})
    assert schema.decode(3, fits).transactional_id == "x" * 0x7FFF
    with pytest.raises(Malformed, match="string"):
        schema.decode(3, schema.encode(3, {"transactional_id": "x" * 0x8000}))


def test_unknown_tagged_fields_are_passed_over():
    schema = messages.api(26).request
    encoded = schema.encode(3, {"transactional_id": "t", "producer_id": 7})
    assert encoded[-1] == 0
    with_tags = encoded[:-1] + b"\x02" + b"\x05\x01z" + b"\x63\x02yy"
    assert schema.decode(3, with_tags).producer_id == 7


def test_a_field_that_a_version_lacks_has_its_default_when_read_and_is_left_out_when_written():
    schema = messages.api(26).response
    old = schema.encode(0, {"error_code": 3, "producer_id": 9, "producer_epoch": 1})
    assert len(old) == 6
    assert schema.decode(0, old).producer_id == -1


def test_a_name_that_no_version_has_is_our_bug():
    with pytest.raises(InvariantBroken, match="eror_code"):
        messages.api(26).response.encode(0, {"eror_code": 3})
    with pytest.raises(InvariantBroken, match="has no version 99"):
        messages.api(26).response.encode(99, {})
    with pytest.raises(AttributeError, match="eror_code"):
        _ = messages.api(26).response.decode(0, bytes(6)).eror_code


def test_null_where_none_is_allowed_is_our_bug_when_written_and_malformed_when_read():
    schema = messages.api(26).request
    with pytest.raises(InvariantBroken):
        schema.encode(0, {"transactional_id": None})
    with pytest.raises(Malformed, match="null"):
        schema.decode(0, b"\xff\xff" + bytes(20))
    with pytest.raises(Malformed, match="null"):
        schema.decode(3, bytes(20))


def test_a_tagged_field_with_its_default_takes_no_bytes():
    schema = messages.api(18).response
    assert schema.encode(3, {"finalized_features_epoch": -1}) == schema.encode(3, {})
    assert len(schema.encode(3, {"finalized_features_epoch": 5})) == len(schema.encode(3, {})) + 10
