"""Kafka's messages: every request, response and coordinator record of every version, from the tables in `schemas/`.

A table lists each field once, with the versions that have it::

    response 26 v0-5 flexible:v3+
      throttle_time_ms int32
      error_code int16
      producer_id int64 v5+ =-1

`[]` is an array, `{}` a struct of the indented fields below. `null` (or `null:v1+`) may be null. `tag:0` is a tagged
field. `=x` is the default; without it, zero or empty. Names are Kafka's in snake case, with the unit at the end.

So handlers never ask which version they serve. Decoding returns a `Message`; fields that the version lacks have their
defaults. Encoding takes a dict (or a Message), omits fields that the version lacks, and refuses a name that is in no
version.
"""

import functools
import importlib.resources
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fencepost.errors import InvariantBroken
from fencepost.wire.codec import (
    ALWAYS,
    MAX_REQUEST_ITEMS,
    NEVER,
    NULL_UUID,
    UNLIMITED,
    Buffer,
    Field,
    Message,
    Schema,
    Versions,
)

__all__ = ["NULL_UUID", "Api", "Buffer", "Message", "Schema", "api", "api_names", "data", "parse_table"]

#: A field's value if the table gives no default.
_ZERO: dict[str, Any] = {
    "bool": False, "int8": 0, "int16": 0, "uint16": 0, "int32": 0, "int64": 0, "float64": 0.0,
    "uuid": NULL_UUID, "string": "", "bytes": b"", "records": None, "struct": None,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Api:
    """The request and response of one API key."""

    key: int
    name: str
    request: Schema
    response: Schema


@functools.cache
def api(key: int) -> Api:
    """The schemas of one API; KeyError for a key that has no table."""
    name = api_names()[key]
    request, response = _load(f"{key:02d}_{name}.txt", name)
    return Api(key, name, request, response)


@functools.cache
def api_names() -> dict[int, str]:
    """Key to name (`end_txn`) of every API that has a table."""
    folder = importlib.resources.files("fencepost.wire") / "schemas"
    found = (re.fullmatch(r"(\d+)_(\w+)\.txt", entry.name) for entry in folder.iterdir())
    return {int(match[1]): match[2] for match in sorted(filter(None, found), key=lambda match: int(match[1]))}


@functools.cache
def data(name: str) -> Schema:
    """The schema of a record that a coordinator logs, for instance `transaction_log_value`."""
    (schema,) = _load(f"{name}.txt", name)
    return schema


def _load(file_name: str, name: str) -> list[Schema]:
    text = (importlib.resources.files("fencepost.wire") / "schemas" / file_name).read_text()
    return list(parse_table(text, name))


def parse_table(text: str, name: str) -> Iterator[Schema]:
    camel = "".join(part.capitalize() for part in name.split("_"))
    blocks = re.split(r"(?m)^(?=\S)", text)
    for block in filter(None, blocks):
        head, *lines = block.rstrip().split("\n")
        kind, *words = head.split()
        options = {word.partition(":")[0]: word.partition(":")[2] for word in words if ":" in word}
        versions = next(_parse_versions(word) for word in words if re.fullmatch(r"v\d+-\d+", word))
        flexible = _parse_versions(options["flexible"]) if "flexible" in options else NEVER
        title = camel if kind == "data" else camel + kind.capitalize()
        fields, message = _parse_fields(title, lines, indent=1)
        limit = MAX_REQUEST_ITEMS if kind == "request" else UNLIMITED
        yield Schema(title, versions, flexible, fields, message, limit)


def _parse_fields(title: str, lines: list[str], indent: int) -> tuple[list[Field], type[Message]]:
    fields: list[Field] = []
    position = 0
    while position < len(lines):
        spec = _parse_field(lines[position].split())
        position += 1
        below = position
        while below < len(lines) and lines[below].startswith("  " * (indent + 1)):
            below += 1
        if spec.kind == "struct":
            spec.children, spec.message = _parse_fields(spec.name, lines[position:below], indent + 1)
            if not spec.is_array and spec.nullable is NEVER:
                spec.default = spec.message()
        position = below
        fields.append(spec)
    defaults = {f.name: f.default for f in fields}
    return fields, type(title, (Message,), defaults)


def _parse_field(words: list[str]) -> Field:
    name, kind, *rest = words
    spec = Field(name, kind=kind.removeprefix("[]") or "struct", is_array=kind.startswith("[]"))
    if kind == "{}":
        spec.kind = "struct"
    default: str | None = None
    for word in rest:
        if word.startswith("v"):
            spec.versions = _parse_versions(word)
        elif word.startswith("null"):
            spec.nullable = _parse_versions(word[5:]) if ":" in word else ALWAYS
        elif word.startswith("tag:"):
            spec.tag = int(word[4:])
        elif word.startswith("="):
            default = word[1:]
        else:
            raise InvariantBroken(f"field {name}: cannot read {word!r}")
    spec.default = () if spec.is_array else _ZERO[spec.kind]
    if default is not None:
        spec.default = _parse_default(spec.kind, default)
    return spec


def _parse_default(kind: str, word: str) -> Any:
    if word == "null":
        return None
    if kind == "bool":
        return word == "true"
    return word if kind == "string" else int(word)


def _parse_versions(word: str) -> Versions:
    match = re.fullmatch(r"v(\d+)(?:-(\d+)|(\+))?", word)
    if match is None:
        raise InvariantBroken(f"cannot read versions {word!r}")
    first = int(match[1])
    if match[3]:
        return Versions(first, ALWAYS.last)
    return Versions(first, int(match[2]) if match[2] else first)
