"""What stands before every request and response: a size, an API key, a version, a correlation id.

Two rules are easy to miss. A request's client id is never compact, not even in flexible versions. And the answer to
ApiVersions never has the flexible header, because the client that asks does not yet know what the broker speaks.
"""

import struct
from typing import NamedTuple

from fencepost.errors import Malformed
from fencepost.wire import messages
from fencepost.wire.messages import Buffer
from fencepost.wire.varint import read_unsigned, write_unsigned

SIZE = struct.Struct(">i")
API_VERSIONS_KEY = 18
#: No struct of Kafka's has more than a handful; passing over millions of empty ones would hold up everybody.
MAX_UNKNOWN_TAGS = 64

#: Makes a NamedTuple without the Python frame that its own constructor costs; for what is made with every request.
new_tuple = tuple.__new__

_NAME_LENGTH = struct.Struct(">h")
_REQUEST = struct.Struct(">hhih")
_RESPONSE = struct.Struct(">ii")


class RequestHeader(NamedTuple):
    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    body: int  #: where the body begins, in a version with the plain header


def read_request_header(frame: Buffer) -> RequestHeader:
    """The part that all versions share; a flexible request has tagged fields at `body`, see `skip_tags`."""
    try:
        api_key, version, correlation_id, length = _REQUEST.unpack_from(frame, 0)
    except struct.error:
        raise Malformed("a request shorter than its header") from None
    if length < 0:
        return new_tuple(RequestHeader, (api_key, version, correlation_id, None, 10))
    end = 10 + length
    if end > len(frame):
        raise Malformed("a client id runs past its request")
    try:
        client_id = str(frame[10:end], "utf-8")
    except UnicodeDecodeError:
        raise Malformed("a client id is not UTF-8") from None
    return new_tuple(RequestHeader, (api_key, version, correlation_id, client_id, end))


def skip_tags(buffer: Buffer, position: int) -> int:
    """Pass over tagged fields that nobody here knows."""
    count, position = read_unsigned(buffer, position)
    if count > MAX_UNKNOWN_TAGS:
        raise Malformed(f"{count} tagged fields that nobody knows")
    for _ in range(count):
        _, position = read_unsigned(buffer, position)
        size, position = read_unsigned(buffer, position)
        position += size
        if position > len(buffer):
            raise Malformed("a tagged field runs past the end")
    return position


def write_count(out: bytearray, count: int, *, flexible: bool) -> None:
    """The length before an array or bytes."""
    if flexible:
        write_unsigned(out, count + 1)
    else:
        out += SIZE.pack(count)


def write_topic(out: bytearray, topic: str | bytes, *, flexible: bool) -> None:
    """A topic's name, or its id where the version names topics so."""
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
