"""Which bytes a reader gets: whole batches, never more than is durable, at least one where that was asked."""

from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.errors import ErrorCode
from fencepost.log.config import LogConfig
from fencepost.log.reading import INLINE_BYTES
from fencepost.log.slices import FileSlice
from tests.unit.log.support import SMALL, Fixture, batch, headers, read_all, refused, values


def test_offsets_outside_of_the_log_are_refused(home: Fixture) -> None:
    home.append(b"a", b"b")
    home.log.delete_records(1)
    for offset in (-1, 0, 3):
        with refused(ErrorCode.OFFSET_OUT_OF_RANGE):
            home.read(offset)
    assert home.read(2).records == b""


def test_the_end_is_the_high_watermark(home: Fixture) -> None:
    home.append(b"a")
    home.append(b"b", sync=False)
    assert values(home.read(0)) == [b"a"]
    assert home.read(1).records == b"" and home.read(2).records == b""
    home.worker.run()
    assert values(home.read(0)) == [b"a", b"b"]
    assert values(home.read(1)) == [b"b"]


def test_at_least_one_batch_comes_only_where_asked_for(home: Fixture) -> None:
    home.append(b"x" * 500)
    home.append(b"y" * 500)
    assert values(home.read(0, 10)) == [b"x" * 500]
    assert home.read(0, 10, at_least_one_batch=False).records == b""
    cut = bytes(home.read(0, 600, at_least_one_batch=False).records)
    assert len(cut) == 600 and len(headers(cut)) == 1


def test_much_is_read_as_it_is_sent(home: Fixture) -> None:
    for _ in range(4):
        home.append(b"x" * INLINE_BYTES)
    fetched = home.read(0, 3 * INLINE_BYTES)
    assert isinstance(fetched.records, FileSlice) and len(fetched.records) == 3 * INLINE_BYTES
    content = bytes(fetched.records)
    home.log.release_idle()
    home.log.delete()
    assert fetched.records.read(0, 100) + fetched.records.read(100, 10**6) == content


def test_a_reader_at_the_end_goes_on_where_it_left_off() -> None:
    home = Fixture(SMALL)
    offset = 0
    for number in range(50):
        home.append(b"%d" % number * 20)
        fetched = home.read(offset)
        while headers(fetched.records):
            offset = headers(fetched.records)[-1].last_offset + 1
            fetched = home.read(offset)
    assert offset == 50


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_every_offset_is_found_whatever_the_sizes(data: st.DataObject) -> None:
    home = Fixture(
        LogConfig(
            segment_bytes=data.draw(st.integers(700, 3000)),
            index_interval_bytes=data.draw(st.sampled_from([0, 100, 500, 5000])),
        )
    )
    sizes = data.draw(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 90)), min_size=1, max_size=40))
    for count, size in sizes:
        home.append(*[b"v" * size] * count, sync=False)
    home.worker.run()
    if data.draw(st.booleans()):
        home.restart()
    end = home.log.log_end_offset
    offset = data.draw(st.integers(0, end - 1))
    first = headers(home.read(offset, data.draw(st.integers(0, 3000))).records)[0]
    assert first.base_offset <= offset <= first.last_offset
    records = read_all(home.log, max_bytes=data.draw(st.integers(1, 3000)))
    assert [record.offset for record in records] == list(range(end))


def test_replay_gives_every_batch_from_an_offset_on() -> None:
    home = Fixture(SMALL)
    for number in range(40):
        home.append(b"%d" % number * 20, b"", sync=False)
    assert [header.base_offset for header, _ in home.log.replay(0)] == list(range(0, 80, 2))
    assert [header.base_offset for header, _ in home.log.replay(41)] == list(range(40, 80, 2))
    assert list(home.log.replay(80)) == []
    sizes = [(header.size, len(content)) for header, content in home.log.replay(0)]
    assert all(announced == found for announced, found in sizes)


def test_a_large_batch_is_replayed_whole(home: Fixture) -> None:
    home.configure(max_message_bytes=10**8)
    big = batch(b"x" * 3_000_000)
    home.log.append(bytearray(big))
    home.log.append(batch(b"y"))
    found = [(header.base_offset, len(content)) for header, content in home.log.replay(0)]
    assert found[0] == (0, len(big)) and found[1][0] == 1
