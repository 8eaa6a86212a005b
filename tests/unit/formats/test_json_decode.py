"""JSON to Arrow: what is read, what is refused and in which words, and that the quick path and the exact one agree."""

import datetime
import json
import math
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.errors import ConfigError
from fencepost.formats import json_decode, named
from fencepost.formats.json_documents import document_reader
from fencepost.formats.json_tokens import BadDocument
from fencepost.formats.json_types import build
from fencepost.shop.purchases import purchase_rows
from tests import json_corpus

PURCHASE = pa.struct(
    [
        ("purchaseId", pa.int64()), ("userId", pa.int64()), ("userFullName", pa.string()), ("productId", pa.int32()),
        ("quantity", pa.int32()), ("totalPrice", pa.float64()),
    ]
)  # fmt: skip
UTC = datetime.UTC


def decoded(wanted: Any, *documents: Any) -> Any:
    given = [text.encode() if isinstance(text, str) else text for text in documents]
    converted = json_decode.decoder(wanted).decode(pa.array(given, pa.binary()))
    converted.values.validate(full=True)
    assert converted.values.type == wanted
    assert all(converted.values[row].as_py() is None for row in converted.faults)
    return converted


def one(kind: Any, text: str) -> Any:
    """What a field of this type is, if this is written there."""
    converted = decoded(pa.struct([("a", kind)]), f'{{"a":{text}}}')
    assert converted.faults == {}
    return converted.values[0].as_py()["a"]


def check_both_ways(wanted: Any, documents: list[bytes]) -> None:
    """The kernels' result is that of reading each document alone."""
    converted = json_decode.decoder(wanted).decode(pa.array(documents, pa.binary()))
    converted.values.validate(full=True)
    read, values, faults = document_reader(wanted), [], {}
    for row, document in enumerate(documents):
        try:
            values.append(read(document))
        except BadDocument as bad:
            values.append(None)
            faults[row] = str(bad)
    assert dict(converted.faults) == faults
    assert json_corpus.rows(converted.values) == json_corpus.rows(build(wanted, values))


def test_purchases_are_read_as_they_were_written() -> None:
    documents = purchase_rows(1, 0, 2000).column("value").cast(pa.binary())
    converted = decoded(PURCHASE, *documents.to_pylist())
    assert converted.faults == {}
    assert converted.values.to_pylist() == [json.loads(document) for document in documents.to_pylist()]


def test_the_format_is_found_by_its_name() -> None:
    converted = named.find("json").decoder(pa.struct([("a", pa.int32())])).decode(pa.array([b'{"a":1}'], pa.binary()))
    assert converted.values.to_pylist() == [{"a": 1}]


def test_a_bad_record_is_null_with_a_reason_and_its_neighbours_are_read() -> None:
    converted = decoded(PURCHASE, '{"quantity":1}', '{"quantity":1.5}', None, '{"quantity":', '{"quantity":2}')
    assert [row and row["quantity"] for row in converted.values.to_pylist()] == [1, None, None, None, 2]
    assert converted.faults == {
        1: "field quantity: 1.5 is not a whole number",
        3: "not JSON at byte 12: expected a value, found the end",
    }


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (pa.bool_(), "true", True),
        (pa.int8(), "-128", -128),
        (pa.int8(), "200", -56),
        (pa.int64(), "9223372036854775807", 2**63 - 1),
        (pa.int64(), "-9223372036854775808", -(2**63)),
        (pa.float64(), "1e23", 1e23),
        (pa.float64(), "0.1234567890123456789", 0.1234567890123456789),
        (pa.float64(), "5e-324", 5e-324),
        (pa.float64(), "1e400", math.inf),
        (pa.float64(), '"-INF"', -math.inf),
        (pa.float32(), "0.1", 0.10000000149011612),
        (pa.float32(), "1.00000017881393432617187499", 1.0000001192092896),
        (pa.float32(), "1.00000017881393432617187501", 1.000000238418579),
        (pa.decimal128(5, 2), "1.005", Decimal("1.01")),
        (pa.decimal128(5, 2), "-999.994", Decimal("-999.99")),
        (pa.decimal128(5, 2), "12e1", Decimal("120.00")),
        (pa.decimal128(5, 2), '"1,2"', Decimal("12.00")),
        (pa.decimal128(38, 0), "9" * 38, Decimal("9" * 38)),
        (pa.decimal128(38, 0), "-" + "9" * 38, Decimal("-" + "9" * 38)),
        (pa.string(), '"a\\u00e9\\ud83d\\ude00\\n\\/"', "aé😀\n/"),
        (pa.string(), '"\\ud800x"', "?x"),
        (pa.string(), "'say \"hi\"'", 'say "hi"'),
        (pa.string(), "1.10", "1.1"),
        (pa.string(), "1e7", "1.0E7"),
        (pa.string(), "-0", "0"),
        (pa.string(), "NaN", '"NaN"'),
        (pa.string(), '{"a" : [1.50, "\\u0001", {}]}', '{"a":[1.5,"\\u0001",{}]}'),
        (pa.binary(), '"YWJj"', b"abc"),
        (pa.binary(), '"YQ==YWI="', b"aab"),
        (pa.binary(), '" YWJj\\n"', b"abc"),
        (pa.date32(), '"2024-02-29"', datetime.date(2024, 2, 29)),
        (pa.date32(), '"2024-2-9Tnoon"', datetime.date(2024, 2, 9)),
        (pa.date32(), '"123"', datetime.date(1970, 5, 4)),
        (pa.timestamp("us"), '"2024-01-01 1:2"', datetime.datetime(2024, 1, 1, 1, 2)),
        (pa.timestamp("us", "UTC"), '"2024-01-01T01:00:00+01:00"', datetime.datetime(2024, 1, 1, tzinfo=UTC)),
        (pa.timestamp("us", "UTC"), "1704067200", datetime.datetime(2024, 1, 1, tzinfo=UTC)),
        (pa.list_(pa.int32()), "[1,null, 3 ]", [1, None, 3]),
        (pa.map_(pa.string(), pa.int32()), '{"x":1,"x":2}', [("x", 1), ("x", 2)]),
        (pa.struct([("b", pa.struct([("c", pa.int32())]))]), '{"b":{"c":7}}', {"b": {"c": 7}}),
    ],
)
def test_a_value_means_what_it_means_to_spark(kind: Any, text: str, value: Any) -> None:
    assert one(kind, text) == value


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        (pa.int8(), "256", "field a: 256 does not fit into 8 bits"),
        (pa.int32(), '"1"', "field a: the text '1' is not a whole number"),
        (pa.int64(), "9223372036854775808", "field a: 9223372036854775808 does not fit into 64 bits"),
        (pa.bool_(), "1", "field a: 1 is not true or false"),
        (pa.float64(), '"1.5"', "field a: the text '1.5' is not a number"),
        (pa.float64(), '""', "field a: the text '' is not a number"),
        (pa.decimal128(5, 2), "999.995", "field a: 999.995 does not fit into DECIMAL(5,2)"),
        (pa.decimal128(5, 2), "1e99", "field a: 1e99 does not fit into DECIMAL(5,2)"),
        (pa.binary(), '"YQ"', "field a: the text 'YQ' is not Base64"),
        (pa.date32(), '"2023-02-29"', "field a: the text '2023-02-29' is not a date"),
        (pa.timestamp("us"), '"2023-02-28T00:00:00Z"',
         "field a: the text '2023-02-28T00:00:00Z' is not a timestamp without a time zone"),
        (pa.timestamp("us", "UTC"), '"now"', "field a: the text 'now' is not a timestamp"),
        (pa.list_(pa.int32()), "[1,[2]]", "field a[1]: an array is not a whole number"),
        (pa.struct([("b", pa.list_(pa.struct([("c", pa.bool_())])))]), '{"b":[{},{"c":0}]}',
         "field a.b[1].c: 0 is not true or false"),
        (pa.map_(pa.string(), pa.int32()), '{"x":{}}', "field a['x']: an object is not a whole number"),
        (pa.string(), '"a\tb"', "not JSON at byte 7: expected an escape for a control character, found '\\t'"),
        (pa.string(), '"é\\x"', "not JSON at byte 8: expected one of the escapes"),
        (pa.int32(), "1} x", "not JSON at byte 8: expected the end, found 'x'"),
        (pa.int32(), "1,}", "not JSON at byte 7: expected a name in quotes, found '}'"),
    ],
)  # fmt: skip
def test_a_fault_says_which_field_is_wrong_and_why(kind: Any, text: str, reason: str) -> None:
    assert decoded(pa.struct([("a", kind)]), f'{{"a":{text}}}').faults[0].startswith(reason)


def test_bytes_that_are_not_utf8_are_a_fault() -> None:
    assert decoded(PURCHASE, b'{"x":"\xff"}').faults == {0: "not UTF-8 at byte 6"}


def test_local_times_are_of_the_zone_of_the_type() -> None:
    def instant(text: str) -> str:
        return one(pa.timestamp("us", "Europe/Berlin"), text).astimezone(UTC).isoformat()

    assert instant('"2024-07-01 12:00:00"') == "2024-07-01T10:00:00+00:00"
    assert instant('"2024-03-31 02:30:00"') == "2024-03-31T01:30:00+00:00"  # clocks skip it
    assert instant('"2024-10-27 02:30:00"') == "2024-10-27T00:30:00+00:00"  # it comes twice
    assert instant('"2050-07-01 12:00:00"') == "2050-07-01T10:00:00+00:00"


def test_a_document_of_white_space_is_null_and_no_fault() -> None:
    for wanted in (PURCHASE, json_corpus.ARRAY, json_corpus.MAP):
        converted = decoded(wanted, "", " \n", None)
        assert converted.faults == {} and converted.values.null_count == 3


@pytest.mark.parametrize(
    ("wanted", "text", "value"),
    [
        (pa.list_(pa.int32()), "[1, 2]", [1, 2]),
        (pa.map_(pa.string(), pa.int32()), ' {"a":1}', [("a", 1)]),
        (pa.list_(pa.struct([("a", pa.int32())])), '{"a":1}', [{"a": 1}]),
        (pa.int64(), "5", 5),
        (pa.string(), '"x"', "x"),
        (pa.struct([]), '{"a":1}', {}),
    ],
)
def test_a_document_need_not_be_an_object(wanted: Any, text: str, value: Any) -> None:
    assert decoded(wanted, text).values.to_pylist() == [value]


@pytest.mark.parametrize(
    ("wanted", "part"),
    [
        (pa.map_(pa.int32(), pa.string()), "the keys of a map must be strings"),
        (pa.struct([("a", pa.struct([("b", pa.uint32())]))]), "field a.b cannot be of the type uint32"),
        (pa.struct([("a", pa.timestamp("ns"))]), "field a cannot be timestamp[ns]"),
        (pa.struct([("a", pa.timestamp("us", "Mars/Olympus"))]), "'Mars/Olympus', which is not known here"),
        (pa.struct([("a", pa.int32()), ("a", pa.int32())]), "two fields with the name 'a'"),
        (pa.list_(pa.duration("us")), "the value[] cannot be of the type duration[us]"),
    ],
)
def test_a_type_that_json_cannot_give_is_refused_by_name(wanted: Any, part: str) -> None:
    with pytest.raises(ConfigError, match="JSON") as caught:
        json_decode.decoder(wanted)
    assert part in str(caught.value)


def test_slices_and_several_chunks_give_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = [b"{}", None, *json_corpus.documents(3, json_corpus.NESTED, 300), b'{"id":1}']
    whole = decoded(json_corpus.NESTED, *documents)
    monkeypatch.setattr(json_decode, "CHUNK_ROWS", 7)
    part = json_decode.decoder(json_corpus.NESTED).decode(pa.array(documents, pa.binary()).slice(1, 250))
    assert json_corpus.rows(part.values) == json_corpus.rows(whole.values)[1:251]
    assert part.faults == {row - 1: reason for row, reason in whole.faults.items() if 1 <= row <= 250}
    assert len(decoded(PURCHASE).values) == 0


def test_nesting_beyond_the_limit_is_a_fault_and_up_to_it_is_read() -> None:
    good, bad = (b'{"zz":' + b"[" * depth + b"]" * depth + b"}" for depth in (999, 1000))
    endless = b'{"zz":' + b'{"a":' * 1_000_000
    converted = decoded(PURCHASE, good, bad, endless)
    assert sorted(converted.faults) == [1, 2]
    assert "at most 1000 arrays and objects inside each other" in converted.faults[1]


def test_thousands_of_fields_in_any_order_are_found() -> None:
    names = [f"field_{index}" for index in range(5000)]
    wanted = pa.struct([(name, pa.int32()) for name in names])
    shuffled = random.Random(1).sample(list(enumerate(names)), len(names))
    document = json.dumps({name: index for index, name in shuffled})
    assert decoded(wanted, document, "{}", document).values[2].as_py() == {
        name: index for index, name in enumerate(names)
    }


def test_a_document_of_ten_megabytes_is_read() -> None:
    wanted = pa.struct([("s", pa.string()), ("l", pa.list_(pa.int64())), ("n", pa.int32())])
    text, numbers = "é\n" * 1_500_000, list(range(500_000))
    document = json.dumps({"s": text, "l": numbers, "skipped": [text], "n": 1}, ensure_ascii=False)
    assert len(document.encode()) > 10_000_000
    row = decoded(wanted, "{}", document, '{"n":2}').values[1].as_py()
    assert row["s"] == text and row["l"] == numbers and row["n"] == 1


@pytest.mark.parametrize("name", ["FLAT", "NESTED", "TEXTS", "TIMES", "ARRAY", "MAP"])
def test_kernels_agree_with_reading_document_by_document(name: str) -> None:
    wanted = getattr(json_corpus, name)
    check_both_ways(wanted, json_corpus.documents(7, wanted, 1500))


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**65), 2**65) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("ab") | st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(
    value=_VALUES,
    ascii_only=st.booleans(),
    changes=st.lists(st.tuples(st.integers(0), st.binary(max_size=2)), max_size=2),
)
def test_kernels_agree_on_any_document_and_after_any_change(value: Any, ascii_only: bool, changes: Any) -> None:
    document = bytearray(json.dumps({"a": value}, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass"))
    for at, new in changes:
        document[at % len(document) : at % len(document) + 1] = new
        document = document or bytearray(b" ")
    for kind in (pa.string(), pa.float64(), pa.int64(), pa.list_(pa.string()), pa.map_(pa.string(), pa.float32())):
        check_both_ways(pa.struct([("a", kind), ("b", kind)]), [bytes(document)])
