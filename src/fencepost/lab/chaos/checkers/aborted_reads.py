"""Aborted reads (G1a): a read_committed reader never sees a record of an aborted transaction.

A transaction is aborted if its client was told so, or if no commit was ever sent because the client died or was paused
before. If it is committed nevertheless, another transaction's commit did it, as in KAFKA-17754.
"""

from collections.abc import Iterator

from fencepost.lab.chaos.anomaly import Anomaly, Kind
from fencepost.lab.chaos.facts import READ_COMMITTED, Facts, Outcome


def check(facts: Facts) -> Iterator[Anomaly]:
    told: set[str] = set()
    for seen in facts.everything_seen(READ_COMMITTED):
        for offset, value in seen.records:
            writer = facts.written.get(value)
            if writer is not None and writer[0].outcome is Outcome.ABORTED and value not in told:
                told.add(value)
                text = f"{value} at {seen.partition}@{offset} was seen by {seen.op.client}, but is of {writer[0]}"
                yield Anomaly(Kind.ABORTED_READ, text, (*writer[0].ops, seen.op))
