"""`strict-json`: what Python's own json module calls JSON, and strings only for text; whichever path reads it."""

import json
import random

import pyarrow as pa
import pytest

from fencepost.formats.named import find
from tests.unit.shop.bad_purchases import BAD, ODD_BUT_GOOD

PURCHASE = pa.struct(
    [
        ("purchaseId", pa.int64()),
        ("userId", pa.int64()),
        ("userFullName", pa.string()),
        ("productId", pa.int64()),
        ("quantity", pa.int32()),
        ("totalPrice", pa.float64()),
    ]
)


def read(values: list[bytes | None], wanted: pa.DataType = PURCHASE):
    return find("strict-json").decoder(wanted).decode(pa.array(values, pa.binary()))


def test_good_purchases_are_read_as_pythons_json_reads_them():
    found = read([value for value in ODD_BUT_GOOD if value is not None])
    assert not found.faults
    for value, got in zip(ODD_BUT_GOOD, found.values.to_pylist(), strict=True):
        expected = json.loads(value)
        assert got == {name: expected.get(name) for name in got}


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (b"{'userFullName': 'x'}", "not JSON at byte 1"),
        (rb'{"userFullName": "\'"}', "not JSON at byte 18"),
        (rb'{"more": "\'"}', "not JSON at byte 10"),
        (b'{"userFullName": 5, "userFullName": "x"}', "field userFullName: 5 is not text"),
        (b'{"userFullName": 5}', "field userFullName: 5 is not text"),
        (b'{"userFullName": {"a": 1}}', "field userFullName: an object is not text"),
        (b'{"userFullName": true}', "field userFullName: true is not text"),
        (rb'{"userFullName": "\ud800"}', "half of a surrogate pair"),
        (b'{"totalPrice": NaN}', "NaN is no number"),
        (b'{"totalPrice": "NaN"}', ""),
        (b'{"quantity": 1} x', "not JSON at byte 16"),
        (b"{" * 100_000, "not JSON"),
        (b'{"a":' * 100_000, "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"userFullName": "\xff"}', "not UTF-8"),
    ],
)
def test_what_only_jackson_reads_is_a_fault(document: bytes, reason: str):
    good = b'{"userFullName": "Ada \\"\\u00e9\\ud83d\\ude00\\""}'
    found = read([good, document, good])
    if document == b'{"totalPrice": "NaN"}':
        assert not found.faults  # a number in quotes is Spark's way to write it, not a matter of JSON
        return
    assert [*found.faults] == [1]
    assert reason in found.faults[1]
    assert [value and value["userFullName"] for value in found.values.to_pylist()] == ['Ada "é😀"', None, 'Ada "é😀"']


def test_rows_do_not_depend_on_their_neighbours():
    values = [*ODD_BUT_GOOD, *BAD] * 3
    random.Random(7).shuffle(values)
    together = read(values)
    for row, value in enumerate(values):
        alone = read([value])
        assert repr(alone.values[0].as_py()) == repr(together.values[row].as_py())
        assert alone.faults.get(0) == together.faults.get(row)
