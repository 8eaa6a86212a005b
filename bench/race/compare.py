"""Tells two outputs apart: every record of one must be in the other as often, key, value and headers. Pure.

Of the header with the reason only its presence counts.
"""

from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from bench.race.expected import REASON

SHOWN_BYTES = 200


class OutputsDiffer(RuntimeError):
    """A system wrote something else than it should have: the race does not count."""


def same_records(what: str, expected: Any, found: Any) -> None:
    """Raises OutputsDiffer unless both tables have the same records, in whatever order."""
    if len(found) != len(expected):
        raise OutputsDiffer(f"{what}: {len(found):,} records instead of {len(expected):,}")
    names = [name for name in expected.column_names if name != "headers"]
    if "headers" in expected.column_names:
        wanted, got = _listed(expected), _listed(found)
        different = [(a, b) for a, b in zip(wanted, got, strict=True) if a != b]
        if different:
            raise OutputsDiffer(f"{what}: {_shown(different[0][1])} instead of {_shown(different[0][0])}")
        return
    wanted, got = _sorted(expected, names), _sorted(found, names)
    for name in names:
        if wanted.column(name).equals(got.column(name)):
            continue
        pairs = zip(wanted.to_pylist(), got.to_pylist(), strict=True)
        want, have = next((a, b) for a, b in pairs if a != b)
        raise OutputsDiffer(f"{what}: {_shown(have)} instead of {_shown(want)}")


def same_last_values(what: str, expected: dict[bytes, bytes], found: dict[bytes, bytes]) -> None:
    """Raises OutputsDiffer unless each key has the same last value."""
    if expected == found:
        return
    missing, surplus = expected.keys() - found.keys(), found.keys() - expected.keys()
    if missing or surplus:
        raise OutputsDiffer(f"{what}: {len(missing):,} keys are missing, {len(surplus):,} are too many")
    wrong = [key for key, value in expected.items() if found[key] != value]
    key = wrong[0]
    raise OutputsDiffer(
        f"{what}: {len(wrong):,} keys end differently, {_shown(key)} with {_shown(found[key])} "
        f"instead of {_shown(expected[key])}"
    )


def _sorted(table: Any, names: list[str]) -> Any:
    plain = pa.table({name: table.column(name).cast(pa.large_binary()) for name in names})
    return plain.sort_by([(name, "ascending") for name in names]).combine_chunks()


def _listed(table: Any) -> list[tuple[bytes, bytes, tuple[tuple[str, bytes], ...]]]:
    """Of the few records that have headers."""
    return sorted(
        (
            row["key"] or b"",
            b"null" if row["value"] is None else b"=" + row["value"],
            tuple(_told(header["key"], header["value"]) for header in row["headers"] or ()),
        )
        for row in table.to_pylist()
    )


def _told(name: str, value: bytes) -> tuple[str, bytes]:
    """Of a reason only whether there is one: a JSON library has words of its own."""
    return name, value if name != REASON else b"said" if value else b"not said"


def _shown(what: Any) -> str:
    text = repr(what)
    return text if len(text) <= SHOWN_BYTES else text[:SHOWN_BYTES] + "…"
