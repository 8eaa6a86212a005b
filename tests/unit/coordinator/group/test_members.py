"""What consumers subscribe to, read from the metadata that they send each other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.coordinator.group.members import topics_of
from tests.unit.coordinator.group.support import subscription


def test_topics_are_read_and_what_follows_is_not_looked_at():
    assert topics_of(subscription("a", "b") + b"later fields") == {"a", "b"}
    assert topics_of(subscription()) == frozenset()


@pytest.mark.parametrize(
    "data", [b"", b"\x00", b"\x00\x00\x00\x00\x00\x05", b"\xff\xff\x00\x00\x00\x00", subscription("abc")[:-6]]
)
def test_what_is_no_subscription_gives_none(data: bytes):
    assert topics_of(data) is None


@given(st.binary(max_size=60))
def test_no_bytes_raise(data: bytes):
    topics_of(data)
