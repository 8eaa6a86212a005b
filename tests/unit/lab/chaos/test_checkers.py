"""Every anomaly is found in a history that has it, and none in one that looks like it and is right."""

import pytest

from fencepost.lab.chaos.anomaly import Kind
from fencepost.lab.chaos.checkers import check
from fencepost.lab.chaos.history import Function, Status
from tests.fakes.histories import Script

UNCOMMITTED = "read_uncommitted"


@pytest.fixture
def script() -> Script:
    return Script()


def test_an_empty_history_is_clean():
    assert check([]) == []


def test_a_history_of_everything_that_is_right_is_clean(script: Script):
    script.session("r1", ("a", 0, 0), ("b", 0, 0))
    script.session("r2", ("a", 0, 0), isolation=UNCOMMITTED)
    script.committed("p1", ("a", 0, "x1"), ("b", 0, "x2"))
    script.poll("r1", "a", 0, (0, "x1"))
    script.aborted("p1", ("a", 0, "y1"))
    script.poll("r2", "a", 0, (0, "x1"), (2, "y1"))
    script.unknown("p2", ("a", 0, "z1"), ("b", 0, "z2"))  # took effect
    script.unknown("p2", ("a", 0, "u1"), ("b", 0, "u2"))  # did not
    script.sends("s1", ("a", 0, "s1"), ("a", 0, "s2"), s1=6)
    loop = {"group": "g", "offsets": [["a", 0, 5]], "inputs": [["a", 0, 0, "x1"], ["a", 0, 4, "z1"]]}
    script.watch("g")
    script.committed("l1", ("out", 0, "o1"), ("out", 0, "o2"), **loop)
    script.watch("g", ("a", 0, 5))
    script.poll("r1", "a", 0, (4, "z1"), (6, "s1"))
    for reader in ("librdkafka", "kafka-python"):
        script.drain("a", 0, (0, "x1"), (4, "z1"), (6, "s1"), reader=reader)
    script.drain("a", 0, (0, "x1"), (2, "y1"), (4, "z1"), (6, "s1"), isolation=UNCOMMITTED)
    script.drain("b", 0, (0, "x2"), (2, "z2"))
    script.drain("out", 0, (0, "o1"), (1, "o2"))
    script.watch("g", ("a", 0, 5))
    assert script.anomalies() == []


# -- lost writes ------------------------------------------------------------------------------------------------------


def test_a_committed_write_that_is_gone_is_a_lost_write(script: Script):
    script.committed("p1", ("a", 0, "x1"))
    script.drain("a", 0)
    (found,) = script.anomalies()
    assert found.kind is Kind.LOST_WRITE
    assert "x1" in found.text
    assert [op.function for op in found.ops] == [Function.TXN, Function.END, Function.TXN]


def test_an_acknowledged_send_that_is_gone_is_a_lost_write_and_one_without_an_answer_is_not(script: Script):
    script.sends("s1", ("a", 0, "x1"), ("a", 0, "x2"), x1=0)
    script.drain("a", 0)
    (found,) = script.anomalies()
    assert found.kind is Kind.LOST_WRITE
    assert "x1" in found.text and "x2" not in found.text


def test_an_unknown_transaction_may_be_there_or_not(script: Script):
    script.unknown("p1", ("a", 0, "x1"), ("b", 0, "x2"))
    script.unknown("p1", ("a", 0, "y1"), ("b", 0, "y2"))
    script.drain("a", 0, (2, "y1"))
    script.drain("b", 0, (2, "y2"))
    assert script.anomalies() == []


# -- duplicates -------------------------------------------------------------------------------------------------------


def test_a_write_at_two_offsets_is_a_duplicate(script: Script):
    script.committed("p1", ("a", 0, "x1"))
    script.drain("a", 0, (0, "x1"), (1, "x1"))
    assert Kind.DUPLICATE in script.kinds()


def test_an_aborted_write_at_two_offsets_is_a_duplicate_too(script: Script):
    script.aborted("p1", ("a", 0, "x1"))
    script.drain("a", 0)
    script.drain("a", 0, (0, "x1"), (1, "x1"), isolation=UNCOMMITTED)
    assert script.kinds() == {Kind.DUPLICATE}


# -- aborted and precommitted reads -----------------------------------------------------------------------------------


def test_reading_what_was_aborted_is_an_aborted_read(script: Script):
    script.aborted("p1", ("a", 0, "x1"))
    script.drain("a", 0, (0, "x1"))
    assert Kind.ABORTED_READ in script.kinds()


def test_reading_what_nobody_asked_to_commit_is_an_aborted_read(script: Script):
    script.begin("p1", ("a", 0, "x1"))  # and then it was killed
    script.drain("a", 0, (0, "x1"))
    assert script.kinds() == {Kind.ABORTED_READ}


def test_a_loop_that_consumes_what_was_aborted_has_read_it(script: Script):
    script.aborted("p1", ("a", 0, "x1"))
    script.begin("l1", ("out", 0, "o1"), group="g", offsets=[["a", 0, 1]], inputs=[["a", 0, 0, "x1"]])
    assert Kind.ABORTED_READ in script.kinds()


def test_a_read_uncommitted_reader_may_see_what_was_aborted(script: Script):
    script.session("r1", ("a", 0, 0), isolation=UNCOMMITTED)
    script.aborted("p1", ("a", 0, "x1"))
    script.poll("r1", "a", 0, (0, "x1"))
    assert script.anomalies() == []


def test_reading_before_the_commit_was_asked_for_is_a_precommitted_read(script: Script):
    script.session("r1", ("a", 0, 0))
    number = script.begin("p1", ("a", 0, "x1"))
    script.poll("r1", "a", 0, (0, "x1"))
    script.ask_to_commit("p1", number)
    script.told("p1", number, Status.OK)
    script.drain("a", 0, (0, "x1"))
    assert script.kinds() == {Kind.PRECOMMITTED_READ}


def test_reading_before_the_commit_was_answered_is_right(script: Script):
    script.session("r1", ("a", 0, 0))
    number = script.begin("p1", ("a", 0, "x1"))
    script.ask_to_commit("p1", number)
    script.poll("r1", "a", 0, (0, "x1"))
    script.told("p1", number, Status.OK)
    script.drain("a", 0, (0, "x1"))
    assert script.anomalies() == []


# -- torn transactions ------------------------------------------------------------------------------------------------


def test_half_of_an_unknown_transaction_is_torn(script: Script):
    script.unknown("p1", ("a", 0, "x1"), ("b", 0, "x2"))
    script.drain("a", 0, (0, "x1"))
    script.drain("b", 0)
    assert script.kinds() == {Kind.TORN_TRANSACTION}


def test_half_of_a_committed_transaction_is_lost_and_torn(script: Script):
    script.committed("p1", ("a", 0, "x1"), ("b", 0, "x2"))
    script.drain("a", 0, (0, "x1"))
    script.drain("b", 0)
    assert script.kinds() == {Kind.LOST_WRITE, Kind.TORN_TRANSACTION}


def test_a_part_that_was_seen_once_decides_the_outcome_of_all(script: Script):
    script.session("r1", ("a", 0, 0))
    script.unknown("p1", ("a", 0, "x1"), ("b", 0, "x2"))
    script.poll("r1", "a", 0, (0, "x1"))
    script.drain("a", 0)
    script.drain("b", 0)
    assert script.kinds() == {Kind.TORN_TRANSACTION, Kind.VANISHED_READ}


def test_records_without_their_offsets_are_torn(script: Script):
    script.committed("q1", ("a", 0, "x1"), group="g", offsets=[["a", 0, 7]])
    script.drain("a", 0, (0, "x1"))
    script.watch("g")
    assert script.kinds() == {Kind.TORN_TRANSACTION}


def test_offsets_without_their_records_are_torn(script: Script):
    script.unknown("q1", ("a", 0, "x1"), group="g", offsets=[["a", 0, 7]])
    script.drain("a", 0)
    script.watch("g", ("a", 0, 7))
    assert script.kinds() == {Kind.TORN_TRANSACTION}


# -- order and agreement ----------------------------------------------------------------------------------------------


def test_another_order_than_the_one_of_sending_is_found(script: Script):
    script.committed("p1", ("a", 0, "x1"), ("a", 0, "x2"))
    script.drain("a", 0, (0, "x2"), (1, "x1"))
    assert script.kinds() == {Kind.REORDERED}


def test_a_transactional_producers_order_outlasts_its_restart(script: Script):
    script.committed("p1", ("a", 0, "x1"))
    script.committed("p1", ("a", 0, "x2"), incarnation=2)
    script.drain("a", 0, (0, "x2"), (2, "x1"))
    assert script.kinds() == {Kind.REORDERED}


def test_an_incarnation_that_slept_before_its_first_transaction_fences_its_successor(script: Script):
    script.committed("p1", ("a", 0, "x1"), incarnation=2)
    script.committed("p1", ("a", 0, "x2"), incarnation=1)
    script.drain("a", 0, (0, "x1"), (2, "x2"))
    assert script.anomalies() == []


def test_an_incarnation_that_writes_after_it_was_fenced_is_found(script: Script):
    script.committed("p1", ("a", 0, "x1"), incarnation=1)
    script.committed("p1", ("a", 0, "y1"), incarnation=2)
    script.committed("p1", ("a", 0, "x2"), incarnation=1)
    script.drain("a", 0, (0, "x1"), (2, "y1"), (4, "x2"))
    assert script.kinds() == {Kind.REORDERED}


def test_a_plain_producers_late_record_may_come_after_its_successors(script: Script):
    script.sends("s1", ("a", 0, "x1"))
    script.sends("s1", ("a", 0, "x2"), incarnation=2, x2=0)
    script.drain("a", 0, (0, "x2"), (1, "x1"))
    assert script.anomalies() == []


def test_two_readers_with_two_records_at_one_offset_disagree(script: Script):
    script.session("r1", ("a", 0, 0))
    script.committed("p1", ("a", 0, "x1"))
    script.committed("p2", ("a", 0, "y1"))
    script.poll("r1", "a", 0, (0, "y1"))
    script.drain("a", 0, (0, "x1"), (2, "y1"))
    assert Kind.INCONSISTENT_OFFSET in script.kinds()


def test_a_record_elsewhere_than_acknowledged_is_found(script: Script):
    script.sends("s1", ("a", 0, "x1"), x1=5)
    script.drain("a", 0, (6, "x1"))
    assert script.kinds() == {Kind.INCONSISTENT_OFFSET}


def test_two_libraries_that_drain_must_find_the_same(script: Script):
    script.unknown("p1", ("a", 0, "x1"))
    script.drain("a", 0, (0, "x1"))
    script.drain("a", 0, reader="kafka-python")
    assert script.kinds() == {Kind.INCONSISTENT_OFFSET}


def test_what_was_seen_and_is_gone_has_vanished(script: Script):
    script.session("r1", ("a", 0, 0))
    script.unknown("p1", ("a", 0, "x1"))
    script.poll("r1", "a", 0, (0, "x1"))
    script.drain("a", 0)
    assert Kind.VANISHED_READ in script.kinds()


def test_a_record_that_nobody_wrote_there_is_a_phantom(script: Script):
    script.committed("p1", ("a", 0, "x1"))
    script.drain("a", 0)
    script.drain("b", 0, (0, "x1"), (1, "who?"))
    found = [anomaly.text for anomaly in script.anomalies() if anomaly.kind is Kind.PHANTOM]
    assert len(found) == 2
    assert "written to a-0" in found[0] and "nobody wrote it" in found[1]


# -- a compacted topic ------------------------------------------------------------------------------------------------


def test_compaction_may_remove_what_a_later_value_of_the_key_supersedes(script: Script):
    script.committed("k1", ("a", 0, "x1"), ("a", 0, "y1"), keys=["x", "y"])
    script.committed("k1", ("a", 0, "x2"), keys=["x"])
    script.drain("a", 0, (1, "y1"), (3, "x2"))
    script.drain("a", 0, (0, "x1"), (1, "y1"), (3, "x2"), reader="before it was compacted")
    assert script.anomalies() == []


def test_the_last_committed_value_of_a_key_must_be_there(script: Script):
    script.committed("k1", ("a", 0, "x1"), keys=["x"])
    script.committed("k1", ("a", 0, "x2"), keys=["x"])
    script.aborted("k1", ("a", 0, "x3"), keys=["x"])
    script.drain("a", 0, (0, "x1"))
    (found,) = script.anomalies()
    assert found.kind is Kind.LOST_WRITE and "x2" in found.text


def test_a_key_of_another_process_supersedes_nothing(script: Script):
    script.committed("k1", ("a", 0, "x1"), keys=["x"])
    script.committed("k2", ("a", 0, "x2"), keys=["x"])
    script.drain("a", 0, (2, "x2"))
    assert script.kinds() == {Kind.LOST_WRITE}


# -- polls ------------------------------------------------------------------------------------------------------------


def records(script: Script, count: int) -> list[tuple[int, str]]:
    for number in range(count):
        script.committed("p1", ("a", 0, f"x{number}"))
    return [(2 * number, f"x{number}") for number in range(count)]


def test_a_reader_that_passes_over_a_record_has_skipped_it(script: Script):
    first, second, third = records(script, 3)
    script.session("r1", ("a", 0, 0))
    script.poll("r1", "a", 0, first)
    script.poll("r1", "a", 0, third)
    script.drain("a", 0, first, second, third)
    (found,) = script.anomalies()
    assert found.kind is Kind.SKIPPED_POLL
    assert len(found.ops) == 2


def test_a_reader_that_begins_too_late_has_skipped_as_well(script: Script):
    first, second = records(script, 2)
    script.session("r1", ("a", 0, 0))
    script.poll("r1", "a", 0, second)
    script.drain("a", 0, first, second)
    assert script.kinds() == {Kind.SKIPPED_POLL}


def test_a_reader_that_was_told_to_begin_later_has_not(script: Script):
    first, second = records(script, 2)
    script.session("r1", ("a", 0, 1))
    script.poll("r1", "a", 0, second)
    script.drain("a", 0, first, second)
    assert script.anomalies() == []


def test_a_reader_that_goes_back_is_found(script: Script):
    first, second = records(script, 2)
    script.session("r1", ("a", 0, 0))
    script.poll("r1", "a", 0, first, second, first)
    script.drain("a", 0, first, second)
    assert script.kinds() == {Kind.NON_MONOTONIC_POLL}


# -- groups -----------------------------------------------------------------------------------------------------------


def test_a_committed_offset_that_falls_is_found(script: Script):
    script.committed("q1", group="g", offsets=[["a", 0, 3]])
    script.watch("g", ("a", 0, 3))
    script.committed("q1", group="g", offsets=[["a", 0, 2]])
    script.watch("g", ("a", 0, 2))
    assert script.kinds() == {Kind.OFFSET_WENT_BACK}


def test_a_committed_offset_that_disappears_is_found(script: Script):
    script.committed("q1", group="g", offsets=[["a", 0, 3]])
    script.watch("g", ("a", 0, 3))
    script.watch("g")
    assert script.kinds() == {Kind.OFFSET_WENT_BACK}


def test_two_looks_at_the_same_time_may_differ(script: Script):
    script.committed("q1", group="g", offsets=[["a", 0, 2]])
    script.committed("q1", group="g", offsets=[["a", 0, 3]])
    early = script.now_ns - 2
    script.watch("g", ("a", 0, 3))
    offsets = [["a", 0, 2]]
    script.log("w2", Function.COMMITTED, Status.OK, group="g", began=early, offsets=offsets)
    assert script.anomalies() == []


def test_the_offset_of_an_aborted_transaction_is_wrong(script: Script):
    script.aborted("q1", group="g", offsets=[["a", 0, 3]])
    script.watch("g", ("a", 0, 3))
    assert script.kinds() == {Kind.WRONG_OFFSET}


def test_an_offset_before_its_commit_was_asked_for_is_wrong(script: Script):
    number = script.begin("q1", group="g", offsets=[["a", 0, 3]])
    script.watch("g", ("a", 0, 3))
    script.ask_to_commit("q1", number)
    script.told("q1", number, Status.OK)
    assert script.kinds() == {Kind.WRONG_OFFSET}


# -- exactly once -----------------------------------------------------------------------------------------------------


def consume(script: Script, loop: str, *writes: tuple[str, int, str], inputs: list[list[object]], end: int) -> None:
    script.committed(loop, *writes, group="g", offsets=[["a", 0, end]], inputs=inputs)


def test_an_input_with_two_outputs_was_not_done_exactly_once(script: Script):
    (first,) = records(script, 1)
    consume(script, "l1", ("out", 0, "o1"), inputs=[["a", 0, 0, "x0"]], end=1)
    consume(script, "l2", ("out", 0, "o2"), inputs=[["a", 0, 0, "x0"]], end=1)
    script.drain("a", 0, first)
    script.drain("out", 0, (0, "o1"), (2, "o2"))
    script.watch("g", ("a", 0, 1))
    assert script.kinds() == {Kind.NOT_EXACTLY_ONCE}


def test_an_input_that_was_passed_over_was_not_done_exactly_once(script: Script):
    first, second = records(script, 2)
    consume(script, "l1", ("out", 0, "o1"), inputs=[["a", 0, 2, "x1"]], end=3)
    script.drain("a", 0, first, second)
    script.drain("out", 0, (0, "o1"))
    script.watch("g", ("a", 0, 3))
    assert script.kinds() == {Kind.NOT_EXACTLY_ONCE}


def test_an_input_behind_the_committed_offset_may_wait(script: Script):
    first, second = records(script, 2)
    consume(script, "l1", ("out", 0, "o1"), inputs=[["a", 0, 0, "x0"]], end=1)
    script.drain("a", 0, first, second)
    script.drain("out", 0, (0, "o1"))
    script.watch("g", ("a", 0, 1))
    assert script.anomalies() == []


# -- what the run itself saw ------------------------------------------------------------------------------------------


def test_whatever_is_stuck_or_surprising_is_an_anomaly(script: Script):
    script.log("run", Function.STUCK, Status.INFO, what="l1 makes no progress")
    script.log("r1", Function.SURPRISE, Status.INFO, what="offset out of range")
    assert script.kinds() == {Kind.STUCK, Kind.SURPRISE}
