"""Arrow to record batches: against the decoder of the broker, and against other clients' partitioners."""

import math
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from aiokafka.partitioner import murmur2 as aiokafka_murmur2
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.client.encode import MAX_PENDING_BYTES, Blob, Encoder, blobs_from_arrow, blobs_to_arrow, pieces
from fencepost.client.shapes import DEFAULT_MAX_MESSAGE_BYTES, TopicShape
from fencepost.errors import ConfigError, TopicNotFound, WriteFailed
from fencepost.wire import batch
from fencepost.wire.compression import Compression
from fencepost.wire.records import Record, decode_batch

KEYS = st.none() | st.binary(max_size=40)
VALUES = st.none() | st.binary(max_size=300)
HEADERS = st.none() | st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=9)), max_size=3)
TIMES = st.integers(-1, 2**45)
ROWS = st.lists(st.tuples(KEYS, VALUES, HEADERS, TIMES), min_size=1, max_size=60)
HEADER_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

#: From Kafka's own test of its murmur2.
KAFKA_VECTORS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def table(rows) -> pa.RecordBatch:
    keys, values, headers, times = zip(*rows, strict=True)
    items = [None if h is None else [{"key": k, "value": v} for k, v in h] for h in headers]
    return pa.record_batch(
        {
            "key": pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "headers": pa.array(items, HEADER_TYPE),
            "timestamp": pa.array(times, pa.int64()),
        }
    )


def plain(count: int, *, key: bool = False, size: int = 10) -> pa.RecordBatch:
    columns = {"value": pa.array([b"%d" % i + bytes(size) for i in range(count)], pa.binary())}
    if key:
        columns["key"] = pa.array([b"key-%d" % i for i in range(count)], pa.binary())
    return pa.record_batch(columns)


def encode(rows: pa.RecordBatch | pa.Table, partitions: int = 1, **options) -> list[Blob]:
    return Encoder({"t": TopicShape(partitions)}, **options).encode(rows)


def records_of(blobs: list[Blob]) -> dict[int, list[Record]]:
    found: dict[int, list[Record]] = {}
    for blob in blobs:
        decoded = list(decode_batch(blob.data))
        assert [record.offset for record in decoded] == list(range(len(decoded)))
        assert len(decoded) == blob.records
        found.setdefault(blob.partition, []).extend(decoded)
    return found


@given(ROWS, st.sampled_from(list(Compression)), st.integers(1, 5), st.integers(1024, 4096))
@settings(max_examples=60)
def test_rows_are_read_back_from_their_batches_in_order(rows, codec, partitions, target):
    got = records_of(encode(table(rows), partitions, compression=codec, target_bytes=target))
    assert sum(map(len, got.values())) == len(rows)
    for partition, records in got.items():
        here = [row for row in rows if row[0] is not None and kafka_partition(row[0], partitions) == partition]
        keyed = [(r.key, r.value, list(r.headers), r.timestamp) for r in records if r.key is not None]
        assert keyed == [(k, v, h or [], t) for k, v, h, t in here]
    unkeyed = sorted((r.value or b"", r.timestamp) for records in got.values() for r in records if r.key is None)
    assert unkeyed == sorted((v or b"", t) for k, v, _, t in rows if k is None)


@given(ROWS)
@settings(max_examples=30)
def test_a_batch_has_the_header_that_kafka_expects(rows):
    (blob,) = encode(table(rows), target_bytes=1 << 20)
    header = batch.read_header(blob.data)
    assert header.size == len(blob.data)
    assert (header.magic, header.attributes, header.base_offset, header.leader_epoch) == (2, 0, 0, -1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert (header.record_count, header.last_offset_delta) == (len(rows), len(rows) - 1)
    assert (header.base_timestamp, header.max_timestamp) == (rows[0][3], max(row[3] for row in rows))


@given(ROWS, st.data())
@settings(max_examples=30)
def test_slices_of_arrow_arrays_are_read_where_they_begin(rows, data):
    first = data.draw(st.integers(0, len(rows) - 1))
    count = data.draw(st.integers(1, len(rows) - first))
    of_slice = encode(table(rows).slice(first, count))
    of_copy = encode(table(rows[first : first + count]))
    assert [bytes(blob.data) for blob in of_slice] == [bytes(blob.data) for blob in of_copy]


# -- routing -----------------------------------------------------------------------------------------------------------


def kafka_partition(key: bytes, partitions: int) -> int:
    return (aiokafka_murmur2(key) & 0x7FFFFFFF) % partitions


def partition_of(key: bytes, partitions: int) -> int:
    rows = pa.record_batch({"key": pa.array([key]), "value": pa.array([b"v"])})
    (blob,) = encode(rows, partitions)
    return blob.partition


@pytest.mark.parametrize("key", KAFKA_VECTORS, ids=bytes.decode)
def test_keys_go_where_kafkas_own_test_vectors_say(key):
    for partitions in (2, 3, 7, 2**31 - 1 >> 12):
        assert partition_of(key, partitions) == (KAFKA_VECTORS[key] & 0x7FFFFFFF) % partitions


@given(st.binary(max_size=64), st.integers(1, 100))
@settings(max_examples=200)
def test_keys_go_where_other_clients_send_them(key, partitions):
    assert partition_of(key, partitions) == kafka_partition(key, partitions)


def test_text_keys_are_routed_by_their_utf8():
    rows = pa.record_batch({"key": pa.array(["Größe"]), "value": pa.array(["v"])})
    (blob,) = encode(rows, 50)
    assert blob.partition == kafka_partition("Größe".encode(), 50)


def test_rows_without_a_key_are_spread_evenly_and_the_same_way_each_time():
    rows = plain(60_000, size=100)
    for _ in range(2):
        shares = {partition: len(records) for partition, records in records_of(encode(rows, 4)).items()}
        assert shares == dict.fromkeys(range(4), 15_000)


def test_few_rows_without_a_key_stay_together_and_the_next_go_elsewhere():
    encoder = Encoder({"t": TopicShape(4)}, spread=2)
    partitions = [[blob.partition for blob in encoder.encode(plain(10))] for _ in range(5)]
    assert partitions == [[2], [3], [0], [1], [2]]


def test_a_wanted_partition_wins_over_the_key():
    rows = pa.record_batch(
        {"key": pa.array([b"k"] * 3), "value": pa.array([b"v"] * 3), "partition": pa.array([4, None, 0], pa.int32())}
    )
    got = [blob.partition for blob in encode(rows, 5)]
    assert sorted(got) == sorted([0, 4, kafka_partition(b"k", 5)])


@pytest.mark.parametrize("partition", [5, -1, -2])
def test_a_partition_that_is_not_there_is_refused(partition):
    rows = pa.record_batch({"value": pa.array([b"v", b"w"]), "partition": pa.array([None, partition], pa.int32())})
    with pytest.raises(WriteFailed, match=rf"partition {partition} of topic 't', which has 5.* value 'w'"):
        encode(rows, 5)


def test_rows_of_several_topics_are_told_apart():
    topics = ["a", "b", "a", "c", "b", "a"]
    rows = pa.record_batch(
        {"topic": pa.array(topics), "value": pa.array([b"%d" % i for i in range(6)]), "key": pa.array([b"k"] * 6)}
    )
    blobs = Encoder({"b": TopicShape(3), "a": TopicShape(1), "c": TopicShape(7)}).encode(rows)
    got = {blob.topic: [record.value for record in decode_batch(blob.data)] for blob in blobs}
    assert got == {"a": [b"0", b"2", b"5"], "b": [b"1", b"4"], "c": [b"3"]}
    assert {blob.topic: blob.partition for blob in blobs} == {
        name: kafka_partition(b"k", count) for name, count in {"b": 3, "a": 1, "c": 7}.items()
    }


def test_a_topic_given_for_all_rows_wins_over_their_column():
    rows = pa.record_batch({"topic": pa.array(["a", "x"]), "value": pa.array([b"1", b"2"])})
    blobs = Encoder({"a": TopicShape(1), "b": TopicShape(1)}, topic="b").encode(rows)
    assert [(blob.topic, blob.records) for blob in blobs] == [("b", 2)]


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ({"value": pa.array([b"v"])}, WriteFailed),
        ({"value": pa.array([b"v"]), "topic": pa.array([None], pa.string())}, WriteFailed),
        ({"value": pa.array([b"v"]), "topic": pa.array(["elsewhere"])}, TopicNotFound),
    ],
    ids=["no column", "null", "unknown"],
)
def test_a_row_must_say_which_topic_it_is_for(columns, error):
    with pytest.raises(error, match="topic"):
        Encoder({"a": TopicShape(1), "b": TopicShape(1)}).encode(pa.record_batch(columns))


# -- sizes -------------------------------------------------------------------------------------------------------------


def test_batches_are_filled_to_the_target_and_never_beyond():
    blobs = encode(plain(5000, size=100), target_bytes=10_000)
    sizes = [len(blob.data) for blob in blobs]
    assert max(sizes) <= 10_000
    assert min(sizes[:-1]) > 9_800
    assert sum(blob.records for blob in blobs) == 5000


def test_a_topics_limit_is_kept_when_it_is_below_the_target():
    blobs = Encoder({"t": TopicShape(1, max_message_bytes=2000)}).encode(plain(500, size=100))
    assert max(len(blob.data) for blob in blobs) <= 2000


def test_a_record_larger_than_the_topic_takes_is_refused_with_the_setting():
    with pytest.raises(WriteFailed, match=r"topic 't': .*max\.message\.bytes is 2000"):
        Encoder({"t": TopicShape(1, max_message_bytes=2000)}).encode(plain(1, size=3000))


def test_a_limit_that_one_may_not_see_is_left_to_the_broker():
    unknown = {"t": TopicShape(1, max_message_bytes=None)}
    (blob,) = Encoder(unknown).encode(plain(1, size=2_000_000))
    assert len(blob.data) > 2_000_000
    blobs = Encoder(unknown, target_bytes=4_000_000).encode(plain(30, size=100_000))
    assert max(len(blob.data) for blob in blobs) <= DEFAULT_MAX_MESSAGE_BYTES


def test_a_large_record_passes_when_it_is_small_enough_compressed():
    shape = TopicShape(1, max_message_bytes=2000)
    (blob,) = Encoder({"t": shape}, compression=Compression.ZSTD).encode(plain(1, size=30_000))
    assert len(blob.data) < 2000
    assert len(next(decode_batch(blob.data)).value or b"") == 30_001


def test_what_compression_would_enlarge_is_left_as_it_is():
    (blob,) = encode(plain(1, size=0), compression=Compression.GZIP)
    assert batch.read_header(blob.data).compression is Compression.NONE


def test_rows_in_pieces_make_full_batches():
    encoder = Encoder({"t": TopicShape(2)}, target_bytes=20_000)
    blobs = [blob for _ in range(100) for blob in encoder.add(plain(40, key=True, size=100))] + encoder.finish()
    assert sum(blob.records for blob in blobs) == 4000
    assert len(blobs) < 2 * math.ceil(4000 * 130 / 20_000)
    assert encoder.finish() == []


def test_a_large_arrow_batch_is_encoded_in_pieces_and_loses_nothing():
    size = 10_000
    count = 3 * MAX_PENDING_BYTES // size
    rows = pa.record_batch({"value": pa.array([b"%d" % index + bytes(size) for index in range(count)])})
    cut = list(pieces(rows))
    assert len(cut) == 3 and all(piece.nbytes + 2 * size >= MAX_PENDING_BYTES for piece in cut[:-1])
    assert max(piece.nbytes for piece in cut) < MAX_PENDING_BYTES + 2 * size
    assert pa.Table.from_batches(cut).combine_chunks() == pa.Table.from_batches([rows])
    encoder = Encoder({"t": TopicShape(1)})
    blobs = [*encoder.add(rows), *encoder.finish()]
    values = [record.value for blob in blobs for record in decode_batch(bytes(blob.data))]
    assert values == rows.column("value").to_pylist()


def test_an_encoder_for_nothing_is_refused():
    for topics, target_bytes in (({"t": TopicShape(1)}, 100), ({"t": TopicShape(0)}, 10_000)):
        with pytest.raises(ConfigError):
            Encoder(topics, target_bytes=target_bytes)


# -- columns -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", [pa.binary(), pa.string(), pa.large_binary(), pa.large_string(), pa.binary_view(), pa.string_view()]
)
def test_every_kind_of_text_and_bytes_is_taken(kind):
    rows = pa.record_batch({"key": pa.array(["k", None], kind), "value": pa.array([None, "v"], kind)})
    (blob,) = encode(rows)
    assert [(r.key, r.value) for r in decode_batch(blob.data)] == [(b"k", None), (None, b"v")]


def test_dictionaries_and_null_columns_are_taken():
    rows = pa.record_batch({"key": pa.nulls(2), "value": pa.array(["a", "b"]).dictionary_encode()})
    (blob,) = encode(rows)
    assert [(r.key, r.value) for r in decode_batch(blob.data)] == [(None, b"a"), (None, b"b")]


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("value", pa.array([1.5])),
        ("key", pa.array([[1]])),
        ("timestamp", pa.array(["now"])),
        ("partition", pa.array(["0"])),
        ("headers", pa.array(["h"])),
        ("headers", pa.array([[{"key": None, "value": b"v"}]], HEADER_TYPE)),
        ("headers", pa.array([[None]], HEADER_TYPE)),
    ],
)
def test_a_column_of_another_type_is_named(name, column):
    columns = {"value": pa.array([b"v"]), name: column}
    with pytest.raises(WriteFailed, match="header" if name == "headers" else name):
        encode(pa.record_batch(columns))


def test_rows_without_a_value_column_are_refused():
    with pytest.raises(WriteFailed, match="no column 'value', only key"):
        encode(pa.record_batch({"key": pa.array([b"k"])}))


def test_timestamps_of_any_unit_become_milliseconds_and_missing_ones_now():
    when = datetime(2024, 2, 29, 12, 30, 15, 123456, tzinfo=UTC)
    for kind in (pa.timestamp("us", "UTC"), pa.timestamp("ns"), pa.timestamp("ms", "Europe/Berlin")):
        rows = pa.record_batch({"value": pa.array([b"v"] * 2), "timestamp": pa.array([when, None], kind)})
        (blob,) = encode(rows)
        first, second = decode_batch(blob.data)
        assert first.timestamp == 1709209815123
        assert abs(second.timestamp / 1000 - datetime.now(UTC).timestamp()) < 60


def test_tables_in_chunks_are_encoded_as_one():
    rows = plain(10)
    (blob,) = encode(pa.Table.from_batches([rows, rows]))
    assert blob.records == 20


def test_no_rows_make_no_batches():
    assert encode(plain(0)) == []


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.LZ4])
def test_blobs_travel_as_arrow_rows(compression):
    blobs = Encoder({"t": TopicShape(3)}, compression=compression, target_bytes=2000).encode(plain(500, key=True))
    rows = blobs_to_arrow(blobs)
    back = blobs_from_arrow(rows.slice(1))
    assert [(b.topic, b.partition, bytes(b.data), b.records) for b in back] == [
        (b.topic, b.partition, bytes(b.data), b.records) for b in blobs[1:]
    ]
    assert blobs_from_arrow(blobs_to_arrow([])) == []
