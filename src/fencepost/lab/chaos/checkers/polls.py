"""Polls: a reader moves forward, and skips nothing that is there.

Markers and aborted records are skipped rightly. So a gap counts only if the final drain with the same isolation finds a
record in it.
"""

from bisect import bisect_left
from collections.abc import Iterator

from fencepost.lab.chaos.anomaly import Anomaly, Kind
from fencepost.lab.chaos.facts import Facts, Partition, Session


def check(facts: Facts) -> Iterator[Anomaly]:
    final: dict[str, dict[Partition, list[int]]] = {}
    for isolation in {drain.isolation for drain in facts.drains}:
        views = facts.final(isolation)
        final[isolation] = {where: [offset for offset, _ in records] for where, records in views.items()}
    for session in facts.sessions:
        yield from _one(session, final.get(session.isolation, {}).get(session.partition, []))


def _one(session: Session, there: list[int]) -> Iterator[Anomaly]:
    expected = session.position
    before = None
    for read in session.reads:
        for offset, value in read.records:
            ops = (before.op, read.op) if before is not None else (read.op,)
            name = f"{session.client} got {value} at {session.partition}@{offset}"
            if offset < expected:
                yield Anomaly(Kind.NON_MONOTONIC_POLL, f"{name} when {expected} was next", ops)
            else:
                passed = there[bisect_left(there, expected) : bisect_left(there, offset)]
                if passed:
                    text = f"{name} when {expected} was next, and passed over {len(passed)} records from {passed[0]} on"
                    yield Anomaly(Kind.SKIPPED_POLL, text, ops)
            expected = offset + 1
        before = read
