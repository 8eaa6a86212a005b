"""JSON to Arrow: what Spark's `from_json(CAST(value AS STRING), schema)` reads, a column at a time.

A kernel walks every document once, and finds where the wanted values lie; others turn those into columns
(`json_columns`). A document in which anything is rare or wrong is read again by `json_documents`, whose result replaces
the row, or says what is wrong.

Invariant: the result never depends on which of the two has read a document. `json_documents` is the meaning, the
kernels are quick.

On purpose, text after the value and bytes that are not UTF-8 are faults here, and a fault makes the whole value null:
Spark ignores the first, replaces the second by U+FFFD, and keeps the other fields. docs/formats.md has all differences.
"""

import re
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from fencepost.formats.format import Converted
from fencepost.formats.json_columns import Column, Documents, Spans, column, walk
from fencepost.formats.json_documents import document_reader
from fencepost.formats.json_tokens import DEPTH_MAX, BadDocument
from fencepost.formats.json_types import build, check, width

#: Rows that are decoded together: what they need beside their values stays in the processor's cache.
CHUNK_ROWS = 32_768
#: Bounds the memory for spans, if there are thousands of fields: rows times fields.
CHUNK_CELLS = 4_000_000
_OTHER_ESCAPE = re.compile(rb"\\'")


class JsonDecoder:
    def __init__(self, wanted: Any, *, strict: bool = False) -> None:
        """Raises ConfigError for a type that JSON cannot give."""
        check(wanted)
        self._wanted = wanted
        self._strict = strict
        self._column: Column = column(wanted, strict=strict)
        self._read = document_reader(wanted, strict=strict)
        self._by_fields = pa.types.is_struct(wanted)
        self._rows = max(1, min(CHUNK_ROWS, CHUNK_CELLS // max(1, width(wanted))))

    def decode(self, documents: Any) -> Converted:
        """From an array of `pa.binary()`."""
        faults: dict[int, str] = {}
        pieces = [
            self._piece(documents.slice(first, self._rows), first, faults)
            for first in range(0, len(documents), self._rows)
        ]
        if len(pieces) == 1:
            return Converted(pieces[0], faults)
        return Converted(pa.concat_arrays(pieces) if pieces else pa.array([], self._wanted), faults)

    def _piece(self, piece: Any, first: int, faults: dict[int, str]) -> Any:
        rows = len(piece)
        _, offsets, data = piece.buffers()
        bounds = np.frombuffer(offsets, np.int32, rows + 1, 4 * piece.offset)
        kinds = np.full(rows, walk.DOCUMENT, np.uint8)
        if piece.null_count:
            kinds[piece.is_null().to_numpy(zero_copy_only=False)] = walk.ABSENT
        bytes_ = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
        batch = Documents(bytes_, np.zeros(rows, np.uint8), np.empty(DEPTH_MAX + 1, np.uint8))
        if self._strict:
            _leave_other_escapes(batch, bounds)
        spans = Spans(bounds[:-1], bounds[1:], kinds, np.zeros(rows, np.int32))
        if not self._by_fields:
            found = Spans.room_for(rows)
            walk.find_values(tuple(batch), tuple(spans), 1, tuple(found))
            spans = found
        values = self._column.convert(batch, spans, np.arange(rows, dtype=np.int32), 1)
        odd = np.flatnonzero(batch.odd)
        return self._replaced(values, piece, odd, first, faults) if odd.size else values

    def _replaced(self, values: Any, piece: Any, odd: Any, first: int, faults: dict[int, str]) -> Any:
        """The column with its odd rows read one by one."""
        read: list[Any] = []
        for row in odd.tolist():
            try:
                read.append(self._read(piece[row].as_py()))
            except BadDocument as bad:
                read.append(None)
                faults[first + row] = str(bad)
        chosen = np.arange(len(values), dtype=np.int64)
        chosen[odd] = np.arange(len(values), len(values) + odd.size)
        return pa.concat_arrays([values, build(self._wanted, read)]).take(pa.array(chosen))


def _leave_other_escapes(batch: Documents, bounds: Any) -> None:
    """The kernels read the escape \\', as Jackson does. It is not in the standard."""
    base = int(bounds[0])
    for match in _OTHER_ESCAPE.finditer(batch.data[base : int(bounds[-1])].data):
        batch.odd[int(np.searchsorted(bounds, base + match.start(), "right")) - 1] = 1


def decoder(wanted: Any, *, strict: bool = False) -> JsonDecoder:
    return JsonDecoder(wanted, strict=strict)
