"""Run, skip or refuse: the whole table."""

import itertools
from dataclasses import replace

import pytest

from fencepost.errors import BatchRefused
from fencepost.spark.ledger import InCheckpoint, LedgerEntry, Reached, Reset
from fencepost.spark.sink import decide as decisions
from fencepost.spark.sink.decide import SHOWN_MAX, BatchDecision, check_checkpoint, check_topics
from fencepost.spark.sink.microbatch import MicroBatch
from fencepost.wire.terms import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("a", 1)
RUN, SKIP = BatchDecision.RUN, BatchDecision.SKIP
Place = int | frozenset[int]
Places = dict[TopicPartition, Place]


def reached(places: Places) -> dict[TopicPartition, Reached]:
    return {where: frozenset({place}) if isinstance(place, int) else place for where, place in places.items()}


def batch(start: Places, end: Places) -> MicroBatch:
    return MicroBatch("query", "run", 7, reached(start), reached(end))


def last(query: str, batch_id: int, offsets: dict[TopicPartition, int] | None = None) -> LedgerEntry:
    return LedgerEntry(query, batch_id, offsets or {})


def decide(given: MicroBatch, committed: Places, entry: LedgerEntry | None) -> BatchDecision:
    return decisions.decide(given, reached(committed), entry)


OTHER = last("another query", 7)
ME, BEFORE, AFTER = last("query", 7), last("query", 6), last("query", 8)
ONE = batch({A: 10, B: 20}, {A: 15, B: 25})
STILL, NO_OFFSETS = batch({A: 10}, {A: 10}), batch({}, {})
ONE_STILL = batch({A: 10, B: 20}, {A: 15, B: 20})
ONE_NEW = batch({A: 10}, {A: 15, B: 25})
SKIPPED = replace(ONE, skipped={A: 4})
EARLIER = {A: 4, B: 20}
SOURCES_APART = batch({A: frozenset({10, 12})}, {A: frozenset({15, 20})})
FAILED = r"batch 6 of query query failed .* swallowed"

#: Spark has ended batches 4 to 6 when the ledger's last one is 3: the user's function wrote nothing for them.
TABLE: dict[str, tuple[MicroBatch, Places, LedgerEntry | None, BatchDecision | str]] = {
    "another query stopped at its start": (ONE, {A: 10, B: 20}, OTHER, RUN),
    "the batch before stopped at its start": (ONE, {A: 10, B: 20}, BEFORE, RUN),
    "another query stopped at its end": (ONE, {A: 15, B: 25}, OTHER, SKIP),
    "it is committed": (ONE, {A: 15, B: 25}, ME, SKIP),
    "it is committed with other offsets": (ONE, {A: 10, B: 25}, ME, "but with other offsets: a-0: the batch is 10 to"),
    "its end is committed, but it is not": (ONE, {A: 15, B: 25}, BEFORE, "would repeat records"),
    "a later one is committed": (ONE, {A: 10, B: 20}, AFTER, "older than batch 8"),
    "a later one is committed, and it moves nothing": (STILL, {A: 10}, AFTER, "older than batch 8"),
    "nothing is committed": (ONE, {}, None, RUN),
    "a partition has no commit, the other its start": (ONE, {A: 10}, OTHER, RUN),
    "a partition has no commit, the other its end": (ONE, {A: 15}, OTHER, "would repeat"),
    "a gap to another query": (ONE, {A: 3, B: 20}, OTHER, "would skip records"),
    "batches were passed over": (ONE, EARLIER, last("query", 3, EARLIER), RUN),
    "batches were passed over, to beyond its start": (ONE, {A: 12, B: 20}, last("query", 3, {A: 12}), "would repeat"),
    "batches were passed over, then the group was reset": (ONE, {A: 3, B: 20}, last("query", 3, EARLIER), "would skip"),
    "no batch could be passed over": (ONE, EARLIER, last("query", 6, EARLIER), "would skip"),
    "another query passed batches over": (ONE, EARLIER, last("another query", 3, EARLIER), "would skip"),
    "the one before failed": (ONE, {A: 10, B: 20}, replace(BEFORE, failed=("query", 6)), FAILED),
    "the one before failed, the first of its query": (ONE, {A: 10, B: 20}, replace(OTHER, failed=("query", 6)), FAILED),
    "it failed itself and is repeated": (ONE, {A: 10, B: 20}, replace(BEFORE, failed=("query", 7)), RUN),
    "one of another query failed": (ONE, {A: 10, B: 20}, replace(BEFORE, failed=("another query", 6)), RUN),
    "its source skipped lost records": (SKIPPED, {A: 4, B: 20}, OTHER, RUN),
    "its source need not have skipped": (SKIPPED, {A: 10, B: 20}, OTHER, RUN),
    "its source skipped from elsewhere": (SKIPPED, {A: 5, B: 20}, OTHER, "would skip"),
    "two sources stand apart at its start": (SOURCES_APART, {A: frozenset({10, 12})}, OTHER, RUN),
    "two sources stand apart at its end": (SOURCES_APART, {A: frozenset({15, 20})}, OTHER, SKIP),
    "one of two sources stands elsewhere": (SOURCES_APART, {A: 10}, OTHER, "10 and 12 to 15 and 20, committed is 10"),
    "a new partition": (ONE_NEW, {A: 10}, OTHER, RUN),
    "a new partition, committed": (ONE_NEW, {A: 15, B: 25}, OTHER, SKIP),
    "a new partition with a commit": (ONE_NEW, {A: 10, B: 3}, OTHER, "would repeat"),
    "a still partition, at the start": (ONE_STILL, {A: 10, B: 20}, OTHER, RUN),
    "a still partition, at the end": (ONE_STILL, {A: 15, B: 20}, OTHER, SKIP),
    "a still partition without a commit": (ONE_STILL, {A: 15}, OTHER, SKIP),
    "a partition that it does not read": (batch({A: 10}, {A: 15}), {A: 10, B: 99}, OTHER, RUN),
    "no offset moves, nothing is in the ledger": (STILL, {A: 10}, None, RUN),
    "no offset moves, another query was last": (STILL, {A: 10}, OTHER, RUN),
    "no offset moves, another query was last, ahead": (STILL, {A: 10}, last("another query", 8), RUN),
    "no offset moves, the batch before was last": (STILL, {A: 10}, BEFORE, RUN),
    "no offset moves, it was last": (STILL, {A: 10}, ME, SKIP),
    "no offsets at all, the batch before was last": (NO_OFFSETS, {A: 3}, BEFORE, RUN),
    "no offsets at all, it was last": (NO_OFFSETS, {A: 3}, ME, SKIP),
}


@pytest.mark.parametrize(("given", "committed", "entry", "expected"), TABLE.values(), ids=TABLE)
def test_a_batch_is_run_skipped_or_refused(
    given: MicroBatch, committed: Places, entry: LedgerEntry | None, expected: BatchDecision | str
) -> None:
    if isinstance(expected, BatchDecision):
        assert decide(given, committed, entry) is expected
    else:
        with pytest.raises(BatchRefused, match=expected):
            decide(given, committed, entry)


def test_it_runs_only_what_begins_and_skips_only_what_ends_everywhere() -> None:
    """Every place that two partitions can stand at: before, at the start, between, at the end, behind, nowhere."""
    places = [None, 5, 10, 12, 15, 30]
    for a, b in itertools.product(places, places):
        committed: Places = {w: place for w, place in ((A, a), (B, b)) if place is not None}
        two = batch({A: 10, B: 10}, {A: 15, B: 15})
        if {a, b} <= {None, 10}:
            assert decide(two, committed, OTHER) is RUN
        elif {a, b} == {15}:
            assert decide(two, committed, OTHER) is SKIP
        else:
            with pytest.raises(BatchRefused):
                decide(two, committed, OTHER)


def test_of_several_sources_the_lowest_position_is_committed() -> None:
    assert SOURCES_APART.moved == {A: 15}


def test_a_refusal_says_what_was_seen_and_what_to_do() -> None:
    with pytest.raises(BatchRefused) as refused:
        decide(ONE, {A: 30, B: 20}, OTHER)
    said = str(refused.value)
    assert "batch 7 of query query" in said
    assert f"{A}: the batch is 10 to 15, committed is 30" in said
    assert "would repeat records" in said
    assert "Nothing was written" in said
    assert "startingOffsets=committed" in said


def test_a_refusal_of_many_partitions_stays_short() -> None:
    places = [TopicPartition("a", number) for number in range(20)]
    many = batch(dict.fromkeys(places, 1), dict.fromkeys(places, 2))
    with pytest.raises(BatchRefused, match=f"and {20 - SHOWN_MAX} more partitions"):
        decide(many, dict.fromkeys(places, 9), OTHER)


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
LOST_STATE = "the state of Spark's own stateful operators"
LOSSES = {
    "state": (FIRST, STATE, replace(OTHER, in_checkpoint=STATE), LOST_STATE),
    "positions": (FIRST, POSITIONS, replace(OTHER, in_checkpoint=POSITIONS | STATE), "the position of files"),
    "an entry that does not say": (FIRST, STATE, replace(OTHER, in_checkpoint=None), LOST_STATE),
    "a query without": (FIRST, frozenset(), replace(OTHER, in_checkpoint=STATE), None),
    "a predecessor without": (FIRST, STATE, replace(OTHER, in_checkpoint=frozenset()), None),
    "something else": (FIRST, STATE, replace(OTHER, in_checkpoint=POSITIONS), None),
    "a new pipeline": (FIRST, STATE, None, None),
    "the same query": (ONE, STATE, replace(ME, in_checkpoint=STATE), None),
    "only the query's id is lost": (ONE, STATE, replace(OTHER, in_checkpoint=STATE), None),
    "a checkpoint that is behind": (ONE, STATE, replace(OTHER, batch_id=8, in_checkpoint=STATE), LOST_STATE),
}


@pytest.mark.parametrize(("given", "kept", "entry", "lost"), LOSSES.values(), ids=LOSSES)
def test_a_new_checkpoint_loses_what_the_old_one_held_alone(
    given: MicroBatch, kept: frozenset[InCheckpoint], entry: LedgerEntry | None, lost: str | None
) -> None:
    assert check_checkpoint(given, kept, entry) == lost


# -- after a reset ---------------------------------------------------------------------------------------------------

WAS_RESET = replace(last("of the reset", -1, {A: 10, B: 20}), reset=Reset("query", 6, "earliest"))


def test_after_a_reset_the_old_checkpoint_is_refused_whatever_its_offsets_are() -> None:
    for committed in ({A: 10, B: 20}, {A: 15, B: 25}, {A: 0, B: 0}):
        with pytest.raises(BatchRefused, match=r"the pipeline was reset \(to earliest.* use an empty checkpoint"):
            decide(ONE, committed, WAS_RESET)


def test_after_a_reset_a_new_checkpoint_runs_from_the_new_offsets() -> None:
    new = replace(ONE, query_id="new query", batch_id=0)
    assert decide(new, {A: 10, B: 20}, WAS_RESET) is RUN


def test_after_a_reset_the_refusal_of_any_other_checkpoint_mentions_it() -> None:
    other = replace(ONE, query_id="some query")
    with pytest.raises(BatchRefused, match=r"would skip records.*The pipeline was reset \(to earliest"):
        decide(other, {A: 0, B: 0}, WAS_RESET)


def test_after_a_reset_a_new_checkpoint_without_sparks_own_state_needs_consent() -> None:
    entry = replace(WAS_RESET, in_checkpoint=frozenset({InCheckpoint.STATE}))
    new = replace(ONE, query_id="new query", batch_id=0)
    lost = check_checkpoint(new, frozenset({InCheckpoint.STATE}), entry)
    assert lost is not None
    assert "as it must after a reset" in decisions.checkpoint_lost(new, entry, lost)
    assert "failOnStateLoss" in decisions.checkpoint_lost(new, entry, lost)
    assert check_checkpoint(new, frozenset(), entry) is None
