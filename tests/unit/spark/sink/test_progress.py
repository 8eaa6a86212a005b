"""Progress: totals, and single transactions."""

import json

import pytest

from fencepost.errors import WriteFailed
from fencepost.spark.sink import progress
from fencepost.spark.sink.progress import SinkProgress, TransactionProgress
from tests.conftest import unique


def done(query: str, batch: int, **more: object) -> TransactionProgress:
    return TransactionProgress("shop", query, batch, **more)  # type: ignore[arg-type]


def test_sums_are_of_one_query() -> None:
    query = unique("query")
    assert progress.of_query(query) is None
    progress.note(done(query, 0, records={"a": 3, "b": 4}, bytes=10, commit_ms=2.0))
    progress.note_abort("shop", query)
    progress.note(done(query, 1, records={"a": 1}, bytes=5, commit_ms=1.0, aborted=1))
    progress.note(done(query, 1, was_skipped=True))
    progress.note(done(unique("query"), 0, records={"a": 100}))
    sums = progress.of_query(query)
    assert sums is not None
    assert (sums.committed, sums.aborted, sums.skipped, sums.records, sums.bytes) == (2, 1, 1, 8, 15)
    assert sums.commit_ms == 3.0
    first = sums.of_batch(0)
    assert first is not None and first.records == {"a": 3, "b": 4}
    assert sums.of_batch(9) is None


def test_the_sums_can_be_written_as_json() -> None:
    query = unique("query")
    progress.note(done(query, 0, records={"a": 3}))
    sums = progress.of_query(query)
    assert sums is not None
    found = sums.as_dict()
    assert (found["pipeline"], found["committed"], found["last"]["records"]) == ("shop", 1, {"a": 3})


def test_the_sums_can_be_read_again_with_the_last_transaction() -> None:
    query = unique("query")
    progress.note(done(query, 0, records={"a": 3}))
    progress.note(done(query, 1, records={"a": 4}, dead_letters={"too large": 2}, bytes=9, commit_ms=1.5))
    sums = progress.of_query(query)
    assert sums is not None
    found = SinkProgress.from_dict(query, json.loads(json.dumps(sums.as_dict())))
    assert found.as_dict() == sums.as_dict()
    assert found.last == sums.last


def test_what_another_version_tells_in_addition_is_ignored() -> None:
    told = SinkProgress("shop", "query", committed=1).as_dict()
    told |= {"last": {**done("query", 0).as_dict(), "colour": "blue"}, "weight": 3}
    assert SinkProgress.from_dict("query", told).last == done("query", 0)


def test_a_listener_hears_of_transactions_until_it_is_ended() -> None:
    heard: list[int] = []
    end = progress.subscribe(lambda found: heard.append(found.batch_id))
    query = unique("query")
    progress.note(done(query, 1))
    end()
    progress.note(done(query, 2))
    assert heard == [1]


def test_a_listener_that_fails_is_logged_and_does_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    """Otherwise its error would be taken for one of the batch, which is committed."""
    heard: list[int] = []

    def failing(found: TransactionProgress) -> None:
        raise WriteFailed("by the listener")

    ends = [progress.subscribe(failing), progress.subscribe(lambda found: heard.append(found.batch_id))]
    progress.note(done(unique("query"), 1))
    for end in ends:
        end()
    assert heard == [1]
    assert "a listener failed after batch 1" in caplog.text


def test_only_the_last_transactions_are_kept_in_detail() -> None:
    query = unique("query")
    for batch in range(progress.KEPT + 5):
        progress.note(done(query, batch))
    sums = progress.of_query(query)
    assert sums is not None
    assert (len(sums.recent), sums.committed) == (progress.KEPT, progress.KEPT + 5)
    assert sums.last is not None and sums.last.batch_id == progress.KEPT + 4
