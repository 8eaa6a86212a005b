"""Fetch sessions: what is remembered, what is answered, and what a reader that got lost is told."""

import pytest

from fencepost.broker.fetch_sessions import FetchSessions
from fencepost.errors import ErrorCode, KafkaError
from fencepost.wire import messages
from fencepost.wire.fetch import PartitionAnswer

FETCH, VERSION = 1, 12


def request(session_id=0, epoch=0, partitions=(), forgotten=()):
    """As the handler gets it: decoded from bytes."""
    table = messages.api(FETCH).request
    wanted = [{"partition": partition, "fetch_offset": offset} for partition, offset in partitions]
    fields = {
        "session_id": session_id,
        "session_epoch": epoch,
        "topics": [{"topic": "t", "partitions": wanted}],
        "forgotten_topics_data": [{"topic": "t", "partitions": list(forgotten)}],
    }
    return table.decode(VERSION, bytes(table.encode(VERSION, fields)))


def answer(partition, high_watermark=5, records=b"", error=0):
    return PartitionAnswer("t", partition, error, high_watermark, high_watermark, 0, None, None, records)


def opened(sessions, partitions=((0, 0), (1, 0))):
    wanted, session, incremental = sessions.resolve(request(partitions=partitions))
    assert not incremental and len(wanted) == len(partitions)
    session.answer([answer(p) for p, _ in partitions])
    return session


def test_an_incremental_request_names_only_what_changed_and_fetches_all():
    sessions = FetchSessions(10)
    session = opened(sessions)
    wanted, again, incremental = sessions.resolve(request(session.id, 1, [(1, 7)]))
    assert again is session and incremental
    assert [(w.partition, w.fetch_offset) for w in wanted] == [(0, 0), (1, 7)]


def test_only_what_moved_is_answered():
    session = opened(FetchSessions(10))
    assert session.answer([answer(0), answer(1)]) == []
    assert session.answer([answer(0, 6), answer(1)]) == [answer(0, 6)]
    assert session.answer([answer(0, 6), answer(1, records=b"x")]) == [answer(1, records=b"x")]


def test_an_error_is_repeated_until_it_is_gone():
    session = opened(FetchSessions(10))
    for _ in range(2):
        assert session.answer([answer(0, error=1), answer(1)]) == [answer(0, error=1)]
    assert session.answer([answer(0), answer(1)]) == [answer(0)]


def test_partitions_with_data_go_to_the_end_of_the_line():
    session = opened(FetchSessions(10))
    session.answer([answer(0, records=b"x"), answer(1)])
    assert [partition for _, partition in session.partitions] == [1, 0]


def test_forgotten_partitions_are_dropped():
    sessions = FetchSessions(10)
    session = opened(sessions)
    wanted, _, _ = sessions.resolve(request(session.id, 1, forgotten=[0]))
    assert [w.partition for w in wanted] == [1]


@pytest.mark.parametrize(
    ("session_id", "epoch", "code"),
    [(999, 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND), (None, 5, ErrorCode.INVALID_FETCH_SESSION_EPOCH)],
)
def test_a_reader_that_got_lost_is_told_so(session_id, epoch, code):
    sessions = FetchSessions(10)
    session = opened(sessions)
    with pytest.raises(KafkaError) as caught:
        sessions.resolve(request(session_id or session.id, epoch))
    assert caught.value.code is code


def test_the_least_recently_used_session_makes_room():
    sessions = FetchSessions(2)
    first, second = opened(sessions), opened(sessions)
    sessions.resolve(request(first.id, 1))
    opened(sessions)
    sessions.resolve(request(first.id, 2))
    with pytest.raises(KafkaError):
        sessions.resolve(request(second.id, 1))


def test_the_final_epoch_ends_a_session_and_no_slots_mean_no_sessions():
    sessions = FetchSessions(2)
    session = opened(sessions)
    assert sessions.resolve(request(session.id, -1, [(0, 0)]))[1] is None
    with pytest.raises(KafkaError):
        sessions.resolve(request(session.id, 1))
    assert FetchSessions(0).resolve(request(partitions=[(0, 0)]))[1] is None


def test_who_has_a_session_cannot_tell_the_ids_of_others():
    ids = [opened(FetchSessions(10)).id for _ in range(2)]
    sessions = FetchSessions(10)
    ids += [opened(sessions).id for _ in range(2)]
    assert all(abs(one - other) > 1 for one in ids for other in ids if one is not other)
    assert all(0 < each < 2**31 for each in ids)
