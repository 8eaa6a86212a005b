"""Reordering: a partition holds the committed records of one producer in the order in which they were sent.

For a transactional producer this holds across restarts: an incarnation fences the others before it writes.

A producer without a transactional id is a new producer after a restart, and an old request may still be on its way. So
only records of one incarnation are compared.
"""

from collections.abc import Iterator

from fencepost.lab.chaos.anomaly import Anomaly, Kind
from fencepost.lab.chaos.facts import READ_COMMITTED, Facts, Rank, Transaction
from fencepost.lab.chaos.facts import Kind as Writes


def check(facts: Facts) -> Iterator[Anomaly]:
    rank_of = facts.ranks()
    for drain in facts.drains:
        if drain.isolation != READ_COMMITTED:
            continue
        last: dict[object, tuple[Rank, str, Transaction]] = {}
        for offset, value in drain.records:
            writer = facts.written.get(value)
            if writer is None:
                continue
            transaction, index = writer
            producer = _producer(transaction)
            rank = rank_of(transaction, index)
            before = last.get(producer)
            if before is not None and before[0] > rank:
                text = f"{value} at {drain.partition}@{offset} comes after {before[1]}, which was sent later"
                yield Anomaly(Kind.REORDERED, text, (*transaction.ops, *before[2].ops))
            last[producer] = rank, value, transaction


def _producer(transaction: Transaction) -> object:
    if transaction.kind is Writes.TRANSACTION:
        return transaction.process
    return transaction.process, transaction.incarnation
