"""Stories of transactions, as the coordinators' log tells them; and which batches a transaction wrote."""

from fencepost.console.history import KEPT, Ending, History, percentiles
from fencepost.console.logs import LogBatch, Outcome, with_markers
from fencepost.console.sampling import POINTS, Series
from fencepost.console.whole import choose
from fencepost.coordinator.txn.model import Transaction, TransactionVersion, encode, tombstone
from fencepost.coordinator.txn.states import TransactionState as State
from fencepost.wire.batch import read_header
from fencepost.wire.records import Record, encode_batch, encode_marker
from fencepost.wire.terms import TopicPartition

HERE = frozenset({TopicPartition("here", 0)})


def entry(state: State, time_ms: int, start_ms: int = 100, name: str = "t") -> Record:
    partitions = HERE if state not in (State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT) else frozenset()
    return encode(
        Transaction(
            transactional_id=name, producer_id=7, producer_epoch=1, timeout_ms=60_000, state=state, updated_ms=time_ms,
            partitions=partitions, start_ms=start_ms, client_version=TransactionVersion.V0,
        )
    )  # fmt: skip


def test_a_transaction_has_a_beginning_a_decision_and_an_end():
    history = History()
    for state, time_ms in ((State.EMPTY, 50), (State.ONGOING, 100), (State.PREPARE_COMMIT, 140)):
        history.apply(entry(state, time_ms))
    assert history.of("t")[0].ending is Ending.COMMITTED and history.of("t")[0].ended_ms is None
    history.apply(entry(State.COMPLETE_COMMIT, 150))
    (story,) = history.of("t")
    assert (story.duration_ms, story.decided_ms, story.partitions) == (50, 140, HERE)
    assert history.figures(1_000).percentiles_ms["p50"] == 50 and not history.open


def test_only_the_last_ones_are_shown_and_since_when_they_are_all():
    history = History()
    for number in range(3):
        for state in (State.ONGOING, State.PREPARE_COMMIT, State.COMPLETE_COMMIT):
            history.apply(entry(state, 200 + number, start_ms=100 + number))
    history.apply(entry(State.ONGOING, 300, start_ms=300))
    stories, since_ms = history.last(2)
    assert [each.start_ms for each in stories] == [101, 102, 300] and since_ms == 201
    assert history.last(3)[1] is None


def test_a_transaction_that_began_before_we_looked_is_not_told():
    history = History()
    history.apply(entry(State.COMPLETE_COMMIT, 150))
    assert not history.ended and not history.open


def test_an_id_that_is_forgotten_has_nothing_open():
    history = History()
    history.apply(entry(State.ONGOING, 100))
    history.apply(tombstone("t"))
    assert not history.open


def test_memory_is_bounded():
    history, series = History(), Series()
    for number in range(KEPT + 10):
        history.apply(entry(State.ONGOING, number, start_ms=number))
        history.apply(entry(State.PREPARE_ABORT, number, start_ms=number))
        history.apply(entry(State.COMPLETE_ABORT, number, start_ms=number))
        series.add("x", number, number)
    assert len(history.ended) == KEPT and len(series.of("x")) == POINTS


def test_percentiles_are_of_real_values():
    assert percentiles([]) == {}
    assert percentiles([5]) == {"p50": 5, "p95": 5, "p99": 5, "max": 5}
    assert percentiles(list(range(100))) == {"p50": 50, "p95": 95, "p99": 99, "max": 99}


def batch(offset: int, producer_id: int) -> LogBatch:
    data = encode_batch([Record(None, b"x", 1_000)], base_offset=offset, producer_id=producer_id, transactional=True)
    return LogBatch(read_header(data), Outcome.UNDECIDED)


def marker(offset: int, producer_id: int, *, commit: bool, time_ms: int = 1_000) -> LogBatch:
    data = encode_marker(
        commit=commit, coordinator_epoch=0, producer_id=producer_id, producer_epoch=0, timestamp=time_ms
    )
    header = read_header(data)._replace(base_offset=offset)
    return LogBatch(header, Outcome.COMMIT_MARKER if commit else Outcome.ABORT_MARKER)


def test_the_next_marker_of_its_producer_decides_a_batch():
    found = with_markers(
        [batch(0, 1), batch(1, 2), marker(2, 1, commit=True), batch(3, 1), marker(4, 2, commit=False), batch(5, 2)]
    )
    assert [(each.outcome, each.ends_at) for each in found if not each.outcome.is_marker] == [
        (Outcome.COMMITTED, 2),
        (Outcome.ABORTED, 4),
        (Outcome.UNDECIDED, None),
        (Outcome.UNDECIDED, None),
    ]


def test_a_transaction_is_found_by_the_time_of_its_marker():
    seen = with_markers(
        [batch(0, 1), marker(1, 1, commit=True, time_ms=10_000), batch(2, 1), marker(3, 1, commit=True, time_ms=12_000)]
    )
    assert [each.header.base_offset for each in choose(seen, 11_900)] == [2]
    assert [each.header.base_offset for each in choose(seen, 9_000)] == [0]
    assert choose(seen, 60_000) == []
