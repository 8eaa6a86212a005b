"""JSON documents to spans, as machine code: where each wanted value lies, and that all around it is JSON.

Import through `jit.load`. A span is where a value begins and ends in the bytes, what kind of value it is, and how many
items it has if it is an array or object. The span of a string is what is between its quotes. Every byte of a document
is looked at: what is not wanted is checked as strictly as what is.

Invariant: a kernel never decides that a document is bad. Whatever is not plain (single quotes, escapes in names, NaN,
anything that is no JSON) marks the row as odd, and `json_documents` reads that row again.
"""

from typing import Any

import numba
from numba import int32, int64, uint8, uint64

from fencepost.client import jit

#: Kinds of values. ABSENT has no value: the field is not there. A DOCUMENT is not looked at yet.
ABSENT, NULL, STRING, ESCAPED, INTEGER, FLOAT, TRUE, FALSE, OBJECT, ARRAY, DOCUMENT = range(11)

#: Limits of Jackson. Here they are bytes; `json_documents` counts as Jackson does.
DEPTH_MAX, NUMBER_MAX, NAME_MAX, STRING_MAX = 1000, 1000, 50_000, 20_000_000

_types: Any = numba.types
_u8 = _types.Array(uint8, 1, "C", readonly=True)
_i32 = _types.Array(int32, 1, "C", readonly=True)
#: begins, ends, kinds and sizes of values, one per row; and of fields, a line for each
_spans = _types.Tuple((_i32, _i32, _u8, _i32))
#: the bytes, 1 for each odd document, and room for a stack
_documents = _types.Tuple((_u8, uint8[::1], uint8[::1]))
_spans_out = _types.Tuple((int32[::1], int32[::1], uint8[::1], int32[::1]))
_lines_out = _types.Tuple((int32[:, ::1], int32[:, ::1], uint8[:, ::1], int32[:, ::1]))


@jit.helper
def _space(data: Any, at: Any, end: Any) -> Any:
    """The first position that is not white space."""
    while at < end:
        byte = data[at]
        if byte > 32 or (byte != 32 and byte != 10 and byte != 13 and byte != 9):
            break
        at += 1
    return at


@jit.helper
def _is_hex(byte: Any) -> Any:
    return 48 <= byte <= 57 or 97 <= (byte | 32) <= 102


@jit.helper
def _character(data: Any, at: Any, end: Any) -> Any:
    """The position after a character of several bytes, -1 if it is not UTF-8."""
    lead = data[at]
    size = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
    if lead < 0xC2 or lead > 0xF4 or end - at < size:
        return int64(-1)
    second = data[at + 1]
    if second & 0xC0 != 0x80:
        return int64(-1)
    if (lead == 0xE0 and second < 0xA0) or (lead == 0xED and second > 0x9F):  # too long; a surrogate
        return int64(-1)
    if (lead == 0xF0 and second < 0x90) or (lead == 0xF4 and second > 0x8F):  # too long; beyond Unicode
        return int64(-1)
    for index in range(2, size):
        if data[at + index] & 0xC0 != 0x80:
            return int64(-1)
    return at + size


@jit.helper
def _escape(data: Any, at: Any, end: Any) -> Any:
    """The position after an escape, -1 if there is no such escape."""
    if end - at < 2:
        return int64(-1)
    byte = data[at + 1]
    if byte == 117:  # u
        if end - at < 6:
            return int64(-1)
        for index in range(2, 6):
            if not _is_hex(data[at + index]):
                return int64(-1)
        return at + 6
    # " ' / \ b f n r t
    known = byte == 34 or byte == 39 or byte == 47 or byte == 92 or byte == 98 or byte == 102
    if known or byte == 110 or byte == 114 or byte == 116:
        return at + 2
    return int64(-1)


@jit.helper
def _string(data: Any, at: Any, end: Any) -> Any:
    """From after the opening quote: the position of the closing one (-1: not plain), and the kind."""
    kind = STRING
    while at < end:
        byte = data[at]
        if byte == 34:
            return at, kind
        if byte < 32:
            break
        if byte < 128:
            if byte != 92:
                at += 1
                continue
            kind = ESCAPED
            at = _escape(data, at, end)
        else:
            at = _character(data, at, end)
        if at < 0:
            break
    return int64(-1), kind


@jit.helper
def _digits(data: Any, at: Any, end: Any) -> Any:
    while at < end and 48 <= data[at] <= 57:
        at += 1
    return at


@jit.helper
def _number(data: Any, at: Any, end: Any) -> Any:
    """The position after a number (-1: it is none), and its kind."""
    start = at
    if data[at] == 45:
        at += 1
    first = at
    at = _digits(data, at, end)
    if at == first or (data[first] == 48 and at - first > 1):
        return int64(-1), INTEGER
    kind = INTEGER
    if at < end and data[at] == 46:
        kind = FLOAT
        first = at + 1
        at = _digits(data, first, end)
        if at == first:
            return int64(-1), kind
    if at < end and (data[at] | 32) == 101:
        kind = FLOAT
        first = at + 1
        if first < end and (data[first] == 43 or data[first] == 45):
            first += 1
        at = _digits(data, first, end)
        if at == first:
            return int64(-1), kind
    if at - start > NUMBER_MAX:
        return int64(-1), kind
    return at, kind


@jit.helper
def _word(data: Any, at: Any, end: Any) -> Any:
    """The position after true, false or null (-1: it is none), and the kind."""
    if end - at >= 4:
        if data[at] == 116 and data[at + 1] == 114 and data[at + 2] == 117 and data[at + 3] == 101:
            return at + 4, TRUE
        if data[at] == 110 and data[at + 1] == 117 and data[at + 2] == 108 and data[at + 3] == 108:
            return at + 4, NULL
    if end - at >= 5 and data[at] == 102 and data[at + 1] == 97 and data[at + 2] == 108 and data[at + 3] == 115:
        return (at + 5, FALSE) if data[at + 4] == 101 else (int64(-1), FALSE)
    return int64(-1), NULL


@jit.helper
def _scalar(data: Any, at: Any, end: Any) -> Any:
    """Begin and end of a value that is no array or object, the position after it (-1: not plain) and its kind."""
    byte = data[at]
    if byte == 34:
        close, kind = _string(data, at + 1, end)
        if close < 0 or close - at > STRING_MAX:
            return at, at, int64(-1), kind
        return at + 1, close, close + 1, kind
    if byte == 45 or 48 <= byte <= 57:
        after, kind = _number(data, at, end)
    else:
        after, kind = _word(data, at, end)
    return at, after, after, kind


@jit.helper
def _container(data: Any, at: Any, end: Any, depth: Any, stack: Any) -> Any:
    """The position after an array or object that is `depth` deep (-1: not plain), and how many items it has."""
    level, items, fresh = int64(0), int64(0), True
    stack[0] = data[at]
    at += 1
    if depth > DEPTH_MAX:
        return int64(-1), items
    while level >= 0:
        at = _space(data, at, end)
        if at >= end:
            return int64(-1), items
        byte, in_object = data[at], stack[level] == 123
        if byte == stack[level] + 2:  # } is { + 2, ] is [ + 2
            level -= 1
            fresh = False
            at += 1
            continue
        if not fresh:
            if byte != 44:
                return int64(-1), items
            at = _space(data, at + 1, end)
        if level == 0:
            items += 1
        if in_object:
            _, _, at = _name(data, at, end)
            if at < 0:
                return int64(-1), items
        if at >= end:
            return int64(-1), items
        byte = data[at]
        if byte == 123 or byte == 91:
            level += 1
            if depth + level > DEPTH_MAX:
                return int64(-1), items
            stack[level] = byte
            fresh = True
            at += 1
        else:
            _, _, at, _ = _scalar(data, at, end)
            if at < 0:
                return int64(-1), items
            fresh = False
    return at, items


@jit.helper
def _name(data: Any, at: Any, end: Any) -> Any:
    """End of a name, its kind, and the position of its value (-1: not plain)."""
    if at >= end or data[at] != 34:
        return at, STRING, int64(-1)
    close, kind = _string(data, at + 1, end)
    if close < 0 or close - at > NAME_MAX:
        return at, kind, int64(-1)
    at = _space(data, close + 1, end)
    if at >= end or data[at] != 58:
        return close, kind, int64(-1)
    at = _space(data, at + 1, end)
    return close, kind, at if at < end else int64(-1)


@jit.helper
def _value(data: Any, at: Any, end: Any, depth: Any, stack: Any) -> Any:
    """A whole value: begin, end, position after it (-1: not plain), kind and how many items it has."""
    byte = data[at]
    if byte == 123 or byte == 91:
        after, items = _container(data, at, end, depth, stack)
        return at, after, after, OBJECT if byte == 123 else ARRAY, items
    begin, close, after, kind = _scalar(data, at, end)
    return begin, close, after, kind, int64(0)


@jit.compiled(_types.void(_documents, _spans, int64, _spans_out))
def find_values(documents: Any, given: Any, depth: Any, found: Any) -> Any:
    """The one value of each document that is not null."""
    data, odd, stack = documents
    begins, ends, kinds, _ = given
    found_begins, found_ends, found_kinds, found_sizes = found
    for row in range(begins.size):
        if kinds[row] != DOCUMENT:
            continue
        end = int64(ends[row])
        at = _space(data, int64(begins[row]), end)
        odd[row] = 1
        if at >= end:
            continue
        begin, close, after, kind, size = _value(data, at, end, depth, stack)
        if after < 0 or _space(data, after, end) < end or kind == NULL:
            continue
        odd[row] = 0
        found_begins[row], found_ends[row] = int32(begin), int32(close)
        found_kinds[row], found_sizes[row] = uint8(kind), int32(size)


@jit.helper
def _same(data: Any, at: Any, names: Any, begin: Any, size: Any) -> Any:
    for index in range(size):  # noqa: SIM110 - numba compiles the loop
        if data[at + index] != names[begin + index]:
            return False
    return True


@jit.helper
def _hash(data: Any, at: Any, end: Any) -> Any:
    value = uint64(0xCBF29CE484222325)
    for index in range(at, end):
        value = (value ^ uint64(data[index])) * uint64(0x100000001B3)
    return int64((value ^ (value >> uint64(32))) & uint64(0x7FFFFFFF))


@jit.helper
def _fill(names: Any, starts: Any, table: Any) -> Any:
    """Give every name its place in the table of hashes, which has more places than there are names."""
    mask = table.size - 1
    for slot in range(table.size):
        table[slot] = -1
    for field in range(starts.size - 1):
        slot = _hash(names, int64(starts[field]), int64(starts[field + 1])) & mask
        while table[slot] >= 0:
            slot = (slot + 1) & mask
        table[slot] = int32(field)


@jit.helper
def _lookup(data: Any, at: Any, close: Any, names: Any, starts: Any, table: Any) -> Any:
    """The number of a field by its name, -1 if it is not wanted."""
    mask, size = table.size - 1, close - at
    slot = _hash(data, at, close) & mask
    while table[slot] >= 0:
        begin = int64(starts[table[slot]])
        if starts[table[slot] + 1] - begin == size and _same(data, at, names, begin, size):
            return int64(table[slot])
        slot = (slot + 1) & mask
    return int64(-1)


@jit.helper
def _object(data: Any, at: Any, end: Any, depth: Any, row: Any, wanted: Any, found: Any, stack: Any) -> Any:
    """The fields of one object: the position after it, -1 if it is not plain."""
    names, starts, table = wanted
    begins, ends, kinds, sizes = found
    guess, fresh = int64(0), True
    at += 1
    while True:
        at = _space(data, at, end)
        if at >= end:
            return int64(-1)
        if data[at] == 125:
            return at + 1
        if not fresh:
            if data[at] != 44:
                return int64(-1)
            at = _space(data, at + 1, end)
        fresh = False
        name = at + 1
        close, kind, at = _name(data, at, end)
        if at < 0 or kind == ESCAPED:
            return int64(-1)
        field = guess  # fields mostly come in the order of the schema
        size = close - name
        if not (
            field < starts.size - 1
            and int64(starts[field + 1]) - int64(starts[field]) == size
            and _same(data, name, names, int64(starts[field]), size)
        ):
            field = _lookup(data, name, close, names, starts, table)
        begin, value_end, at, value_kind, items = _value(data, at, end, depth + 1, stack)
        if at < 0:
            return int64(-1)
        if field >= 0:
            if kinds[field, row] != ABSENT:  # twice: the last counts, but both must be good
                return int64(-1)
            begins[field, row], ends[field, row] = int32(begin), int32(value_end)
            kinds[field, row], sizes[field, row] = uint8(value_kind), int32(items)
            guess = field + 1


_wanted = _types.Tuple((_u8, _i32, int32[::1]))


@jit.compiled(_types.void(_documents, _spans, _i32, int64, _wanted, _lines_out, uint8[::1]))
def find_fields(documents: Any, objects: Any, owners: Any, depth: Any, wanted: Any, found: Any, valid: Any) -> Any:
    """The wanted fields of each object. What is neither an object nor null makes its document odd.

    `wanted` is the names' bytes, where each begins, and room for a table of them. `owners` says which document a value
    is from. `depth` is how deep the objects are: 1 for documents.
    """
    data, odd, stack = documents
    begins, ends, kinds, _ = objects
    _fill(*wanted)
    for row in range(begins.size):
        owner, kind = owners[row], kinds[row]
        if kind <= NULL or odd[owner]:
            continue
        odd[owner] = 1
        at, end = int64(begins[row]), int64(ends[row])
        if kind == DOCUMENT:
            at = _space(data, at, end)
            if at >= end or data[at] != 123:
                continue
        elif kind != OBJECT:
            continue
        at = _object(data, at, end, depth, row, wanted, found, stack)
        if at < 0 or _space(data, at, end) < end:
            continue
        odd[owner] = 0
        valid[row] = 1


@jit.compiled(int64(_documents, _spans, _i32, int64, int64, int32[::1], _spans_out, _spans_out, int32[::1], uint8[::1]))
def find_items(
    documents: Any, lists: Any, owners: Any, depth: Any, kind: Any, offsets: Any, keys: Any, items: Any,
    item_owners: Any, valid: Any,
) -> Any:  # fmt: skip
    """The items of each ARRAY, or the names and values of each OBJECT, whichever `kind` is; returns how many.

    What is neither that nor null makes its document odd. `offsets` has a place more than there are rows.
    """
    data, odd, stack = documents
    begins, ends, kinds, _ = lists
    key_begins, key_ends, key_kinds, _ = keys
    item_begins, item_ends, item_kinds, item_sizes = items
    count = int64(0)
    for row in range(begins.size):
        owner = owners[row]
        offsets[row + 1] = int32(count)
        if kinds[row] <= NULL or odd[owner]:
            continue
        if kinds[row] != kind:
            odd[owner] = 1
            continue
        at, last = int64(begins[row]) + 1, int64(ends[row]) - 1  # it was checked before
        at = _space(data, at, last)
        while at < last:
            if kind == OBJECT:
                key_begins[count] = int32(at + 1)
                close, key_kind, at = _name(data, at, last)
                if at < 0:
                    odd[owner] = 1
                    break
                key_ends[count], key_kinds[count] = int32(close), uint8(key_kind)
            begin, close, at, item_kind, size = _value(data, at, last, depth + 1, stack)
            if at < 0:  # cannot be; but nothing may look beyond the buffer
                odd[owner] = 1
                break
            item_begins[count], item_ends[count] = int32(begin), int32(close)
            item_kinds[count], item_sizes[count] = uint8(item_kind), int32(size)
            item_owners[count] = owner
            count += 1
            at = _space(data, _space(data, at, last) + 1, last)  # beyond the comma
        offsets[row + 1] = int32(count)
        valid[row] = 1
    return count
