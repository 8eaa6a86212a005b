"""The tables in `wire/schemas` against the schemas that Kafka's jars carry, coordinator records included."""

import json
import re
import zipfile
from typing import Any

import pytest

from bench.harness import java
from fencepost.wire import messages
from fencepost.wire.codec import Field, Schema, Versions

COORDINATOR_RECORDS = {
    "transaction_log_key": "TransactionLogKey",
    "transaction_log_value": "TransactionLogValue",
    "offset_commit_key": "OffsetCommitKey",
    "offset_commit_value": "OffsetCommitValue",
    "group_metadata_key": "GroupMetadataKey",
    "group_metadata_value": "GroupMetadataValue",
}
#: Tagged fields from here on are this project's own; Kafka passes over them.
FIRST_OWN_TAG = 10_000


def kafka_schema(name: str) -> dict[str, Any]:
    for jar in java.kafka().library.glob("kafka-*.jar"):
        with zipfile.ZipFile(jar) as archive:
            try:
                text = archive.read(f"common/message/{name}.json").decode()
            except KeyError:
                continue
        return json.loads(re.sub(r"(?m)^\s*//.*$|(?<=[,\[{\s])//.*$", "", text))
    pytest.fail(f"no jar has {name}.json")


def versions(word: str) -> Versions:
    if word == "none":
        return Versions(0, -1)
    found = re.fullmatch(r"(\d+)(\+)?(?:-(\d+))?", word)
    assert found is not None, word
    return Versions(int(found[1]), 32767 if found[2] else int(found[3] or found[1]))


def same_name(ours: str, theirs: str) -> bool:
    """Ours have the unit at the end where Kafka's have it only in the description."""
    return ours.replace("_", "") in {theirs.lower(), theirs.lower() + "ms"}


def compare(path: str, ours: list[Field], theirs: list[dict[str, Any]], structs: dict[str, Any], version: int) -> None:
    """Both have the same fields in this version, in the same order; tagged ones by their tags."""
    mine = [field for field in ours if version in field.versions and (field.tag or 0) < FIRST_OWN_TAG]
    expected = [field for field in theirs if version in versions(field.get("versions") or field["taggedVersions"])]
    mine.sort(key=lambda field: -1 if field.tag is None else field.tag)
    expected.sort(key=lambda field: field.get("tag", -1))
    assert len(mine) == len(expected), f"{path}: {[f.name for f in mine]} and {[f['name'] for f in expected]}"
    for field, other in zip(mine, expected, strict=True):
        where = f"{path}.{field.name} v{version}"
        assert same_name(field.name, other["name"]), f"{where} is {other['name']} in Kafka"
        assert field.tag == other.get("tag"), where
        assert field.is_array == other["type"].startswith("[]"), where
        assert (version in field.nullable) == (version in versions(other.get("nullableVersions", "none"))), where
        kind = other["type"].removeprefix("[]")
        if kind[0].isupper():
            assert field.kind == "struct", where
            compare(where, field.children, other.get("fields") or structs[kind], structs, version)
        else:
            assert field.kind == kind, where
            check_default(where, field, other)


def check_default(where: str, field: Field, other: dict[str, Any]) -> None:
    if field.is_array or "default" not in other or field.kind == "uuid":
        return
    default = other["default"]
    if default == "null":
        assert field.default is None, where
    elif field.kind == "bool":
        assert field.default is (str(default).lower() == "true"), where
    elif field.kind == "string":
        assert field.default == default, where
    else:
        assert field.default == int(str(default), 0), where


def check(schema: Schema, theirs: dict[str, Any], each: range) -> None:
    structs = {struct["name"]: struct["fields"] for struct in theirs.get("commonStructs", [])}
    flexible = versions(theirs.get("flexibleVersions", "none"))
    for version in each:
        assert (version in schema.flexible) == (version in flexible), f"v{version}"
        compare(schema.name, schema.fields, theirs["fields"], structs, version)


@pytest.mark.parametrize("key", messages.api_names(), ids=lambda key: messages.api_names()[key])
@pytest.mark.parametrize("side", ["request", "response"])
def test_an_api_table_is_kafkas_schema(key, side):
    api = messages.api(key)
    name = "".join(part.capitalize() for part in api.name.split("_"))
    theirs = kafka_schema(f"{name}{side.capitalize()}")
    known = versions(theirs["validVersions"])
    schema = getattr(api, side)
    assert known.first == schema.versions.first
    assert known.last <= schema.versions.last, "kio may be newer than the jars, not older"
    check(schema, theirs, range(known.first, known.last + 1))


@pytest.mark.parametrize("name", COORDINATOR_RECORDS)
def test_the_table_of_a_coordinator_record_is_kafkas_schema(name):
    theirs = kafka_schema(COORDINATOR_RECORDS[name])
    schema = messages.data(name)
    if theirs["type"] == "coordinator-key":  # the version written before a key is its type
        assert theirs["apiKey"] in schema.versions
        compare(name, schema.fields, theirs["fields"], {}, 0)
    else:
        known = versions(theirs["validVersions"])
        assert schema.versions == known
        check(schema, theirs, range(known.first, known.last + 1))
