"""What stands before every request and response."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.errors import Malformed
from fencepost.wire import frame, messages
from tests.unit.wire import kio_bridge
from tests.unit.wire.strategies import INTEGERS

INT16, INT32 = INTEGERS["int16"], INTEGERS["int32"]


@given(INT16, INT16, INT32, st.none() | st.text(max_size=30), st.binary(max_size=10))
def test_a_request_header_is_read_as_kio_writes_it(api_key, version, correlation_id, client_id, body):
    from kio.schema.request_header.v1.header import RequestHeader

    said = (api_key, version, correlation_id, client_id)
    fields = ("request_api_key", "request_api_version", "correlation_id", "client_id")
    head = kio_bridge.encode(RequestHeader(**dict(zip(fields, said, strict=True))))
    assert frame.read_request_header(memoryview(head + body)) == (*said, len(head))


def test_tags_that_nobody_knows_are_passed_over():
    assert frame.skip_tags(b"\x00rest", 0) == 1
    assert frame.skip_tags(b"\x02\x00\x01a\x7f\x02bbrest", 0) == 8
    with pytest.raises(Malformed):
        frame.skip_tags(b"\x01\x00\x05abc", 0)


def test_millions_of_empty_tags_are_not_passed_over_one_by_one():
    with pytest.raises(Malformed, match="unknown tagged fields"):
        frame.skip_tags(b"\xff\xff\xff\x01" + b"\x63\x00" * 1000, 0)


@pytest.mark.parametrize("key", messages.api_names())
def test_a_response_starts_with_its_size_and_correlation_id_and_flexible_ones_with_tags(key):
    api = messages.api(key)
    for version in range(api.response.versions.first, api.response.versions.last + 1):
        encoded = bytes(frame.encode_response(api, version, 1234, {}))
        size, correlation_id = struct.unpack_from(">ii", encoded)
        assert (size, correlation_id) == (len(encoded) - 4, 1234)
        # ApiVersions is asked before the client knows what the broker speaks, so its header stays plain.
        tagged = version in api.response.flexible and key != frame.API_VERSIONS_KEY
        assert encoded[8:] == (b"\x00" if tagged else b"") + api.response.encode(version, {})
