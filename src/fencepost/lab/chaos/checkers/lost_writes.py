"""Lost writes: what was committed, or acknowledged outside of a transaction, is there in the end.

On a compacted topic a later value of the same key is enough. A transaction with an unknown outcome may be missing.
`torn_transactions` checks that it is whole.
"""

from collections.abc import Iterator

from fencepost.lab.chaos.anomaly import Anomaly, Kind
from fencepost.lab.chaos.facts import Facts, Outcome


def check(facts: Facts) -> Iterator[Anomaly]:
    if not facts.drains:
        return
    found = facts.visible().keys() | facts.superseded()
    for transaction in facts.transactions:
        owed = [write for write in transaction.writes if transaction.outcome_of(write) is Outcome.COMMITTED]
        lost = [write for write in owed if write.value not in found]
        if lost:
            what = ", ".join(f"{write.value} on {write.partition} (acked at {write.offset})" for write in lost)
            text = f"{len(lost)} of {len(owed)} writes of {transaction} are gone: {what}"
            yield Anomaly(Kind.LOST_WRITE, text, transaction.ops)
