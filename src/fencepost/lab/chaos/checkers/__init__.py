"""The checkers: pure functions from `Facts` to anomalies. What they report is wrong on any Kafka."""

from collections.abc import Callable, Iterable, Iterator

from fencepost.lab.chaos.anomaly import Anomaly
from fencepost.lab.chaos.checkers import (
    aborted_reads,
    agreement,
    complaints,
    duplicates,
    exactly_once,
    lost_writes,
    offsets,
    order,
    phantoms,
    polls,
    precommitted_reads,
    torn_transactions,
)
from fencepost.lab.chaos.facts import Facts, read_history
from fencepost.lab.chaos.history import Op

Checker = Callable[[Facts], Iterator[Anomaly]]

ALL: tuple[Checker, ...] = (
    lost_writes.check,
    duplicates.check,
    aborted_reads.check,
    precommitted_reads.check,
    torn_transactions.check,
    order.check,
    agreement.check,
    polls.check,
    phantoms.check,
    offsets.check,
    exactly_once.check,
    complaints.check,
)


def check(ops: Iterable[Op]) -> list[Anomaly]:
    """Everything that is wrong with a history, whose operations are in order of time."""
    return check_facts(read_history(ops))


def check_facts(facts: Facts) -> list[Anomaly]:
    return [anomaly for checker in ALL for anomaly in checker(facts)]
