"""Values as kio has them and as the tables have them, turned into each other.

kio is generated from Kafka's schemas and shares no code with this project, so what both say is what Kafka says.
"""

import dataclasses
import datetime
import importlib
import io
import itertools
import uuid
from typing import Any

from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from fencepost.wire.messages import Api, Message
from tests.unit.wire.strategies import PRIMITIVES
from tools.schemas_from_kio import table_name

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MILLISECOND = datetime.timedelta(milliseconds=1)
NULL_UUID = bytes(16)

ERROR_CODES = st.sampled_from([int(code) for code in ErrorCode])
#: kio knows error codes by name only, holds durations as timedelta and times as datetime of whole seconds.
LEAVES: dict[str, st.SearchStrategy[Any]] = {
    **PRIMITIVES,
    "error_code": ERROR_CODES,
    "partition_error_code": ERROR_CODES,
    "*_ms int64": st.integers(0, 2**32).map(lambda seconds: seconds * 1000),
}


def entity_class(api: Api, version: int, kind: str) -> Any:
    module = importlib.import_module(f"kio.schema.{api.name}.v{version}.{kind}")
    return getattr(module, "".join(part.capitalize() for part in api.name.split("_")) + kind.capitalize())


def encode(entity: Any) -> bytes:
    out = io.BytesIO()
    entity_writer(type(entity))(out, entity)
    return out.getvalue()


def decode(kind: Any, data: bytes) -> Any:
    entity, position = entity_reader(kind)(data, 0)
    assert position == len(data), "kio left bytes unread"
    return entity


def to_kio(kind: Any, values: dict[str, Any]) -> Any:
    """An entity of class `kind` that says what `values` say."""
    return kind(**{each.name: _to_kio(each, values[table_name(each)]) for each in dataclasses.fields(kind)})


def from_kio(entity: Any) -> dict[str, Any]:
    return {table_name(each): _from_kio(each, getattr(entity, each.name)) for each in dataclasses.fields(entity)}


def plain(value: Any, like: Any) -> Any:
    """A decoded message as nested dicts and lists, with the fields that `like` has."""
    if isinstance(value, Message) and isinstance(like, dict):
        return {name: plain(getattr(value, name), like[name]) for name in like}
    if isinstance(value, list | tuple) and isinstance(like, list):
        return [plain(item, other) for item, other in itertools.zip_longest(value, like)]
    return bytes(value) if isinstance(value, memoryview | bytearray) else value


def _to_kio(each: "dataclasses.Field[Any]", value: Any) -> Any:
    if isinstance(value, dict):
        return to_kio(_struct_class(each.type), value)
    if isinstance(value, list):
        return tuple(_to_kio(each, item) for item in value)
    match each.metadata.get("kafka_type"):
        case "uuid":
            return None if value == NULL_UUID else uuid.UUID(bytes=value)
        case "error_code":
            return ErrorCode(value)
        case "timedelta_i32" | "timedelta_i64":
            return value * MILLISECOND
        case "datetime_i64":
            return None if value == -1 else EPOCH + value * MILLISECOND
        case _:
            return value


def _from_kio(each: "dataclasses.Field[Any]", value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return from_kio(value)
    if isinstance(value, tuple):
        return [_from_kio(each, item) for item in value]
    match each.metadata.get("kafka_type"):
        case "uuid":
            return NULL_UUID if value is None else value.bytes
        case "error_code":
            return int(value)
        case "timedelta_i32" | "timedelta_i64":
            return value // MILLISECOND
        case "datetime_i64":
            return -1 if value is None else (value - EPOCH) // MILLISECOND
        case _:
            return value


def _struct_class(annotation: Any) -> Any:
    """The dataclass inside `X`, `X | None`, `tuple[X, ...]` and `tuple[X, ...] | None`."""
    if dataclasses.is_dataclass(annotation):
        return annotation
    return next(filter(None, map(_struct_class, getattr(annotation, "__args__", ()))), None)
