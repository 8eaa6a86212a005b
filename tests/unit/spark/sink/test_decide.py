"""Run, skip or refuse: the whole table."""

import itertools
from dataclasses import replace

import pytest

from fencepost.errors import BatchRefused
from fencepost.spark.ledger import InCheckpoint, LedgerEntry, Reached
from fencepost.spark.sink import decide as decisions
from fencepost.spark.sink.decide import SHOWN_MAX, BatchDecision, check_checkpoint, check_topics
from fencepost.spark.sink.microbatch import MicroBatch
from fencepost.wire.terms import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("a", 1)
Place = int | frozenset[int]


def reached(places: dict[TopicPartition, Place]) -> dict[TopicPartition, Reached]:
    return {where: frozenset({place}) if isinstance(place, int) else place for where, place in places.items()}


def batch(start: dict[TopicPartition, Place], end: dict[TopicPartition, Place]) -> MicroBatch:
    return MicroBatch("query", "run", 7, reached(start), reached(end))


def last(query: str, batch_id: int) -> LedgerEntry:
    return LedgerEntry(query, batch_id, {})


def decide(given: MicroBatch, committed: dict[TopicPartition, Place], entry: LedgerEntry | None) -> BatchDecision:
    return decisions.decide(given, reached(committed), entry)


OTHER = last("another query", 7)
ME, BEFORE, AFTER = last("query", 7), last("query", 6), last("query", 8)
ONE = batch({A: 10, B: 20}, {A: 15, B: 25})


@pytest.mark.parametrize("entry", [OTHER, BEFORE])
def test_a_batch_that_begins_where_the_pipeline_stopped_is_run(entry: LedgerEntry) -> None:
    assert decide(ONE, {A: 10, B: 20}, entry) is BatchDecision.RUN


@pytest.mark.parametrize("entry", [OTHER, ME])
def test_a_batch_that_ends_where_the_pipeline_stopped_is_skipped(entry: LedgerEntry) -> None:
    assert decide(ONE, {A: 15, B: 25}, entry) is BatchDecision.SKIP


def test_a_batch_that_has_been_committed_with_other_offsets_is_refused() -> None:
    with pytest.raises(BatchRefused, match="has been committed, but with other offsets: a-0: the batch is 10 to 15"):
        decide(ONE, {A: 10, B: 25}, ME)


def test_a_batch_that_has_not_been_committed_is_not_skipped_for_its_offsets() -> None:
    with pytest.raises(BatchRefused, match="would repeat records"):
        decide(ONE, {A: 15, B: 25}, BEFORE)


def test_a_batch_that_is_older_than_the_last_one_is_refused() -> None:
    with pytest.raises(BatchRefused, match="older than batch 8"):
        decide(ONE, {A: 10, B: 20}, AFTER)
    with pytest.raises(BatchRefused, match="older than batch 8"):
        decide(batch({A: 10}, {A: 10}), {A: 10}, AFTER)


def test_batches_that_the_users_function_passed_over_leave_a_gap_that_is_no_loss() -> None:
    """Spark has ended batches 4 to 6, so whoever was called for them had nothing to write."""
    before = LedgerEntry("query", 3, {A: 4, B: 20})
    assert decide(ONE, {A: 4, B: 20}, before) is BatchDecision.RUN
    with pytest.raises(BatchRefused, match="would repeat"):
        decide(ONE, {A: 12, B: 20}, LedgerEntry("query", 3, {A: 12, B: 20}))
    with pytest.raises(BatchRefused, match="would skip"):  # the group's offsets were changed since
        decide(ONE, {A: 3, B: 20}, before)
    with pytest.raises(BatchRefused, match="would skip"):  # there is no batch in between
        decide(ONE, {A: 4, B: 20}, LedgerEntry("query", 6, {A: 4, B: 20}))
    with pytest.raises(BatchRefused, match="would skip"):
        decide(ONE, {A: 4, B: 20}, LedgerEntry("another query", 3, {A: 4, B: 20}))


def test_a_batch_after_one_that_failed_is_refused() -> None:
    for entry in (replace(BEFORE, failed=("query", 6)), replace(OTHER, failed=("query", 6))):
        with pytest.raises(BatchRefused, match=r"batch 6 of query query failed .* swallowed"):
            decide(ONE, {A: 10, B: 20}, entry)
    for failed in (("query", 7), ("another query", 6)):  # it is being done again; it is not this query's
        assert decide(ONE, {A: 10, B: 20}, replace(BEFORE, failed=failed)) is BatchDecision.RUN


def test_a_source_that_goes_on_without_lost_records_says_where_it_should_have_begun() -> None:
    later = replace(ONE, skipped={A: 4})
    assert decide(later, {A: 4, B: 20}, OTHER) is BatchDecision.RUN
    assert decide(later, {A: 10, B: 20}, OTHER) is BatchDecision.RUN
    with pytest.raises(BatchRefused):
        decide(later, {A: 5, B: 20}, OTHER)


def test_sources_that_stand_apart_in_a_partition_are_compared_all_of_them() -> None:
    apart = batch({A: frozenset({10, 12})}, {A: frozenset({15, 20})})
    assert decide(apart, {A: frozenset({10, 12})}, OTHER) is BatchDecision.RUN
    assert decide(apart, {A: frozenset({15, 20})}, OTHER) is BatchDecision.SKIP
    with pytest.raises(BatchRefused, match="the batch is 10 and 12 to 15 and 20, committed is 10"):
        decide(apart, {A: 10}, OTHER)
    assert apart.moved == {A: 15}


def test_a_topic_that_was_created_again_is_refused_unless_its_source_knows() -> None:
    was, now = LedgerEntry("query", 6, {A: 10}, topics={"a": "old"}), {"a": "new"}
    with pytest.raises(BatchRefused, match=r"topic 'a' was deleted and created again .*topic id old, now topic id new"):
        check_topics(replace(ONE, topics=now), was)
    with pytest.raises(BatchRefused):
        check_topics(replace(ONE, topics=now, replaced={"a": "even older"}), was)
    assert check_topics(replace(ONE, topics=now, replaced={"a": "old"}), was) == {"a"}
    assert check_topics(replace(ONE, topics={"a": "old"}), was) == frozenset()
    assert check_topics(ONE, was) == check_topics(replace(ONE, topics=now), None) == frozenset()


STATE, POSITIONS = frozenset({InCheckpoint.STATE}), frozenset({InCheckpoint.POSITIONS})
FIRST = replace(ONE, batch_id=0, others=("files",))


@pytest.mark.parametrize(
    ("given", "kept", "entry", "lost"),
    [
        (FIRST, STATE, replace(OTHER, in_checkpoint=STATE), "the state of Spark's own stateful operators"),
        (FIRST, POSITIONS, replace(OTHER, in_checkpoint=POSITIONS | STATE), "the position of files"),
        (FIRST, STATE, replace(OTHER, in_checkpoint=None), "the state of Spark's own stateful operators"),
        (FIRST, frozenset(), replace(OTHER, in_checkpoint=STATE), None),
        (FIRST, STATE, replace(OTHER, in_checkpoint=frozenset()), None),
        (FIRST, STATE, replace(OTHER, in_checkpoint=POSITIONS), None),
        (FIRST, STATE, None, None),
        (ONE, STATE, replace(ME, in_checkpoint=STATE), None),
        (ONE, STATE, replace(OTHER, in_checkpoint=STATE), None),
        (ONE, STATE, replace(OTHER, batch_id=8, in_checkpoint=STATE), "the state of Spark's own stateful operators"),
    ],
    ids=[
        "state",
        "positions",
        "an entry that does not say",
        "a query without",
        "a predecessor without",
        "something else",
        "a new pipeline",
        "the same query",
        "only the query's id is lost",
        "a checkpoint that is behind",
    ],
)
def test_a_new_checkpoint_loses_what_the_old_one_held_alone(
    given: MicroBatch, kept: frozenset[InCheckpoint], entry: LedgerEntry | None, lost: str | None
) -> None:
    assert check_checkpoint(given, kept, entry) == lost


def test_a_pipeline_without_any_commit_begins_anywhere() -> None:
    assert decide(ONE, {}, None) is BatchDecision.RUN


def test_a_partition_without_a_commit_fits_a_beginning_only() -> None:
    assert decide(ONE, {A: 10}, OTHER) is BatchDecision.RUN
    with pytest.raises(BatchRefused):
        decide(ONE, {A: 15}, OTHER)


def test_a_partition_that_is_new_in_the_batch_has_no_start() -> None:
    assert decide(batch({A: 10}, {A: 15, B: 25}), {A: 10}, OTHER) is BatchDecision.RUN
    assert decide(batch({A: 10}, {A: 15, B: 25}), {A: 15, B: 25}, OTHER) is BatchDecision.SKIP
    with pytest.raises(BatchRefused):
        decide(batch({A: 10}, {A: 15, B: 25}), {A: 10, B: 3}, OTHER)


@pytest.mark.parametrize("entry", [None, OTHER, BEFORE, last("another query", 8)])
def test_a_batch_that_moves_no_offset_is_run_unless_it_was_the_last(entry: LedgerEntry | None) -> None:
    still = batch({A: 10}, {A: 10})
    assert decide(still, {A: 10}, entry) is BatchDecision.RUN
    assert decide(still, {A: 10}, ME) is BatchDecision.SKIP


def test_a_batch_without_kafka_offsets_is_known_by_its_number_alone() -> None:
    assert decide(batch({}, {}), {A: 3}, BEFORE) is BatchDecision.RUN
    assert decide(batch({}, {}), {A: 3}, ME) is BatchDecision.SKIP


def test_partitions_that_the_batch_does_not_read_do_not_matter() -> None:
    assert decide(batch({A: 10}, {A: 15}), {A: 10, B: 99}, OTHER) is BatchDecision.RUN


def test_a_partition_that_stands_still_fits_either_way() -> None:
    some = batch({A: 10, B: 20}, {A: 15, B: 20})
    assert decide(some, {A: 10, B: 20}, OTHER) is BatchDecision.RUN
    assert decide(some, {A: 15, B: 20}, OTHER) is BatchDecision.SKIP
    assert decide(some, {A: 15}, OTHER) is BatchDecision.SKIP


def test_it_runs_only_what_begins_and_skips_only_what_ends_everywhere() -> None:
    """Every place that two partitions can stand at: before, at the start, between, at the end, behind, nowhere."""
    places = [None, 5, 10, 12, 15, 30]
    for a, b in itertools.product(places, places):
        committed: dict[TopicPartition, Place] = {w: place for w, place in ((A, a), (B, b)) if place is not None}
        two = batch({A: 10, B: 10}, {A: 15, B: 15})
        if {a, b} <= {None, 10}:
            assert decide(two, committed, OTHER) is BatchDecision.RUN
        elif {a, b} == {15}:
            assert decide(two, committed, OTHER) is BatchDecision.SKIP
        else:
            with pytest.raises(BatchRefused):
                decide(two, committed, OTHER)


def test_a_refusal_says_what_was_seen_and_what_to_do() -> None:
    with pytest.raises(BatchRefused) as refused:
        decide(ONE, {A: 30, B: 20}, OTHER)
    said = str(refused.value)
    assert "batch 7 of query query" in said
    assert f"{A}: the batch is 10 to 15, committed is 30" in said
    assert "would repeat records" in said
    assert "Nothing was written" in said
    assert "startingOffsets=committed" in said


def test_a_gap_is_told_from_a_repetition() -> None:
    with pytest.raises(BatchRefused, match="would skip records"):
        decide(ONE, {A: 3, B: 20}, OTHER)


def test_a_refusal_of_many_partitions_stays_short() -> None:
    places = [TopicPartition("a", number) for number in range(20)]
    many = batch(dict.fromkeys(places, 1), dict.fromkeys(places, 2))
    with pytest.raises(BatchRefused, match=f"and {20 - SHOWN_MAX} more partitions"):
        decide(many, dict.fromkeys(places, 9), OTHER)
