"""A record as one line of JSON, and back::

    {"topic": "t", "partition": 0, "offset": 7, "timestamp": 1794992400000, "key": "k", "value": null,
     "headers": [["trace", "abc"], ["trace", {"base64": "/w=="}]]}

Bytes that are UTF-8 are a string, others `{"base64": "…"}`, and null is null: so every key, value and header has
exactly one spelling, and comes back as it was. Headers keep their order, and may repeat. The view RAW adds
`"transaction": {"outcome": "aborted", "producer_id": 5, "producer_epoch": 0}`, and `"marker": "commit"` for a marker.
"""

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Any

from fencepost.errors import ConfigError
from fencepost.lines.reading import Outcome, Seen
from fencepost.wire.records import Headers

BASE64 = "base64"
#: Fields that a line may have, whoever wrote it.
FIELDS = frozenset({"topic", "partition", "offset", "timestamp", "key", "value", "headers", "transaction", "marker"})
INT32_MAX, INT64_MIN, INT64_MAX = 2**31 - 1, -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class Draft:
    """A record to be written, as far as its line says."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    topic: str | None = None
    partition: int | None = None
    timestamp: int | None = None


def to_line(seen: Seen) -> bytes:
    """Without the end of the line, which it does not contain."""
    return json.dumps(as_dict(seen), ensure_ascii=False).encode()


def as_dict(seen: Seen) -> dict[str, Any]:
    record = seen.record
    found: dict[str, Any] = {
        "topic": seen.where.topic,
        "partition": seen.where.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
    }
    if seen.marker is None:
        found["key"] = _spell(record.key)
        found["value"] = _spell(record.value)
        found["headers"] = [[name, _spell(value)] for name, value in record.headers]
    else:
        found["marker"] = str(seen.marker)
    if seen.outcome is not None and seen.outcome is not Outcome.NONE:
        found["transaction"] = {
            "outcome": str(seen.outcome),
            "producer_id": seen.producer_id,
            "producer_epoch": seen.producer_epoch,
        }
    return found


def from_line(line: bytes) -> Draft:
    """Raises ConfigError."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"it is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise ConfigError('it is no object like {"key": "k", "value": "v"}')
    if unknown := sorted(found.keys() - FIELDS):
        raise ConfigError(f"a record has no field {unknown[0]!r}; it has {', '.join(sorted(FIELDS))}")
    if "marker" in found:
        raise ConfigError("it is a transaction's marker, which only a coordinator writes: consume without raw")
    _refuse_undone(found.get("transaction"))
    return Draft(
        _read(found.get("key"), "key"),
        _read(found.get("value"), "value"),
        _headers(found.get("headers")),
        _topic(found.get("topic")),
        _number(found.get("partition"), "partition", 0, INT32_MAX),
        _number(found.get("timestamp"), "timestamp", INT64_MIN, INT64_MAX),
    )


def _refuse_undone(transaction: object) -> None:
    """A copy must not make visible what nobody was to see."""
    outcome = transaction.get("outcome") if isinstance(transaction, dict) else None
    if outcome in (Outcome.ABORTED, Outcome.OPEN):
        raise ConfigError(
            f"its transaction is {outcome}: consume with --isolation committed, or remove its field transaction"
        )


def _spell(data: bytes | None) -> str | dict[str, str] | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {BASE64: base64.b64encode(data).decode()}


def _read(found: object, name: str) -> bytes | None:
    match found:
        case None:
            return None
        case str():
            try:
                return found.encode()
            except UnicodeEncodeError:
                raise ConfigError(f"{name} has half a surrogate pair, which no UTF-8 can have") from None
        case {"base64": str(text), **more} if not more:
            try:
                return base64.b64decode(text, validate=True)
            except binascii.Error as error:
                raise ConfigError(f"{name} is not base64: {error}") from None
    raise ConfigError(f'{name} is a string, null or {{"base64": "…"}}')


def _headers(found: object) -> Headers:
    if found is None:
        return ()
    if not isinstance(found, list):
        raise ConfigError('headers are a list like [["name", "value"]]')
    headers = []
    for each in found:
        if not isinstance(each, list) or len(each) != 2 or not isinstance(each[0], str):
            raise ConfigError('a header is ["name", "value"]')
        _read(each[0], "a header's name")
        headers.append((each[0], _read(each[1], f"header {each[0]}")))
    return tuple(headers)


def _topic(found: object) -> str | None:
    if found is None or (isinstance(found, str) and found):
        return found or None
    raise ConfigError("topic is a name")


def _number(found: object, name: str, least: int, most: int) -> int | None:
    if found is None:
        return None
    if isinstance(found, int) and not isinstance(found, bool) and least <= found <= most:
        return found
    raise ConfigError(f"{name} is a number from {least} to {most}")
