"""Reordering: a partition holds the committed records of one producer in the order in which they were sent.

For a transactional producer that holds across restarts: an incarnation fences the others before it writes. Which one
fenced which is not the order in which they were started: one that was paused before `init_transactions` fences its
successor when it wakes up. It is the order of their first transactions. An incarnation with a committed record began
that transaction before the next fencing, and the next one could only begin after it.

A producer without a transactional id is a new producer after a restart, and a request of the old one may still be on
its way. So only records of one incarnation are compared.
"""

from collections.abc import Iterator, Mapping

from fencepost.lab.chaos.anomaly import Anomaly, Kind
from fencepost.lab.chaos.facts import READ_COMMITTED, Facts, Transaction
from fencepost.lab.chaos.facts import Kind as Writes


def check(facts: Facts) -> Iterator[Anomaly]:
    began_ns = _first_transactions(facts)
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
            rank = (began_ns.get((transaction.process, transaction.incarnation), 0), transaction.number, index)
            before = last.get(producer)
            if before is not None and before[0] > rank:
                text = f"{value} at {drain.partition}@{offset} comes after {before[1]}, which was sent later"
                yield Anomaly(Kind.REORDERED, text, (*transaction.ops, *before[2].ops))
            last[producer] = rank, value, transaction


def _first_transactions(facts: Facts) -> Mapping[tuple[str, int], int]:
    """When each incarnation of a transactional producer began its first transaction."""
    began_ns: dict[tuple[str, int], int] = {}
    for transaction in facts.transactions:
        if transaction.kind is Writes.TRANSACTION:
            who = transaction.process, transaction.incarnation
            began_ns[who] = min(transaction.invoked_ns, began_ns.get(who, transaction.invoked_ns))
    return began_ns


def _producer(transaction: Transaction) -> object:
    if transaction.kind is Writes.TRANSACTION:
        return transaction.process
    return transaction.process, transaction.incarnation
