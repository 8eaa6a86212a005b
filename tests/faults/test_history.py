"""The checker finds what it is there to find: a blind checker must not be taken for a sound broker."""

from collections.abc import Callable

import pytest

from tests.faults.history import Copier, Final, History, Outcome, Partition, Seen, Transaction, Write, anomalies

A, B = ("a", 0), ("b", 1)


def transaction(*values: str, outcome: Outcome = Outcome.COMMITTED, group_offset: int = -1) -> Transaction:
    writes = (Write(values[0], A), *(Write(value, B) for value in values[1:]))
    return Transaction("t", writes, outcome, "g" if group_offset >= 0 else None, group_offset)


def final(
    a: list[tuple[int, str]],
    b: list[tuple[int, str]] | None = None,
    *,
    more_uncommitted: list[tuple[int, str]] | None = None,
    offsets: dict[tuple[str, Partition], int] | None = None,
) -> Final:
    committed = {A: a, B: b or []}
    return Final(committed, {A: sorted(a + (more_uncommitted or [])), B: b or []}, offsets or {})


def test_a_sound_history_has_no_anomalies() -> None:
    history = History(
        transactions=[
            transaction("t:1", "t:2", group_offset=1),
            transaction("t:3", "t:4", outcome=Outcome.ABORTED, group_offset=2),
            transaction("t:5", "t:6", outcome=Outcome.UNKNOWN, group_offset=3),
        ],
        acknowledged=[Write("i:1", A, 5)],
        seen=[Seen("r", A, [(0, "t:1"), (3, "t:5")])],
    )
    found = final(
        [(0, "t:1"), (3, "t:5"), (5, "i:1")],
        [(0, "t:2"), (4, "t:6")],
        more_uncommitted=[(2, "t:3")],
        offsets={("g", A): 3},
    )
    assert anomalies(history, found) == []


CASES: dict[str, Callable[[], tuple[History, Final]]] = {
    "lost write: i:1": lambda: (History(acknowledged=[Write("i:1", A, 0)]), final([])),
    "lost write: 1 of 2": lambda: (History(transactions=[transaction("t:1", "t:2")]), final([(0, "t:1")])),
    "duplicate": lambda: (History(acknowledged=[Write("i:1", A, 0)]), final([(0, "i:1"), (1, "i:1")])),
    "aborted read": lambda: (
        History(transactions=[transaction("t:1", "t:2", outcome=Outcome.ABORTED)]),
        final([(0, "t:1")]),
    ),
    "torn transaction": lambda: (
        History(transactions=[transaction("t:1", "t:2", outcome=Outcome.UNKNOWN)]),
        final([(0, "t:1")]),
    ),
    "inconsistent offset: i:1 was": lambda: (History(acknowledged=[Write("i:1", A, 0)]), final([(7, "i:1")])),
    "inconsistent offset: r got": lambda: (
        History(acknowledged=[Write("i:1", A, 0)], seen=[Seen("r", A, [(0, "i:9")])]),
        final([(0, "i:1")]),
    ),
    "reordered": lambda: (
        History(acknowledged=[Write("i:2", A), Write("i:1", A)]),
        final([(0, "i:2"), (1, "i:1")]),
    ),
    "unexpected value": lambda: (History(), final([(0, "who wrote this")])),
    "wrong committed offset: g has 1": lambda: (
        History(transactions=[transaction("t:1", "t:2", group_offset=2)]),
        final([(0, "t:1")], [(0, "t:2")], offsets={("g", A): 1}),
    ),
    "wrong committed offset: g has 2": lambda: (
        History(transactions=[transaction("t:1", "t:2", outcome=Outcome.UNKNOWN, group_offset=2)]),
        final([], offsets={("g", A): 2}),
    ),
    "precommitted read": lambda: (
        History(transactions=[transaction("t:1", "t:2", outcome=Outcome.ABORTED)], seen=[Seen("r", A, [(0, "t:1")])]),
        final([], more_uncommitted=[(0, "t:1")]),
    ),
    "non-monotonic poll": lambda: (
        History(acknowledged=[Write("i:1", A), Write("i:2", A)], seen=[Seen("r", A, [(1, "i:2"), (0, "i:1")])]),
        final([(0, "i:1"), (1, "i:2")]),
    ),
    "skipped poll": lambda: (
        History(acknowledged=[Write(f"i:{n}", A) for n in range(3)], seen=[Seen("r", A, [(0, "i:0"), (2, "i:2")])]),
        final([(n, f"i:{n}") for n in range(3)]),
    ),
    "not copied exactly once: i:1 at a-0@0 has 0": lambda: (
        History(acknowledged=[Write("i:1", A, 0)], copiers=[Copier("g", "a", "b")]),
        final([(0, "i:1")], offsets={("g", A): 1}),
    ),
    "not copied exactly once: i:1 at a-0@0 has 1": lambda: (
        History(acknowledged=[Write("i:1", A, 0)], copiers=[Copier("g", "a", "b")]),
        final([(0, "i:1")], [(0, "copy of i:1")], offsets={("g", A): 0}),
    ),
    "surprise": lambda: (History(surprises=["OUT_OF_ORDER_SEQUENCE_NUMBER"]), final([])),
}


@pytest.mark.parametrize("expected", CASES)
def test_an_anomaly_is_found(expected: str) -> None:
    history, found = CASES[expected]()
    assert any(text.startswith(expected) for text in anomalies(history, found)), anomalies(history, found)
