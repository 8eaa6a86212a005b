"""Offsets in force and pending: the log's order decides, and nothing else."""

from fencepost.coordinator.group.machine import Offsets
from fencepost.coordinator.group.records import Commit
from fencepost.wire.terms import TopicPartition

WHERE = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)


def commit(offset: int, log_offset: int) -> Commit:
    return Commit(offset, -1, "", 0, log_offset=log_offset)


def test_a_commit_in_a_transaction_waits_for_its_marker():
    offsets = Offsets()
    offsets.commit_later(1, "g", WHERE, commit(5, 0))
    assert not offsets.committed("g") and offsets.is_pending("g", WHERE)
    offsets.end_transaction(1, commit=True)
    assert offsets.committed("g")[WHERE].offset == 5
    assert not offsets.is_pending("g", WHERE) and not offsets.has_open_transaction("g")


def test_an_abort_drops_it():
    offsets = Offsets()
    offsets.commit_later(1, "g", WHERE, commit(5, 0))
    offsets.end_transaction(1, commit=False)
    assert not offsets.committed("g") and not offsets.has_open_transaction("g")


def test_a_plain_commit_made_meanwhile_is_not_overwritten():
    offsets = Offsets()
    offsets.commit_later(1, "g", WHERE, commit(5, 0))
    offsets.commit("g", WHERE, commit(9, 1))
    offsets.end_transaction(1, commit=True)
    assert offsets.committed("g")[WHERE].offset == 9


def test_a_plain_commit_made_before_is_overwritten():
    offsets = Offsets()
    offsets.commit("g", WHERE, commit(9, 0))
    offsets.commit_later(1, "g", WHERE, commit(5, 1))
    offsets.end_transaction(1, commit=True)
    assert offsets.committed("g")[WHERE].offset == 5


def test_two_transactions_on_one_partition_are_told_apart():
    offsets = Offsets()
    offsets.commit_later(1, "g", WHERE, commit(5, 0))
    offsets.commit_later(2, "g", WHERE, commit(6, 1))
    offsets.end_transaction(2, commit=True)
    assert offsets.is_pending("g", WHERE)
    offsets.end_transaction(1, commit=True)
    assert offsets.committed("g")[WHERE].offset == 6


def test_a_tombstone_takes_what_is_pending_too_and_the_group_is_free_after_the_marker():
    offsets = Offsets()
    offsets.commit("g", WHERE, commit(1, 0))
    offsets.commit_later(1, "g", WHERE, commit(5, 1))
    offsets.remove("g", WHERE)
    assert not offsets.known("g") and offsets.has_open_transaction("g")
    offsets.end_transaction(1, commit=True)
    assert not offsets.committed("g") and not offsets.has_open_transaction("g")


def test_a_marker_may_come_again_or_for_nothing():
    offsets = Offsets()
    offsets.commit_later(1, "g", OTHER, commit(5, 0))
    for _ in range(2):
        offsets.end_transaction(1, commit=True)
        offsets.end_transaction(7, commit=True)
    assert offsets.committed("g")[OTHER].offset == 5
