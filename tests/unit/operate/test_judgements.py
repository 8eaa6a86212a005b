"""The pure parts: is it alive, where does a reset go, what becomes of the state, what was the past."""

import pytest

from fencepost.client.offsets import EARLIEST, LATEST
from fencepost.client.scanning import Content, split
from fencepost.client.transaction_state import TransactionState
from fencepost.errors import ChangeRefused, ConfigError, Malformed
from fencepost.operate.activity import RECENT_MS, Activity, Owner, judge, words
from fencepost.operate.reset import Move, StateChoice, choose_state
from fencepost.operate.rewinding import BATCH_BYTES, _Past, in_batches
from fencepost.operate.target import ToBatch, ToEdge, ToOffsets, ToTime, parse_target
from fencepost.spark.ledger import ChangelogEntry, LedgerEntry
from fencepost.wire.fetch import Aborted
from fencepost.wire.records import Record, encode_batch, encode_marker
from fencepost.wire.terms import TopicPartition

NOW_MS = 1_800_000_000_000
A = TopicPartition("a", 0)


def owner(state: str | None, last_write_ms: int | None = None) -> Owner:
    if state is None:
        return Owner("fencepost-shop")
    found = TransactionState("fencepost-shop", state, 1, 2, 60_000, NOW_MS - 5_000 if state == "Ongoing" else None)
    return Owner("fencepost-shop", found, last_write_ms=last_write_ms)


@pytest.mark.parametrize(
    ("given", "entry_ms", "activity", "text"),
    [
        (owner("Ongoing"), None, Activity.OPEN, "open for 5 s; if its owner is dead, it is aborted in 55 s"),
        (owner("PrepareCommit"), None, Activity.ENDING, "yes: its transaction is PrepareCommit"),
        (owner("CompleteCommit"), NOW_MS - 4_000, Activity.RECENT, "probably: its last sign of life is 4 s old"),
        (owner("CompleteCommit", NOW_MS - 1_000), NOW_MS - RECENT_MS, Activity.RECENT, "1 s old"),
        (owner("CompleteCommit"), NOW_MS - RECENT_MS, Activity.QUIET, "without input looks like one that was stopped"),
        (owner("Empty"), None, Activity.QUIET, "has written nothing since; it has never committed"),
        (owner(None), NOW_MS - 9 * 86_400_000, Activity.UNKNOWN, "does not know its transactional id"),
    ],
)  # fmt: skip
def test_activity_is_judged_by_transactions(given: Owner, entry_ms: int | None, activity: Activity, text: str) -> None:
    assert judge(given, entry_ms, NOW_MS) is activity
    assert text in words(activity, given, entry_ms, NOW_MS)


def test_a_hidden_transactional_id_is_not_taken_for_a_dead_pipeline() -> None:
    hidden = Owner("fencepost-shop", hidden_because="a right is missing")
    assert "not known: a right is missing" in words(judge(hidden, None, NOW_MS), hidden, None, NOW_MS)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("earliest", ToEdge(EARLIEST)),
        ("latest", ToEdge(LATEST)),
        ("24h", ToTime(NOW_MS - 86_400_000)),
        ("90 s", ToTime(NOW_MS - 90_000)),
        ("1700000000000", ToTime(1_700_000_000_000)),
        ("2026-11-16", ToTime(1_794_787_200_000)),
        ("2026-11-16T08:00", ToTime(1_794_816_000_000)),
        ("2026-11-16T08:00+02:00", ToTime(1_794_808_800_000)),
        ("batch:12", ToBatch(12)),
        ('{"a": {"0": 7}}', ToOffsets({A: 7})),
        ('{"a": {"0": -1}}', ToOffsets({A: LATEST})),
    ],
)
def test_a_target_is_understood(text: str, target: object) -> None:
    assert parse_target(text, NOW_MS) == target


@pytest.mark.parametrize(
    "text", ["", "soon", "batch:x", "{", "{}", '{"a": {"0": "x"}}', '{"a": {"0": -3}}', "-5", "5w"]
)
def test_a_target_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_target(text, NOW_MS)


STATEFUL = LedgerEntry("query", 7, {A: 10}, {"totals": ChangelogEntry(1)})
BACK, ON = Move(A, 10, 5, is_back=True), Move(A, 10, 12)


@pytest.mark.parametrize(
    ("entry", "move", "wanted", "chosen"),
    [
        (LedgerEntry("query", 7, {A: 10}), BACK, None, None),
        (None, BACK, StateChoice.DROP, None),
        (STATEFUL, ON, None, StateChoice.KEEP),
        (STATEFUL, ON, StateChoice.DROP, StateChoice.DROP),
        (STATEFUL, BACK, StateChoice.DROP, StateChoice.DROP),
        (STATEFUL, BACK, StateChoice.RESTORE, StateChoice.RESTORE),
        (STATEFUL, BACK, None, "would count them twice"),
        (STATEFUL, BACK, StateChoice.KEEP, "only possible if no partition moves back"),
    ],
)
def test_state_never_counts_a_record_twice(
    entry: LedgerEntry | None, move: Move, wanted: StateChoice | None, chosen: StateChoice | str | None
) -> None:
    if isinstance(chosen, str) and not isinstance(chosen, StateChoice):
        with pytest.raises(ChangeRefused, match=chosen):
            choose_state(entry, [move], wanted)
    else:
        assert choose_state(entry, [move], wanted) is chosen


def changelog(*batches: tuple[int, int, dict[bytes, bytes | None]]) -> memoryview:
    """Batches by (offset, epoch, changes)."""
    return memoryview(
        b"".join(
            bytes(
                encode_batch(
                    [Record(key, value, 1) for key, value in changes.items()],
                    base_offset=offset,
                    producer_id=1,
                    producer_epoch=epoch,
                    base_sequence=0,
                    transactional=True,
                )
            )
            for offset, epoch, changes in batches
        )
    )


def past(data: memoryview, begin: int = 0) -> _Past:
    found = _Past(is_whole_before=begin == 0, next_offset=begin)
    for batch in split(data, []):
        found.add(batch, {(1, 2), (1, 3)})
    return found


def test_a_key_has_its_last_value_before_the_cut() -> None:
    found = past(changelog((0, 0, {b"a": b"1"}), (1, 1, {b"a": b"2", b"b": b"1"}), (3, 2, {b"a": b"3", b"c": b"1"})))
    assert not found.is_in_doubt
    assert found.changes == {b"a": b"2", b"c": None}


@pytest.mark.parametrize(
    ("batches", "is_in_doubt"),
    [
        ([(5, 1, {b"a": b"2"}), (6, 2, {b"a": b"3"})], False),  # its value is there
        ([(5, 1, {b"a": b"2"}), (6, 2, {b"b": b"1"})], True),  # "b" may have been removed, or is new
        ([(5, 1, {b"a": b"2"}), (6, 2, {b"a": b"3"}), (9, 3, {b"a": b"4"})], True),  # a tombstone may have been removed
        ([(5, 1, {b"a": b"2"})], False),  # nothing came later
    ],
)
def test_a_compacted_past_is_in_doubt_if_a_value_may_be_missing(
    batches: list[tuple[int, int, dict[bytes, bytes | None]]], is_in_doubt: bool
) -> None:
    assert past(changelog(*batches)).is_in_doubt is is_in_doubt


def test_changes_are_grouped_into_batches_of_limited_size() -> None:
    changes = {b"%d" % number: b"x" * (BATCH_BYTES // 4) for number in range(10)}
    groups = list(in_batches(changes, 1))
    assert len(groups) == 3
    assert {record.key: record.value for group in groups for record in group} == changes
    assert list(in_batches({}, 1)) == []


def test_aborted_records_end_with_their_marker() -> None:
    mine = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    data = bytes(encode_batch([Record(b"a", b"1")], base_offset=0, **mine))
    marker = encode_marker(commit=False, coordinator_epoch=0, producer_id=1, producer_epoch=0, timestamp=1)
    marker[:8] = (1).to_bytes(8, "big")
    data += bytes(marker) + bytes(encode_batch([Record(b"a", b"2")], base_offset=2, **mine))
    found = [each.content for each in split(memoryview(data + b"cut"), [Aborted(1, 0)])]
    assert found == [Content.ABORTED, Content.CONTROL, Content.RECORDS]


def test_a_corrupt_batch_is_not_counted_as_something_else() -> None:
    data = bytearray(encode_batch([Record(b"a", b"1")]))
    data[-1] ^= 1
    (batch,) = split(memoryview(data), [])
    with pytest.raises(Malformed, match="wrong checksum"):
        list(batch.records())
