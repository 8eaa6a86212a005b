"""The hand-written Fetch answer says the same as the tables, in every version."""

from hypothesis import given
from hypothesis import strategies as st

from fencepost.wire import fetch, messages

API = messages.api(fetch.API_KEY)
offsets = st.integers(-1, 2**60)


@given(st.integers(*fetch.VERSIONS), st.data())
def test_a_response_is_read_by_the_tables_as_it_was_meant(version, data):
    topic = st.sampled_from([b"a" * 16, b"b" * 16] if version >= fetch.FIRST_WITH_TOPIC_IDS else ["a", "b"])
    answer = st.builds(
        fetch.PartitionAnswer,
        topic,
        st.integers(0, 100),
        st.integers(-1, 130),
        offsets,
        offsets,
        offsets,
        st.none() | st.lists(st.tuples(offsets, offsets), max_size=3),
        st.none() | st.tuples(st.integers(0, 9), offsets),
        st.none() | st.binary(max_size=300),
    )
    answers = data.draw(st.lists(answer, max_size=5))
    parts = fetch.encode_response(version, 9, answers, error_code=3, session_id=12)
    encoded = b"".join(bytes(part) for part in parts)
    assert int.from_bytes(encoded[:4], "big") == len(encoded) - 4
    flexible = version >= fetch.FIRST_FLEXIBLE
    decoded = API.response.decode(version, encoded, 9 if flexible else 8)
    if version >= fetch.FIRST_WITH_SESSIONS:
        assert (decoded.error_code, decoded.session_id) == (3, 12)
    seen = [
        fetch.PartitionAnswer(
            entry.topic or entry.topic_id,
            part.partition_index,
            part.error_code,
            part.high_watermark,
            part.last_stable_offset,
            part.log_start_offset,
            None if part.aborted_transactions is None
            else [(a.producer_id, a.first_offset) for a in part.aborted_transactions],
            None if part.diverging_epoch.epoch < 0 else (part.diverging_epoch.epoch, part.diverging_epoch.end_offset),
            bytes(part.records),
        )
        for entry in decoded.responses
        for part in entry.partitions
    ]  # fmt: skip
    expected = [
        a._replace(
            log_start_offset=a.log_start_offset if version >= 5 else -1,
            diverging=a.diverging if flexible else None,
            records=a.records or b"",
        )
        for name in dict.fromkeys(a.topic for a in answers)
        for a in answers
        if a.topic == name
    ]
    assert seen == expected
