"""Offsets as JSON: Spark's shape, ours with its start, and what is neither."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.errors import Malformed
from fencepost.spark.offsets_json import SourceOffset, parse, parse_numbers
from fencepost.wire.terms import TopicPartition

positions = st.dictionaries(
    st.builds(TopicPartition, st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True), st.integers(0, 5000)),
    st.integers(0, 2**62),
)


identities = st.dictionaries(
    st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True),
    st.text("abc", min_size=1) | st.dictionaries(st.integers(0, 50), st.integers(-1, 2**31 - 1)),
)


@given(positions, st.none() | positions, identities, identities, positions)
def test_an_offset_survives_the_way_to_json_and_back(offsets, start, topics, replaced, skipped):
    offset = SourceOffset(offsets, start, topics, replaced, skipped)
    assert parse(offset.json()) == offset
    assert parse(offset.as_dict()) == offset
    assert parse(json.dumps(offset.as_dict())) == offset


def test_the_json_of_sparks_own_source_is_an_offset_without_a_start():
    found = parse('{"purchases":{"1":99,"0":120},"users":{"0":0}}')
    assert found.start is None
    assert found.offsets == {
        TopicPartition("purchases", 0): 120,
        TopicPartition("purchases", 1): 99,
        TopicPartition("users", 0): 0,
    }


def test_the_start_of_the_first_batch_travels_in_its_end():
    text = '{"purchases":{"0":120},"@from":{"purchases":{"0":5}}}'
    found = parse(text)
    assert found.offsets == {TopicPartition("purchases", 0): 120}
    assert found.start == {TopicPartition("purchases", 0): 5}
    assert found.json() == text


def test_equal_positions_give_equal_text_whatever_their_order():
    two, ten = TopicPartition("t", 2), TopicPartition("t", 10)
    assert SourceOffset({ten: 1, two: 2}).json() == SourceOffset({two: 2, ten: 1}).json() == '{"t":{"2":2,"10":1}}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "earliest",
        "5",
        "[]",
        '"text"',
        '{"t": 5}',
        '{"t": [1, 2]}',
        '{"t": {"0": "5"}}',
        '{"t": {"0": 1.5}}',
        '{"t": {"0": true}}',
        '{"t": {"0": null}}',
        '{"t": {"0": -1}}',
        '{"t": {"x": 1}}',
        '{"t": {"-1": 1}}',
        '{"t": {"²": 1}}',
        '{"t": {"0": 1}, "@from": 3}',
        '{"logOffset": 4}',
    ],
)
def test_what_is_no_offset_is_refused(text):
    with pytest.raises(Malformed):
        parse(text)


def test_the_refusal_shows_what_was_expected_and_what_came():
    with pytest.raises(Malformed, match=r'topic \'t\' must look like \{"topic": .*, not 5'):
        parse('{"t": 5}')


def test_special_offsets_are_numbers_too():
    assert parse_numbers('{"t": {"0": -1, "1": -2}}') == {TopicPartition("t", 0): -1, TopicPartition("t", 1): -2}
