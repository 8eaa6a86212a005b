"""The header of every request and response: size, API key, version, correlation id.

Two rules are easy to miss. A request's client id is never compact, not even in flexible versions. An ApiVersions
response never has the flexible header, because its client does not know the broker's versions yet.
"""

import struct
from typing import NamedTuple

from fencepost.errors import Malformed
from fencepost.wire import messages
from fencepost.wire.messages import Buffer
from fencepost.wire.varint import read_unsigned, write_unsigned

SIZE = struct.Struct(">i")
API_VERSIONS_KEY = 18
#: Kafka's structs have a handful at most. Skipping millions of empty ones would block all other clients.
MAX_UNKNOWN_TAGS = 64

#: Makes a NamedTuple without its constructor's Python frame: for values that every request makes.
new_tuple = tuple.__new__

_NAME_LENGTH = struct.Struct(">h")
_REQUEST = struct.Struct(">hhih")
_RESPONSE = struct.Struct(">ii")


class RequestHeader(NamedTuple):
    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    body: int  #: where the body begins, if the header is not flexible


def read_request_header(frame: Buffer) -> RequestHeader:
    """The part that all versions share. A flexible request has tagged fields at `body`: see `skip_tags`."""
    try:
        api_key, version, correlation_id, length = _REQUEST.unpack_from(frame, 0)
    except struct.error:
        raise Malformed("request is shorter than its header") from None
    if length < 0:
        return new_tuple(RequestHeader, (api_key, version, correlation_id, None, 10))
    end = 10 + length
    if end > len(frame):
        raise Malformed("client id runs past the end of its request")
    try:
        client_id = str(frame[10:end], "utf-8")
    except UnicodeDecodeError:
        raise Malformed("client id is not UTF-8") from None
    return new_tuple(RequestHeader, (api_key, version, correlation_id, client_id, end))


def skip_tags(buffer: Buffer, position: int) -> int:
    """Skip unknown tagged fields."""
    count, position = read_unsigned(buffer, position)
    if count > MAX_UNKNOWN_TAGS:
        raise Malformed(f"{count} unknown tagged fields")
    for _ in range(count):
        _, position = read_unsigned(buffer, position)
        size, position = read_unsigned(buffer, position)
        position += size
        if position > len(buffer):
            raise Malformed("tagged field runs past the end")
    return position


def write_count(out: bytearray, count: int, *, flexible: bool) -> None:
    """The length before an array or bytes."""
    if flexible:
        write_unsigned(out, count + 1)
    else:
        out += SIZE.pack(count)


def write_topic(out: bytearray, topic: str | bytes, *, flexible: bool) -> None:
    """A topic's name, or its id in versions that use ids."""
    if isinstance(topic, bytes):
        out += topic
        return
    name = topic.encode()
    if flexible:
        write_unsigned(out, len(name) + 1)
    else:
        out += _NAME_LENGTH.pack(len(name))
    out += name


def start_response(correlation_id: int, *, flexible: bool) -> bytearray:
    """A response with room for its size, which `finish_response` fills in."""
    out = bytearray(_RESPONSE.pack(0, correlation_id))
    if flexible:
        out.append(0)
    return out


def finish_response(out: bytearray, more: int = 0) -> bytearray:
    """Write the size: what is here, plus `more` bytes that are sent after it."""
    SIZE.pack_into(out, 0, len(out) - SIZE.size + more)
    return out


def encode_response(api: messages.Api, version: int, correlation_id: int, values: dict[str, object]) -> bytearray:
    flexible = version in api.response.flexible and api.key != API_VERSIONS_KEY
    out = start_response(correlation_id, flexible=flexible)
    api.response.encode(version, values, out)
    return finish_response(out)
