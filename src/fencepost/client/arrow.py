"""Arrow arrays as bare buffers for the kernels, without copies where the types allow it."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped]

from fencepost.errors import WriteFailed

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

NO_BYTES: Bytes = np.empty(0, np.uint8)
NO_INTS: Ints = np.empty(0, np.int32)


class BytesColumn(NamedTuple):
    """A column of bytes or strings. Without offsets it is absent, and every row is null."""

    offsets: Ints
    data: Bytes
    bitmap: Bytes  #: empty when nothing is null
    first_bit: int

    @property
    def size(self) -> int:
        """Bytes of all values together."""
        return int(self.offsets[-1]) - int(self.offsets[0]) if self.offsets.size else 0


class ListColumn(NamedTuple):
    """Where each row's items begin among all items."""

    offsets: Ints
    bitmap: Bytes
    first_bit: int


ABSENT = BytesColumn(NO_INTS, NO_BYTES, NO_BYTES, 0)
NO_LISTS = ListColumn(NO_INTS, NO_BYTES, 0)


def bytes_column(name: str, array: Any) -> BytesColumn:
    """A column of bytes or text. Raises WriteFailed for other types."""
    kind = array.type
    if pa.types.is_null(kind):
        return ABSENT
    if not (pa.types.is_binary(kind) or pa.types.is_string(kind)):
        array = _to_binary(name, array)
    validity, offsets, data = array.buffers()
    first, count = array.offset, len(array)
    return BytesColumn(
        view(offsets, np.int32)[first : first + count + 1],
        view(data, np.uint8),
        view(validity, np.uint8) if array.null_count else NO_BYTES,
        first,
    )


def _to_binary(name: str, array: Any) -> Any:
    try:
        return array.cast(pa.binary())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise WriteFailed(f"column {name!r} must be binary or string, not {array.type}") from None


def header_columns(array: Any) -> tuple[ListColumn, BytesColumn, BytesColumn]:
    """A column of lists of `key`, `value`: the lists, and the two columns of all their items. Keys may be null."""
    kind = array.type
    if pa.types.is_null(kind):
        return NO_LISTS, ABSENT, ABSENT
    if not pa.types.is_list(kind) or not pa.types.is_struct(kind.value_type) or kind.value_type.num_fields != 2:
        raise WriteFailed(f"column 'headers' must be a list of structs of key and value, not {kind}")
    validity, offsets = array.buffers()[:2]
    starts = view(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    items = array.values.slice(int(starts[0]), int(starts[-1]) - int(starts[0]))
    keys, values = items.flatten()
    lists = ListColumn(starts - starts[0], view(validity, np.uint8) if array.null_count else NO_BYTES, array.offset)
    return lists, bytes_column("headers.key", keys), bytes_column("headers.value", values)


def times_ms(array: Any, default_ms: int, rows: int) -> Longs:
    """Milliseconds since 1970, from a column of timestamps or milliseconds; the default where it is null."""
    if array is None or pa.types.is_null(array.type):
        return np.full(rows, default_ms, np.int64)
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("ms", array.type.tz), safe=False)
    elif not pa.types.is_integer(array.type):
        raise WriteFailed(f"column 'timestamp' must be timestamps or milliseconds, not {array.type}")
    numbers: Longs = _numbers(array.cast(pa.int64()), default_ms, np.int64)
    return numbers


def wanted_partitions(array: Any) -> Ints:
    """The column `partition`, -1 where it is null; empty if all are."""
    if array is None or pa.types.is_null(array.type):
        return NO_INTS
    if not pa.types.is_integer(array.type):
        raise WriteFailed(f"column 'partition' must be a number, not {array.type}")
    numbers: Ints = _numbers(array.cast(pa.int32()), -1, np.int32)
    return numbers


def _numbers(array: Any, default: int, kind: type) -> Any:
    filled = array.fill_null(default) if array.null_count else array
    return np.ascontiguousarray(filled.to_numpy(zero_copy_only=False), kind)


def view(buffer: Any, kind: Any) -> Any:
    """A buffer of an Arrow array as items of this type; empty for one that is absent."""
    if buffer is None or not buffer.size:
        return np.empty(0, kind)
    return np.frombuffer(buffer, kind, count=buffer.size // np.dtype(kind).itemsize)
