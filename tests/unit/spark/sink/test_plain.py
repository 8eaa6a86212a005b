"""Transactional ids of batch queries: reused, and never used by two writes at a time."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

from fencepost.spark.sink.plain import BatchIds


def test_one_write_after_the_other_has_the_same_id_also_after_a_failure() -> None:
    ids, seen = BatchIds(), []
    for _ in range(3):
        with contextlib.suppress(RuntimeError), ids.lend("local-1") as name:
            seen.append(name)
            raise RuntimeError("on purpose")
    assert seen == [seen[0]] * 3
    assert seen[0].startswith("fencepost-batch-local-1-")


def test_writes_at_the_same_time_have_different_ids() -> None:
    ids, all_hold, count = BatchIds(), threading.Barrier(8, timeout=20), 8

    def hold(_: int) -> str:
        with ids.lend("local-1") as name:
            all_hold.wait()
            return name

    with ThreadPoolExecutor(count) as pool:
        first = set(pool.map(hold, range(count)))
        second = set(pool.map(hold, range(count)))
    assert len(first) == count
    assert first == second, "and no more than are needed at a time"


def test_a_slot_that_is_free_is_taken_before_a_new_one() -> None:
    ids = BatchIds()
    with ids.lend("a") as first:
        with ids.lend("a"), ids.lend("b") as elsewhere:
            assert elsewhere.split("-")[-1] == "0", "applications have slots of their own"
        with ids.lend("a") as again:
            assert again.split("-")[-1] == "1"
    with ids.lend("a") as last:
        assert last == first


def test_processes_never_share_an_id() -> None:
    with BatchIds().lend("local-1") as one, BatchIds().lend("local-1") as other:
        assert one != other
