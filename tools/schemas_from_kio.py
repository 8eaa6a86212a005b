"""Make the tables `src/fencepost/wire/schemas/NN_name.txt` from kio, which is generated from Kafka's own schemas.

    python -m tools.schemas_from_kio               what differs from the committed tables (exit code 1 if anything does)
    python -m tools.schemas_from_kio --write       write them
    python -m tools.schemas_from_kio --print 26    one table on standard output

kio has one dataclass per struct and version. A table has each field once, with the versions that have it, so the
classes of all versions are merged: a field's place is behind the neighbour that it follows in the newest version that
has it, and the tool stops where two versions would disagree on a type, a tag or the order. `fencepost.wire.messages`
explains the format.

The tables of coordinator records (`transaction_log_value.txt`, …) are not in kio; they are kept by hand and checked
against the schemas in Kafka's jars by `make compat`.
"""

import argparse
import dataclasses
import datetime
import importlib
import pkgutil
import sys
import types
import typing
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kio.schema.index import api_key_map
from kio.serial._introspect import EntityField, EntityTupleField, PrimitiveField, PrimitiveTupleField, classify_field

TABLES = Path(__file__).parents[1] / "src" / "fencepost" / "wire" / "schemas"

#: The APIs that have a table. A new one starts here.
API_KEYS = (
    *(0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31),
    *(32, 33, 34, 35, 36, 37, 42, 43, 44, 45, 46, 47, 48, 50, 51, 55, 57, 60, 61, 65, 66, 69, 74, 75),
)

#: kio gives some integers richer Python types. On the wire and in the tables they are integers.
WIRE_TYPES = {"error_code": "int16", "timedelta_i32": "int32", "timedelta_i64": "int64", "datetime_i64": "int64"}

StructByVersion = dict[int, type[Any]]
KioField = dataclasses.Field[Any]


class Disagreement(Exception):
    """Two versions of one message cannot be put into one table."""


#: Tagged fields that our broker adds to a message for our own client: the end of the table, by API.
OURS = {65: ("    client_id string tag:10000", "    client_host string tag:10001")}


def table(key: int) -> tuple[str, str]:
    """The file name and the text of one API's table."""
    name = api_key_map[key]
    package = importlib.import_module(f"kio.schema.{name}")
    versions = sorted(int(module.name.removeprefix("v")) for module in pkgutil.iter_modules(package.__path__))
    lines: list[str] = []
    for kind in ("request", "response"):
        class_name = "".join(part.capitalize() for part in name.split("_")) + kind.capitalize()
        structs = {
            version: getattr(importlib.import_module(f"kio.schema.{name}.v{version}.{kind}"), class_name)
            for version in versions
        }
        flexible = [version for version in versions if structs[version].__flexible__]
        head = f"{kind} {key} v{versions[0]}-{versions[-1]}"
        lines.append(f"{head} flexible:v{flexible[0]}+" if flexible else head)
        lines += merged(structs, versions, indent=1)
    return f"{key:02d}_{name}.txt", "\n".join([*lines, *OURS.get(key, ())]) + "\n"


def merged(structs: StructByVersion, parent_versions: Sequence[int], indent: int) -> Iterator[str]:
    """The lines of one struct: every field that some version has, those of nested structs indented below."""
    for name in field_order(structs):
        fields = {
            version: each
            for version, struct in structs.items()
            for each in dataclasses.fields(struct)
            if table_name(each) == name
        }
        yield "  " * indent + " ".join(field_words(name, fields, parent_versions))
        nested = {version: classify_field(each) for version, each in fields.items()}
        if all(isinstance(each, EntityField | EntityTupleField) for each in nested.values()):
            inner = {version: each.type_ for version, each in nested.items()}
            yield from merged(inner, sorted(fields), indent + 1)


def field_order(structs: StructByVersion) -> list[str]:
    order: list[str] = []
    for version in sorted(structs, reverse=True):
        names = [table_name(each) for each in dataclasses.fields(structs[version])]
        for index, name in enumerate(names):
            if name not in order:
                before = [other for other in names[:index] if other in order]
                order.insert(order.index(before[-1]) + 1 if before else 0, name)
    for version, struct in structs.items():  # tagged fields lie at the end whatever their place here
        untagged = [table_name(each) for each in dataclasses.fields(struct) if "tag" not in each.metadata]
        if [name for name in order if name in untagged] != untagged:
            raise Disagreement(f"{struct.__name__} v{version} has its fields in another order than later versions")
    return order


def field_words(name: str, fields: dict[int, KioField], parent_versions: Sequence[int]) -> Iterator[str]:
    newest = fields[max(fields)]
    yield name
    yield only(name, {wire_type(each) for each in fields.values()})
    if limits := version_range(sorted(fields), parent_versions):
        yield limits
    if nullable := sorted(version for version, each in fields.items() if is_nullable(each)):
        limits = version_range(nullable, sorted(fields))
        yield f"null:{limits}" if limits else "null"
    tag = only(name, {each.metadata.get("tag") for each in fields.values()})
    if tag is not None:
        yield f"tag:{tag}"
    if default := default_word(newest):
        yield f"={default}"


def only(name: str, values: set[Any]) -> Any:
    if len(values) != 1:
        raise Disagreement(f"versions disagree on {name}: {values}")
    return values.pop()


def version_range(versions: Sequence[int], around: Sequence[int]) -> str | None:
    """`v2+`, `v2-5` or `v2`; None when it is the whole range around it."""
    first, last = versions[0], versions[-1]
    if list(versions) != list(range(first, last + 1)):
        raise Disagreement(f"versions {versions} have a hole")
    if last == around[-1]:
        return None if first == around[0] else f"v{first}+"
    return f"v{first}" if first == last else f"v{first}-{last}"


def table_name(each: KioField) -> str:
    """kio drops the unit from durations and times because their type has it; in a table it is back."""
    is_time = str(each.metadata.get("kafka_type", "")).startswith(("timedelta", "datetime"))
    return f"{each.name}_ms" if is_time and not each.name.endswith("_ms") else each.name


def wire_type(each: KioField) -> str:
    kafka_type = str(each.metadata.get("kafka_type"))
    match classify_field(each):
        case PrimitiveField():
            return WIRE_TYPES.get(kafka_type, kafka_type)
        case PrimitiveTupleField():
            return "[]" + WIRE_TYPES.get(kafka_type, kafka_type)
        case EntityTupleField():
            return "[]"
        case _:
            return "{}"


def is_nullable(each: KioField) -> bool:
    """kio says None for a zero uuid and for the time -1 too, which on the wire are values like others."""
    if each.metadata.get("kafka_type") in ("uuid", "datetime_i64"):
        return False
    return typing.get_origin(each.type) in (types.UnionType, typing.Union)


def default_word(each: KioField) -> str | None:
    """What stands after `=`; None for zero and empty, which go without saying."""
    match each.default:
        case dataclasses.MISSING | tuple() | "" | False:
            return None
        case None:
            return {"uuid": None, "datetime_i64": "-1"}.get(str(each.metadata.get("kafka_type")), "null")
        case True:
            return "true"
        case datetime.timedelta() as delta:
            return number(delta // datetime.timedelta(milliseconds=1))
        case datetime.datetime() as moment:
            return number(round(moment.timestamp() * 1000))
        case int() as value:
            return number(value)
        case str() as text:
            return text
        case value if dataclasses.is_dataclass(value):
            return None
        case value:
            raise Disagreement(f"{each.name} has a default that a table cannot say: {value!r}")


def number(value: int) -> str | None:
    return str(int(value)) if value else None


def main() -> int:
    parser = argparse.ArgumentParser(
        description=str(__doc__).split("\n\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter
    )
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--write", action="store_true", help="write the tables")
    action.add_argument("--print", type=int, metavar="KEY", dest="shown", help="print the table of one API key")
    options = parser.parse_args()
    if options.shown is not None:
        sys.stdout.write(table(options.shown)[1])
        return 0
    different = 0
    for key in API_KEYS:
        file_name, text = table(key)
        path = TABLES / file_name
        if not path.exists() or path.read_text() != text:
            different += 1
            print(f"{file_name} {'written' if options.write else 'differs'}")
            if options.write:
                path.write_text(text)
    return 1 if different and not options.write else 0


if __name__ == "__main__":
    sys.exit(main())
