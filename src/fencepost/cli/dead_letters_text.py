"""What `fencepost dead-letters` prints: text for people, dictionaries for `--json`. Pure.

In JSON, bytes that are not UTF-8 are in base64, under a name that says so.
"""

import base64
from collections.abc import Sequence
from typing import Any

from fencepost.cli.tables import moment, table
from fencepost.client.faults import readable
from fencepost.dead_letters import letter as names
from fencepost.dead_letters.letter import Letter
from fencepost.dead_letters.reading import Group
from fencepost.dead_letters.replay import Outcome

VALUE_BYTES = 400


def groups(found: Sequence[Group]) -> list[str]:
    if not found:
        return ["no dead letters"]
    rows = [
        (group.count, group.reason or None, group.topic, group.pipeline, moment(group.first_ms), moment(group.last_ms))
        for group in found
    ]
    return table(("COUNT", "REASON", "TOPIC", "PIPELINE", "FIRST", "LAST"), rows)


def group_as_dict(group: Group) -> dict[str, Any]:
    return {
        "count": group.count,
        "reason": group.reason or None,
        "topic": group.topic,
        "pipeline": group.pipeline,
        "first": moment(group.first_ms),
        "last": moment(group.last_ms),
    }


def letter(found: Letter, *, is_full: bool) -> list[str]:
    said, limit = found.said, None if is_full else VALUE_BYTES
    lines = [f"{found.where} offset {found.offset}, {moment(found.time_ms)}"]
    reason = found.reason or "no dead letter of fencepost"
    lines.append(f"  {reason}: {said[names.ERROR]}" if said.get(names.ERROR) else f"  {reason}")
    if found.topic is not None:
        asked = f", partition {said[names.PARTITION]}" if names.PARTITION in said else ""
        lines.append(f"  for      {found.topic}{asked}")
    if names.SOURCE_TOPIC in said:
        place = f"{said[names.SOURCE_TOPIC]}-{said.get(names.SOURCE_PARTITION)} offset {said.get(names.SOURCE_OFFSET)}"
        lines.append(f"  from     {place}")
    if names.PIPELINE in said:
        batch = f", batch {said[names.BATCH]}" if names.BATCH in said else ""
        lines.append(f"  by       pipeline {said[names.PIPELINE]}{batch}")
    if (own_ms := found.number(names.TIMESTAMP)) is not None:
        lines.append(f"  time     {own_ms} ms")
    lines.append(f"  key      {readable(found.key, limit)}{_cut(found, names.KEY_SIZE)}")
    lines.append(f"  value    {readable(found.value, limit)}{_cut(found, names.VALUE_SIZE)}")
    lines += [f"  header   {name}: {readable(value, limit)}" for name, value in found.headers]
    if names.HEADERS_SIZE in said:
        lines.append(f"  headers  of {said[names.HEADERS_SIZE]} bytes were too large to be kept")
    return lines


def _cut(found: Letter, name: str) -> str:
    return f" (cut: it had {found.said[name]} bytes)" if name in found.said else ""


def letter_as_dict(found: Letter) -> dict[str, Any]:
    return {
        "topic": found.where.topic,
        "partition": found.where.partition,
        "offset": found.offset,
        "time": moment(found.time_ms),
        **{name.removeprefix(names.PREFIX): value for name, value in found.said.items() if name not in _NUMBERS},
        **{name.removeprefix(names.PREFIX): found.number(name) for name in _NUMBERS if name in found.said},
        **_bytes("record.key", found.key),
        **_bytes("record.value", found.value),
        "record.headers": [{"key": name, **_bytes("value", value)} for name, value in found.headers],
    }


#: Headers of ours that are numbers.
_NUMBERS = (
    names.PARTITION,
    names.TIMESTAMP,
    names.BATCH,
    names.SOURCE_PARTITION,
    names.SOURCE_OFFSET,
    *names.SIZES,
)


def _bytes(name: str, value: bytes | None) -> dict[str, str | None]:
    try:
        return {name: None if value is None else value.decode()}
    except UnicodeDecodeError:
        return {f"{name}.base64": base64.b64encode(value or b"").decode()}


def outcome(found: Outcome, *, is_done: bool) -> list[str]:
    lines = [
        f"{count} {'written' if is_done else 'would be written'} to {topic}"
        for topic, count in sorted(found.written.items())
    ] or ["nothing to write" if not is_done else "nothing was written"]
    if found.before:
        lines.append(f"{found.before} were replayed before; --again writes them once more")
    lines += [f"{count} cannot be written again: {why.value}" for why, count in found.left.most_common()]
    return lines


def outcome_as_dict(found: Outcome) -> dict[str, Any]:
    return {
        "written": dict(found.written),
        "replayedBefore": found.before,
        "left": {why.name.lower().replace("_", "-"): count for why, count in found.left.items()},
    }
