"""The ledger's records as JSON: what is written is read again, and what earlier versions wrote, too."""

import json

from fencepost.spark import ledger
from fencepost.spark.ledger import ChangelogEntry, InCheckpoint, LedgerEntry, Reset
from fencepost.wire.terms import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 1)


def test_an_entry_survives_the_way_to_json_and_back() -> None:
    entry = LedgerEntry(
        query_id="query",
        batch_id=7,
        offsets={A: 10, B: 20},
        changelogs={"totals": ChangelogEntry(4, "9vNo6AXTTDaBjM2LZOr3jg", "reset"), "old": ChangelogEntry(2, {0: 3})},
        run_id="run",
        ahead={A: frozenset({10, 12})},
        topics={"a": "9vNo6AXTTDaBjM2LZOr3jg", "b": {0: 4}},
        in_checkpoint=frozenset(InCheckpoint),
        writes=2,
        is_unfinished=True,
        failed=("query", 8),
        reset=Reset("query before", 6, "earliest"),
    )
    assert LedgerEntry.from_json(entry.to_json()) == entry
    assert entry.reached == {A: {10, 12}, B: {20}}


def test_an_entry_of_version_1_says_what_it_can() -> None:
    text = {
        "version": 1,
        "query": "q",
        "batch": 7,
        "offsets": {"a": {"0": 10}},
        "changelogs": {"totals": 4},
        "time_ms": 1,
    }
    entry = LedgerEntry.from_json(json.dumps(text).encode())
    assert entry == LedgerEntry("q", 7, {A: 10}, {"totals": ChangelogEntry(4)}, in_checkpoint=None)


def test_the_sinks_own_commits_are_told_from_those_of_others() -> None:
    assert ledger.is_note(ledger.note("0cf5bf5b-6b0a-4f5c-8f37-1d8a3a3b0c11", 12))
    for other in ("", "set by hand", "12", "0cf5bf5b-6b0a-4f5c-8f37-1d8a3a3b0c11"):
        assert not ledger.is_note(other)
