"""Frames come out whole and in order, wherever the bytes were cut, and cost no more than the bytes that came."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.broker.inbox import KEPT_BYTES, OWN_BYTES, Inbox
from fencepost.errors import Malformed


def feed(inbox, data, pieces=()):
    """The frames that `data` yields when it is read in pieces of these sizes, the last one repeated."""
    found, data, sizes = [], memoryview(data), list(pieces) or [10**9]
    while data:
        room = inbox.room()
        count = min(sizes.pop(0) if len(sizes) > 1 else sizes[0], len(data), len(room))
        room[:count] = data[:count]
        found += [bytes(frame) for frame in inbox.frames(count)]
        data = data[count:]
    return found


def framed(*bodies):
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


@given(
    st.lists(st.binary(max_size=40).map(lambda b: b * 3) | st.integers(0, 400_000).map(bytes), max_size=12),
    st.lists(st.integers(1, 300_000), min_size=1, max_size=20),
)
def test_frames_are_the_same_however_they_were_cut(bodies, pieces):
    assert feed(Inbox(10**6), framed(*bodies), pieces) == bodies


def test_an_announced_size_costs_no_memory_before_the_bytes_come():
    inbox = Inbox(2**31 - 1)
    assert feed(inbox, struct.pack(">i", 2**31 - 1) + b"x") == []
    assert len(inbox.room()) <= OWN_BYTES


def test_a_buffer_grows_with_the_bytes_and_is_given_back_when_it_is_large():
    inbox = Inbox(10**8)
    body = bytes(10 * KEPT_BYTES)
    assert feed(inbox, framed(body), [100_000]) == [body]
    assert len(inbox.room()) <= KEPT_BYTES


def test_two_connections_do_not_get_into_each_others_way():
    first, second = Inbox(1000), Inbox(1000)
    data = framed(b"a" * 100)
    assert feed(first, data[:50]) == []
    assert feed(second, framed(b"b" * 200)) == [b"b" * 200]
    assert feed(first, data[50:]) == [b"a" * 100]


def test_a_quiet_connection_keeps_no_buffer_unless_something_is_in_it():
    inbox = Inbox(1000)
    feed(inbox, framed(b"a" * 100)[:50])
    inbox.release()
    assert feed(inbox, framed(b"a" * 100)[50:]) == [b"a" * 100]
    inbox.release()
    assert inbox.room().obj is Inbox(1).room().obj


@pytest.mark.parametrize("size", [-1, 1001, 2**31 - 1])
def test_a_size_that_is_not_allowed_is_malformed(size):
    with pytest.raises(Malformed, match="was announced"):
        feed(Inbox(1000), struct.pack(">i", size))
