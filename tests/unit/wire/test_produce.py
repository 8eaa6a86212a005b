"""The hand-written Produce codec says the same as the tables, in every version."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.errors import Malformed
from fencepost.wire import messages, produce
from tests.unit.wire import strategies

API = messages.api(produce.API_KEY)
versions = st.integers(*produce.VERSIONS)
indexes = st.integers(0, 2**31 - 1)


@given(versions, st.data())
def test_a_request_is_read_as_the_tables_wrote_it(version, data):
    values = data.draw(strategies.values(API.request, version))
    key = "topic_id" if version >= produce.FIRST_WITH_TOPIC_IDS else "name"
    frame = memoryview(API.request.encode(version, values))
    decoded = produce.decode_request(version, frame, 0)
    assert decoded.transactional_id == values["transactional_id"]
    assert (decoded.acks, decoded.timeout_ms) == (values["acks"], values["timeout_ms"])
    assert [
        (topic, index, None if records is None else bytes(records)) for topic, index, records in decoded.partitions
    ] == [
        (topic[key], part["index"], part["records"])
        for topic in values["topic_data"]
        for part in topic["partition_data"]
    ]


@pytest.mark.parametrize("version", [7, produce.FIRST_FLEXIBLE, produce.FIRST_WITH_TOPIC_IDS])
@pytest.mark.parametrize("size", [0, 126, 127, 128, 2**14 - 2, 2**14 - 1, 2**14, 2**21 - 2, 2**21 - 1, 2**21])
def test_batches_of_every_size_are_read_and_a_cut_off_one_is_refused(version, size):
    records = [bytes([i]) * size for i in range(2)]
    key = {"topic_id": b"t" * 16} if version >= produce.FIRST_WITH_TOPIC_IDS else {"name": "t"}
    data = [{"index": i, "records": each} for i, each in enumerate(records)]
    values = {"acks": -1, "timeout_ms": 1, "topic_data": [{**key, "partition_data": data}]}
    frame = memoryview(API.request.encode(version, values))
    decoded = produce.decode_request(version, frame, 0).partitions
    assert [(index, each) for _, index, each in decoded] == list(enumerate(records))
    with pytest.raises(Malformed):
        produce.decode_request(version, frame[:-4], 0)


@given(versions, st.data())
def test_a_response_is_read_by_the_tables_as_it_was_meant(version, data):
    topic = st.sampled_from([b"a" * 16, b"b" * 16] if version >= produce.FIRST_WITH_TOPIC_IDS else ["a", "b"])
    result = st.builds(
        produce.PartitionResult,
        topic,
        indexes,
        st.integers(-1, 130),
        *[st.integers(-1, 2**60)] * 3,
        st.none() | st.text(max_size=10),
    )
    results = data.draw(st.lists(result, max_size=5))
    encoded = produce.encode_response(version, 77, results)
    assert int.from_bytes(encoded[:4], "big") == len(encoded) - 4
    assert int.from_bytes(encoded[4:8], "big") == 77
    body = 9 if version >= produce.FIRST_FLEXIBLE else 8
    decoded = API.response.decode(version, encoded, body)
    seen = [
        produce.PartitionResult(
            entry.name or entry.topic_id,
            part.index,
            part.error_code,
            part.base_offset,
            part.log_append_time_ms,
            part.log_start_offset,
            part.error_message,
        )
        for entry in decoded.responses
        for part in entry.partition_responses
    ]
    expected = [
        r._replace(
            log_start_offset=r.log_start_offset if version >= 5 else -1, message=r.message if version >= 8 else None
        )
        for name in dict.fromkeys(r.topic for r in results)
        for r in results
        if r.topic == name
    ]
    assert seen == expected


@pytest.mark.parametrize("version", [7, 9, 13])
def test_a_request_of_very_many_empty_partitions_or_topics_is_refused_before_it_fills_the_memory(version):
    empty = {"name": "t", "topic_id": b"t" * 16, "partition_data": []}
    for topics in ([empty | {"partition_data": [{"index": 0}] * 100_001}], [empty] * 100_001):
        frame = API.request.encode(version, {"topic_data": topics})
        with pytest.raises(Malformed, match="more than"):
            produce.decode_request(version, memoryview(frame), 0)
