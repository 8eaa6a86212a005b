"""Waits until all transactions have ended, then reads and checks everything."""

import time
from collections.abc import Iterable

import pytest

from fencepost.client.offsets import LATEST
from fencepost.client.raw import Partition
from fencepost.lab.chaos.checkers import check
from fencepost.lab.chaos.history import Function, Op, Status
from fencepost.wire.terms import Isolation
from tests.conftest import wait_until
from tests.faults.raw import Kafka

AT_REST = frozenset({"Empty", "CompleteCommit", "CompleteAbort"})


def settled(client: Kafka, partitions: Iterable[Partition], *, only: str | None = None) -> None:
    """No transaction (or none of the id `only`) is open or half ended, for the coordinator and for every partition."""

    def unfinished() -> list[str]:
        found = [
            f"{name} is {state}"
            for name, state in client.transactions().items()
            if state not in AT_REST and only in {name, None}
        ]
        for topic, partition in partitions:
            stable = client.offset(topic, partition, LATEST, Isolation.READ_COMMITTED)
            end = client.offset(topic, partition, LATEST, Isolation.READ_UNCOMMITTED)
            if stable != end:
                found.append(f"{topic}-{partition} is stable up to {stable} of {end}")
            for producer_id, producer in client.producers(topic, partition).items():
                if producer.current_txn_start_offset >= 0:
                    found.append(f"producer {producer_id} has a transaction open on {topic}-{partition}")
        return found

    last: list[str] = []

    def at_rest() -> bool:
        last[:] = unfinished()
        return not last

    try:
        wait_until(at_rest, "all transactions have ended")
    except pytest.fail.Exception:
        raise AssertionError(f"transactions that never end: {last}") from None


def anomalies(
    client: Kafka, ops: Iterable[Op], partitions: Iterable[Partition], groups: Iterable[tuple[str, Partition]] = ()
) -> list[str]:
    """What the checkers of chaos find wrong when they compare a history with what is there now.

    The offsets of `groups` must be those that transactions of the history have put there.
    """
    partitions = list(partitions)
    settled(client, partitions)
    seen: list[Op] = []

    def log(function: Function, **data: object) -> None:
        seen.append(Op(time.monotonic_ns(), "drain", 1, function, Status.OK, data))

    for topic, partition in partitions:
        for isolation in Isolation:
            view = client.read(topic, partition, isolation)
            assert view.last_stable_offset == view.high_watermark, f"{topic}-{partition}"
            records = list(zip(view.offsets, view.values, strict=True))
            name = isolation.name.lower()
            log(Function.DRAIN, reader="raw", isolation=name, topic=topic, partition=partition, records=records)
    for group, where in groups:
        began = time.monotonic_ns()
        offset = client.committed(group, [where])[where]
        log(Function.COMMITTED, group=group, began=began, offsets=[[*where, offset]] if offset >= 0 else [])
    return [str(anomaly) for anomaly in check([*ops, *seen])]
