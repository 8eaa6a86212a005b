"""Rows that cannot be written: each is found, told apart from its neighbours, and named."""

import time

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.client.encode import Blob, Encoder
from fencepost.client.faults import Fault, Reason, is_topic_name, readable
from fencepost.client.shapes import TopicShape
from fencepost.errors import TopicNotFound, WriteFailed
from fencepost.wire.compression import Compression
from fencepost.wire.records import decode_batch
from tests.unit.client.test_encode import HEADER_TYPE

HOUR_MS = 3_600_000
NOW_MS = time.time_ns() // 1_000_000
SHAPES = {
    "a": TopicShape(3, max_message_bytes=2000),
    "keyed": TopicShape(2, needs_key=True),
    "timely": TopicShape(1, past_max_ms=HOUR_MS, future_max_ms=HOUR_MS),
}
SOURCE_TYPE = pa.struct([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())])

#: A row's columns, and what is wrong with it.
GOOD = {"topic": "a", "key": b"k", "value": b"v"}
ROWS: list[tuple[dict, Reason | None]] = [
    (GOOD, None),
    ({**GOOD, "value": None}, None),
    ({**GOOD, "value": bytes(3000)}, Reason.TOO_LARGE),
    ({**GOOD, "topic": None}, Reason.NO_TOPIC),
    ({**GOOD, "topic": "elsewhere"}, Reason.UNKNOWN_TOPIC),
    ({**GOOD, "partition": 2}, None),
    ({**GOOD, "partition": 3}, Reason.UNKNOWN_PARTITION),
    ({**GOOD, "partition": -1}, Reason.UNKNOWN_PARTITION),
    ({**GOOD, "topic": "timely", "partition": 1}, Reason.UNKNOWN_PARTITION),
    ({**GOOD, "headers": []}, None),
    ({**GOOD, "headers": [{"key": "h", "value": None}]}, None),
    ({**GOOD, "headers": [{"key": "h", "value": b"1"}, {"key": None, "value": b"1"}]}, Reason.NULL_HEADER),
    ({**GOOD, "headers": [None]}, Reason.NULL_HEADER),
    ({**GOOD, "topic": "keyed"}, None),
    ({**GOOD, "topic": "keyed", "key": None}, Reason.NO_KEY),
    ({**GOOD, "key": None}, None),
    ({**GOOD, "timestamp": 17}, None),
    ({**GOOD, "topic": "timely", "timestamp": NOW_MS}, None),
    ({**GOOD, "topic": "timely", "timestamp": -1}, None),
    ({**GOOD, "topic": "timely", "timestamp": NOW_MS * 1000}, Reason.TIMESTAMP),
    ({**GOOD, "topic": "timely", "timestamp": NOW_MS - 2 * HOUR_MS}, Reason.TIMESTAMP),
    ({**GOOD, "error": "the query says so"}, Reason.QUERY),
    ({**GOOD, "topic": None, "partition": 99, "error": ""}, Reason.QUERY),
]


def table(rows: list[dict]) -> pa.RecordBatch:
    kinds = {
        "topic": pa.string(), "key": pa.binary(), "value": pa.binary(), "partition": pa.int32(),
        "headers": HEADER_TYPE, "timestamp": pa.int64(), "error": pa.string(), "source": SOURCE_TYPE,
    }  # fmt: skip
    return pa.record_batch({name: pa.array([row.get(name) for row in rows], kind) for name, kind in kinds.items()})


class Taken:
    """Takes the rows with faults, by the offset of their source."""

    def __init__(self) -> None:
        self.reasons: dict[int, Reason] = {}
        self.order: list[int] = []

    def __call__(self, rows: pa.RecordBatch, faults: list[Fault]) -> list[Blob]:
        for source, fault in zip(rows.column("source").to_pylist(), faults, strict=True):
            self.reasons[source["offset"]] = fault.reason
            self.order.append(source["offset"])
        return []


@given(st.lists(st.sampled_from(ROWS), min_size=1, max_size=40), st.sampled_from([Compression.NONE, Compression.LZ4]))
@settings(max_examples=150, deadline=None)
def test_each_row_is_either_in_its_topic_or_among_those_with_faults(chosen, codec):
    rows = [
        {**row, "source": {"topic": "s", "partition": 0, "offset": number},
         "headers": [*(row.get("headers") or []), {"key": "number", "value": b"%d" % number}]}
        for number, (row, _) in enumerate(chosen)
    ]  # fmt: skip
    if codec is not Compression.NONE:  # zeros would be small enough
        rows = [{**row, "value": bytes(i * 7919 % 251 for i in range(3000))} if row["value"] == bytes(3000) else row
                for row in rows]  # fmt: skip
    taken = Taken()
    blobs = Encoder(SHAPES, on_fault=taken, compression=codec).encode(table(rows))
    written = {int(dict(record.headers)["number"] or b""): blob.topic for blob in blobs
               for record in decode_batch(blob.data)}  # fmt: skip
    too_large_fits = codec is not Compression.NONE
    expected = {number: reason for number, (_, reason) in enumerate(chosen) if reason is not None}
    if too_large_fits:
        for number in [number for number, reason in expected.items() if reason is Reason.TOO_LARGE]:
            if number in written:
                del expected[number]
    assert taken.reasons == expected
    assert taken.order == sorted(taken.order)
    assert written == {number: row["topic"] for number, row in enumerate(rows) if number not in expected}
    assert sum(blob.records for blob in blobs) + len(taken.order) == len(rows)


def test_a_row_of_a_slice_is_found_at_its_own_place():
    rows = table([row for row, _ in ROWS]).slice(9, 4)
    found: list[Fault] = []
    Encoder(SHAPES, on_fault=lambda _, faults: found.extend(faults) or []).encode(rows)
    assert [fault.reason for fault in found] == [Reason.NULL_HEADER, Reason.NULL_HEADER]


def test_an_encoder_without_topics_gives_every_row_away():
    taken: list[Fault] = []
    blobs = Encoder({}, on_fault=lambda _, faults: taken.extend(faults) or []).encode(table([GOOD, GOOD]))
    assert blobs == []
    assert [(fault.reason, fault.topic) for fault in taken] == [(Reason.UNKNOWN_TOPIC, "a")] * 2


def test_a_column_error_that_is_no_text_is_not_ours():
    rows = pa.record_batch({"value": pa.array([b"v"]), "error": pa.array([True])})
    (blob,) = Encoder({"t": TopicShape(1)}).encode(rows)
    assert blob.records == 1


def test_the_error_names_the_row_the_topic_the_reason_and_the_way_on():
    source = {"topic": "orders", "partition": 3, "offset": 1234}
    large = {**GOOD, "key": b"ada", "value": b'{"n":1}' * 1000, "source": source}
    with pytest.raises(WriteFailed) as raised:
        Encoder(SHAPES).encode(table([GOOD, large, {**GOOD, "topic": None}]))
    said = str(raised.value)
    assert said.startswith("a row cannot be written to topic 'a': its record makes a batch of 7")
    assert "max.message.bytes is 2000" in said
    assert 'from orders-3 offset 1234, with key \'ada\' and value \'{"n":1}{"n":1}' in said
    assert "(7000 bytes); 1 more near it cannot be written either" in said
    assert "deadLetters" in said
    assert "\n" not in said
    assert len(said) < 600


def test_an_error_about_a_row_without_its_source_says_how_to_keep_it():
    with pytest.raises(
        TopicNotFound, match=r"'elsewhere' does not exist.*struct\(topic, partition, offset\) AS source"
    ):
        Encoder(SHAPES).encode(table([{**GOOD, "topic": "elsewhere"}]))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (None, "null"),
        (b"", "''"),
        ("Größe", "'Größe'"),
        (b"two\nlines", r"'two\nlines'"),
        (b"\xff\x00", r"b'\xff\x00'"),
        (b"x" * 70, f"'{'x' * 64}'… (70 bytes)"),
        (b"x" * 63 + "ß".encode(), f"'{'x' * 63}'… (65 bytes)"),
    ],
)
def test_bytes_are_readable_in_one_line(data, text):
    assert readable(data) == text


def test_names_of_topics_are_those_that_kafka_allows():
    assert all(map(is_topic_name, ["a", "A.b_c-9", "x" * 249]))
    assert not any(map(is_topic_name, ["", ".", "..", "a b", "ä", "x" * 250, "a\n"]))
