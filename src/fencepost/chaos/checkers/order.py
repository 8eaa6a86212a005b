"""Reordering: a partition holds the committed records of one producer in the order in which they were sent.

For a transactional producer that goes on through its restarts: a successor fences its predecessor before it writes. A
producer without a transactional id is another one after a restart, and a request of its predecessor may still be on
its way, so only one incarnation's records are compared.
"""

from collections.abc import Iterator

from fencepost.chaos.anomaly import Anomaly, Kind
from fencepost.chaos.facts import READ_COMMITTED, Facts, Transaction
from fencepost.chaos.facts import Kind as Writes


def check(facts: Facts) -> Iterator[Anomaly]:
    for drain in facts.drains:
        if drain.isolation != READ_COMMITTED:
            continue
        last: dict[object, tuple[tuple[int, int, int], str, Transaction]] = {}
        for offset, value in drain.records:
            writer = facts.written.get(value)
            if writer is None:
                continue
            transaction, index = writer
            producer = _producer(transaction)
            rank = (transaction.incarnation, transaction.number, index)
            before = last.get(producer)
            if before is not None and before[0] > rank:
                text = f"{value} at {drain.partition}@{offset} comes after {before[1]}, which was sent later"
                yield Anomaly(Kind.REORDERED, text, (*transaction.ops, *before[2].ops))
            last[producer] = rank, value, transaction


def _producer(transaction: Transaction) -> object:
    if transaction.kind is Writes.TRANSACTION:
        return transaction.process
    return transaction.process, transaction.incarnation
