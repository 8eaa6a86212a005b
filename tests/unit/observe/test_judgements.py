"""The pure parts: why nobody ends a transaction, what lies behind it, what happened between two looks."""

from dataclasses import replace

import pytest

from fencepost.observe import words
from fencepost.observe.asking import Answers
from fencepost.observe.backlog import sort_out
from fencepost.observe.groups import GroupView
from fencepost.observe.hanging import still_open, unknown_to
from fencepost.observe.holding import OVERDUE_MS, Cause, Hold, cause_of, owners_of
from fencepost.observe.producers import ProducerView
from fencepost.observe.transactions import Missing, Survey, TransactionView
from fencepost.observe.watching import Event, Seen
from fencepost.wire.batch import BatchHeader, read_header
from fencepost.wire.records import Marker, Record, encode_batch, encode_marker
from fencepost.wire.terms import CONSUMER_OFFSETS, TopicPartition, coordinator_partition

NOW_MS = 1_800_000_000_000
A, B = TopicPartition("a", 0), TopicPartition("b", 0)
OPENED = ProducerView(A, 7, 1, 3, NOW_MS - 1_000, -1, 10)
DOWN = (Missing("broker 2", "does not answer"),)


def view(state: str = "Ongoing", *partitions: TopicPartition, started_ms: int = NOW_MS - 5_000) -> TransactionView:
    return TransactionView("shop", 7, 1, state, started_ms, 60_000, partitions, 1)


@pytest.mark.parametrize(
    ("known", "cause"),
    [
        (Survey((view("Ongoing", A),)), Cause.OPEN),
        (Survey((view("Ongoing", A),), DOWN), Cause.OPEN),
        (Survey((view("Ongoing", A, started_ms=NOW_MS - 60_001),)), Cause.OPEN),
        (Survey((view("Ongoing", A, started_ms=NOW_MS - 60_001 - OVERDUE_MS),)), Cause.OVERDUE),
        (Survey((view("PrepareCommit", A),)), Cause.COMMITTING),
        (Survey((view("PrepareAbort", A),)), Cause.ABORTING),
        (Survey((view("PrepareEpochFence", A),)), Cause.ABORTING),
        (Survey((view("PrepareCommit", B),)), Cause.HANGING),
        (Survey((view("Ongoing", B),)), Cause.HANGING),
        (Survey((view("CompleteAbort"),), DOWN), Cause.HANGING),
        (Survey(()), Cause.HANGING),
        (Survey((), DOWN), Cause.HIDDEN),
    ],
)  # fmt: skip
def test_why_nobody_has_ended_a_transaction(known: Survey, cause: Cause) -> None:
    assert cause_of(OPENED, known, unknown_to([OPENED], known), NOW_MS) is cause
    hold = Hold(cause, 7, 1, known.by_producer().get(7), NOW_MS - 5_000, NOW_MS + 5_000, ())
    assert words.what(hold) and words.ends(hold, NOW_MS)


def test_a_suspect_that_ended_while_coordinators_were_asked_does_not_hang() -> None:
    assert still_open([OPENED], Answers({A: (OPENED,)})) == [OPENED]
    assert still_open([OPENED], Answers({A: (replace(OPENED, txn_start_offset=None),)})) == []
    assert still_open([OPENED], Answers({A: (replace(OPENED, txn_start_offset=12),)})) == [], "the next one is open"
    assert still_open([OPENED], Answers()) == [], "a partition that does not answer proves nothing"


def batch(offset: int, count: int, producer_id: int = -1) -> tuple[BatchHeader, None]:
    records = [Record(None, b"x", NOW_MS)] * count
    if producer_id < 0:
        return read_header(encode_batch(records, base_offset=offset)), None
    made = encode_batch(
        records, base_offset=offset, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True
    )
    return read_header(made), None


def marker(offset: int, producer_id: int, *, commit: bool) -> tuple[BatchHeader, Marker]:
    value = Marker(commit, 0)
    made = encode_marker(
        commit=commit, coordinator_epoch=0, producer_id=producer_id, producer_epoch=0, timestamp=NOW_MS
    )
    return read_header(made)._replace(base_offset=offset), value


def test_what_lies_behind_an_offset_is_sorted_by_the_markers_that_follow() -> None:
    batches = [
        batch(10, 2, producer_id=7),
        batch(12, 3),
        batch(15, 4, producer_id=8),
        batch(19, 1, producer_id=9),
        marker(20, 8, commit=True),
        marker(21, 9, commit=False),
        batch(22, 5, producer_id=8),
        batch(27, 1, producer_id=7),
    ]
    found = sort_out(A, 10, 28, batches)
    assert (found.waiting, found.aborted, found.is_exact) == (3 + 4, 1, True)
    assert {each: (open_.records, open_.first_offset, open_.last_offset) for each, open_ in found.open.items()} == {
        7: (3, 10, 27),
        8: (5, 22, 26),
    }
    cut = sort_out(A, 10, 28, batches[:2])
    assert (cut.waiting, cut.waiting_max, cut.is_exact) == (3, 3 + 13, False)


def test_the_groups_of_a_transaction_are_found_by_its_partitions_of_offsets() -> None:
    groups = [GroupView("shop", "Stable", 1), GroupView("billing", "Stable", 1)]
    index = coordinator_partition("shop", 50)
    assert index != coordinator_partition("billing", 50)
    assert owners_of(view("Ongoing", A, TopicPartition(CONSUMER_OFFSETS, index)), groups, 50) == (groups[0],)
    assert owners_of(view("Ongoing", A), groups, 50) == ()


def seen(*states: TransactionView | None, later_ms: int = 100) -> list[list[Event]]:
    """What is told at each look after the first."""
    surveys = [Survey(() if each is None else (each,)) for each in states]
    looks = Seen(surveys[0])
    return [[each.event for each in looks.next(survey, NOW_MS + later_ms)] for survey in surveys[1:]]


def test_what_happened_between_two_looks() -> None:
    first, second = view("Ongoing", A), view("Ongoing", A, started_ms=NOW_MS)
    done, undone = view("CompleteCommit"), view("CompleteAbort")
    assert seen(None, first, view("Ongoing", A, B), view("PrepareCommit", A, B), done) == [
        [Event.BEGUN], [Event.GREW], [Event.COMMITTING], [Event.COMMITTED]
    ]  # fmt: skip
    assert seen(first, undone) == [[Event.ABORTED]]
    assert seen(first, undone, later_ms=60_000) == [[Event.EXPIRED]]
    assert seen(first, second) == [[Event.ENDED, Event.BEGUN]]
    assert seen(done, first, done) == [[Event.BEGUN], [Event.COMMITTED]]
    assert seen(done, replace(done, start_ms=NOW_MS)) == [[Event.COMMITTED]], "one began and ended in between"
    assert seen(done, replace(done, epoch=2, state="Empty")) == [[Event.FENCED]]
    assert seen(first, replace(first, epoch=2, state="Empty")) == [[Event.ABORTED, Event.FENCED]]
    assert seen(done, done, None) == [[], [Event.FORGOTTEN]]


def test_a_transaction_that_was_replaced_gives_its_duration_to_no_other() -> None:
    old = view("Ongoing", A, started_ms=NOW_MS - 5_000)
    for state, event in (
        ("Ongoing", Event.BEGUN),
        ("CompleteCommit", Event.COMMITTED),
        ("CompleteAbort", Event.ABORTED),
    ):
        news = Seen(Survey((old,))).next(Survey((view(state, A, started_ms=NOW_MS - 100),)), NOW_MS)
        assert [(each.event, each.duration_ms) for each in news] == [(Event.ENDED, 5_000), (event, None)]


def test_a_broker_that_does_not_answer_does_not_make_ids_look_forgotten() -> None:
    looks = Seen(Survey((view("Ongoing", A),)))
    assert looks.next(Survey((), DOWN), NOW_MS) == []
    assert [each.event for each in looks.next(Survey((view("CompleteCommit"),)), NOW_MS)] == [Event.COMMITTED]
    assert [each.event for each in Seen(Survey((view("Ongoing", A),))).opened(NOW_MS)] == [Event.BEGUN]
