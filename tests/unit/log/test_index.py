"""Index files: lookups agree with a plain list, wherever the entries are."""

import struct
from bisect import bisect_right

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.log.index import IndexFile, OffsetIndex, TimeIndex
from fencepost.log.txn_index import AbortedTransaction, TxnIndex
from tests.fakes.forgetful_disk import ForgetfulDisk

PAIR = struct.Struct(">ii")


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_floor_agrees_with_bisect(data: st.DataObject) -> None:
    firsts = sorted(data.draw(st.sets(st.integers(0, 3000), max_size=1500)))
    entries = [(first, 3 * first) for first in firsts]
    index = IndexFile(ForgetfulDisk("/d"), "/d/i", PAIR, tail_entries=data.draw(st.sampled_from([1, 7, 600])))
    for entry in entries:
        index.append(*entry)
    if data.draw(st.booleans()):
        index.spill()
        index.release()
        assert index.load()
    for key in data.draw(st.lists(st.integers(-1, 3001), max_size=20)):
        assert index.floor(key) == bisect_right(firsts, key) - 1
        assert index.floor(3 * key, field=1) == bisect_right(firsts, key) - 1
    start, stop = data.draw(st.integers(0, 1500)), data.draw(st.integers(0, 1500))
    assert index.entries(start, stop) == entries[start:stop]
    cut = data.draw(st.integers(0, 1500))
    index.truncate(cut)
    assert index.entries(0, 2000) == entries[:cut]
    assert index.last() == (entries[:cut][-1] if entries[:cut] else None)


def test_a_full_disk_keeps_entries_in_memory() -> None:
    disk = ForgetfulDisk("/d")
    index = IndexFile(disk, "/d/i", PAIR, tail_entries=2)
    disk.capacity_bytes = 20
    for number in range(10):
        index.append(number, number)
    assert [index.floor(number) for number in range(10)] == list(range(10))
    with pytest.raises(OSError, match="space"):
        index.spill()
    disk.capacity_bytes = None
    index.spill()
    index.release()
    assert index.load() and index.count == 10 and index.entry(9) == (9, 9)


def test_a_file_that_is_not_whole_entries_is_not_sound() -> None:
    disk = ForgetfulDisk("/d")
    index = IndexFile(disk, "/d/i", PAIR)
    assert not index.load()
    disk.write_bytes("/d/i", bytes(12))
    assert not index.load()


def test_the_offset_index_gives_a_position_at_or_before() -> None:
    index = OffsetIndex(ForgetfulDisk("/d"), "/d/i", 1000)
    assert index.position_before(5000) == 0 and index.offset_at(0) is None
    index.add(1009, 100)
    index.add(1019, 200)
    offsets = (1000, 1008, 1009, 1018, 1019, 9999)
    assert [index.position_before(offset) for offset in offsets] == [0, 0, 100, 100, 200, 200]
    assert [index.offset_at(position) for position in (0, 100, 101, 200, 201)] == [1009, 1009, 1019, 1019, None]


def test_the_time_index_keeps_growing_maxima_only() -> None:
    index = TimeIndex(ForgetfulDisk("/d"), "/d/i", 1000)
    assert index.greatest() == (-1, 1000)
    for timestamp, offset in ((50, 1001), (40, 1002), (50, 1003), (60, 1004)):
        index.add(timestamp, offset)
    assert index.entries(0, 9) == [(50, 1), (60, 4)]
    assert [index.offset_before(timestamp) for timestamp in (50, 51, 60, 61)] == [1000, 1001, 1001, 1004]
    index.truncate(1)
    index.add(55, 1005)
    assert index.greatest() == (55, 1005)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_aborted_transactions_are_collected_as_if_all_were_looked_at(data: st.DataObject) -> None:
    index = TxnIndex(ForgetfulDisk("/d"), "/d/t")
    aborted, last = [], 0
    for number in range(data.draw(st.integers(0, 40))):
        first = data.draw(st.integers(max(0, last - 20), last))
        last += data.draw(st.integers(1, 5))
        aborted.append(AbortedTransaction(number, first, last, last + 1))
        index.add(aborted[-1])
    start = data.draw(st.integers(0, last))
    end = data.draw(st.integers(start, last + 5))
    found: list[AbortedTransaction] = []
    complete = index.collect(start, end, found)
    relevant = [txn for txn in aborted if txn.last_offset >= start]
    if complete:
        # The first whose marker left nothing open before `end` says that the rest cannot matter.
        last_seen = next(number for number, txn in enumerate(relevant) if txn.last_stable_offset >= end)
        relevant = relevant[: last_seen + 1]
    assert found == [txn for txn in relevant if txn.first_offset < end]
