"""Finds the rows that cannot be written, a column at a time, and says of a row which one it is.

Owns what the encoder checks of a row before it becomes bytes. Invariant: rows without a fault cost a look at null
counts and minima, never a loop in Python. Only rows with a fault are looked at one by one.

The last check, a record that is too large for its topic, needs the finished bytes: it is the encoder's.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped]

from fencepost.client.arrow import Ints, Longs
from fencepost.client.faults import Fault, Reason, readable
from fencepost.errors import TopicNotFound, WriteFailed

if TYPE_CHECKING:
    from fencepost.client.encode import Blob

Mask = npt.NDArray[np.bool_]
#: Makes a row's fault from its position.
Explain = Callable[[int], Fault]
#: What becomes of rows with faults: blobs that are written in their place. Or it raises.
OnFault = Callable[[Any, Sequence[Fault]], "list[Blob]"]

#: The column by which a query says of a row what is wrong with it.
ERROR = "error"
#: The column by which a query says where a row is from: a struct of topic, partition and offset.
SOURCE = "source"
#: The column by which the source says of a record why it cannot be read.
CORRUPT = "_corrupt_record"
#: The column of the bytes that a row was made of: a struct of key and value. They are those of its dead letter.
RAW = "raw"
#: The column of what is wrong with a row's key or value, from the conversion to bytes.
UNWRITABLE = "__unwritable"
#: The columns of text that make a row with a text a fault, in the order in which they count.
SAID = {CORRUPT: Reason.CORRUPT, ERROR: Reason.QUERY, UNWRITABLE: Reason.FORMAT}
#: In the array of topics: none, or one that does not exist.
NO_TOPIC = -1
WAY_ON = "To go on without such rows, give the sink the option deadLetters: a topic that they are written to instead"
WHERE_FROM = "Keep struct(topic, partition, offset) AS source in the query to see which record it is from. "


class RowFaults:
    """The faults of one batch of rows, by row. The first that is added for a row counts."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.found: dict[int, Fault] = {}

    def add(self, mask: Mask, explain: Explain) -> None:
        for row in np.flatnonzero(mask).tolist():
            if row not in self.found:
                self.found[row] = explain(row)

    @property
    def rows(self) -> list[int]:
        return sorted(self.found)

    @property
    def good(self) -> Mask:
        mask = np.ones(self._count, np.bool_)
        mask[self.rows] = False
        return mask


def said(column: Any) -> Mask | None:
    """The rows for which a column of `SAID` has a text. A column of another type than text is not ours."""
    if column is None or not _is_text(column.type) or column.null_count == len(column):
        return None
    return _as_mask(column.is_valid())


def null_headers(column: Any) -> Mask | None:
    """The rows with a header that is null, or whose key is."""
    if column is None or not pa.types.is_list(column.type):
        return None
    items = column.flatten()  # without what null lists hide
    keys = items.flatten()[0]
    if not keys.null_count:
        return None
    before = np.concatenate([[0], np.cumsum(_as_mask(keys.is_null()))])
    sizes = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    ends = np.cumsum(sizes)
    return np.asarray(before[ends] > before[ends - sizes])


def wrong_partitions(wanted: Ints, column: Any, counts: Ints, topics: Ints) -> Mask | None:
    """The rows that ask for a partition that their topic does not have. `wanted` is -1 where the column is null."""
    if not wanted.size:
        return None
    all_below = int(wanted.max()) < int(counts.min())
    if all_below and (int(wanted.min()) >= 0 or int((wanted < 0).sum()) == column.null_count):
        return None
    beyond = wanted >= (counts[topics] if topics.size else counts[0])
    mask = np.asarray(beyond | ((wanted < 0) & _as_mask(column.is_valid())))
    return mask if mask.any() else None


def missing_keys(column: Any, needs_key: Mask, topics: Ints) -> Mask | None:
    """The rows without a key for a topic that needs one."""
    if not needs_key.any() or (column is not None and not column.null_count):
        return None
    needed = needs_key[topics] if topics.size else needs_key[0]
    missing = True if column is None else _as_mask(column.is_null())
    mask = np.asarray(needed & missing)
    return mask if mask.any() else None


def wrong_times(times: Longs, first_ms: Longs, last_ms: Longs, topics: Ints) -> Mask | None:
    """The rows whose time is not between the first and the last that their topic takes. -1 is no time at all."""
    if int(times.max()) <= int(last_ms.min()) and int(times.min()) >= int(first_ms.max()):
        return None
    first, last = (first_ms[topics], last_ms[topics]) if topics.size else (first_ms[0], last_ms[0])
    mask = np.asarray((times != -1) & ((times < first) | (times > last)))
    return mask if mask.any() else None


def refuse(rows: Any, faults: Sequence[Fault], way_on: str = WAY_ON) -> NoReturn:
    """What becomes of rows with faults unless somebody takes them: an error about the first of them."""
    first = faults[0]
    row = describe(rows, 0)
    more = f"; {len(faults) - 1} more near it cannot be written either" if len(faults) > 1 else ""
    hint = "" if row.startswith("from ") else WHERE_FROM
    where = f" to topic {readable(first.topic)}" if first.topic is not None else ""
    error = TopicNotFound if first.reason is Reason.UNKNOWN_TOPIC else WriteFailed
    raise error(f"a row cannot be written{where}: {first.text}. It is the row {row}{more}. {hint}{way_on}")


def describe(rows: Any, row: int) -> str:
    """Which row it is: where it is from, its key, and how its value begins."""
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    parts = [f"with key {_shown(columns, 'key', row)} and value {_shown(columns, 'value', row)}"]
    if source := source_of(columns, row):
        parts.insert(0, "from {topic}-{partition} offset {offset},".format(**source))
    return " ".join(parts)


def source_of(columns: Mapping[str, Any], row: int) -> dict[str, Any] | None:
    """Where a row is from, if the query kept it."""
    column = columns.get(SOURCE)
    if column is None or not pa.types.is_struct(column.type):
        return None
    found: dict[str, Any] | None = column[row].as_py()
    names = {"topic", "partition", "offset"}
    return found if found is not None and found.keys() == names and None not in found.values() else None


def time_text(time_ms: int) -> str:
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError):
        return f"{time_ms} ms"


def _shown(columns: Mapping[str, Any], name: str, row: int) -> str:
    return readable(columns[name][row].as_py()) if name in columns else "null"


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _as_mask(array: Any) -> Mask:
    mask: Mask = array.to_numpy(zero_copy_only=False)
    return mask
