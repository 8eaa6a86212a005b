"""Torn transactions: all of a transaction is there in the end, or nothing, whatever its client was told.

While it is being ended, a reader may see the records of one partition before those of another: Kafka does not promise
more. But once a read_committed reader has seen a part of it, the outcome is decided, and all must be there in the end.
"""

from collections.abc import Iterator

from fencepost.lab.chaos.anomaly import Anomaly, Kind
from fencepost.lab.chaos.facts import READ_COMMITTED, Facts
from fencepost.lab.chaos.facts import Kind as Writes


def check(facts: Facts) -> Iterator[Anomaly]:
    if not facts.drains:
        return
    visible = facts.visible()
    accounted_for = visible.keys() | facts.superseded()
    seen_ever = {value for seen in facts.everything_seen(READ_COMMITTED) for _, value in seen.records}
    for transaction in facts.transactions:
        if transaction.kind is not Writes.TRANSACTION:
            continue
        there = [write.value for write in transaction.writes if write.value in visible]
        seen = [write.value for write in transaction.writes if write.value in seen_ever]
        missing = [write.value for write in transaction.writes if write.value not in accounted_for]
        if seen and missing:
            text = (
                f"of {transaction} {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing, "
                f"{', '.join(there) or 'nothing'} there in the end, and {', '.join(seen)} seen at some time"
            )
            yield Anomaly(Kind.TORN_TRANSACTION, text, transaction.ops)
