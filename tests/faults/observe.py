"""What is there, as everybody can see it: waits until all transactions have ended, then reads everything."""

from collections.abc import Iterable

from fencepost.client.offsets import LATEST
from fencepost.wire.terms import Isolation
from tests.conftest import wait_until
from tests.faults.history import Final, Partition
from tests.faults.raw import Kafka

AT_REST = frozenset({"Empty", "CompleteCommit", "CompleteAbort"})


def settled(
    client: Kafka, partitions: Iterable[Partition], *, only: str | None = None, timeout_s: float = 20.0
) -> None:
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
        wait_until(at_rest, "all transactions have ended", timeout_s=timeout_s)
    except AssertionError:
        raise AssertionError(f"transactions that never end: {last}") from None


def observe(
    client: Kafka, partitions: Iterable[Partition], group_offsets: Iterable[tuple[str, Partition]] = ()
) -> Final:
    partitions = list(partitions)
    settled(client, partitions)
    committed, uncommitted = {}, {}
    for topic, partition in partitions:
        for isolation, view in ((Isolation.READ_COMMITTED, committed), (Isolation.READ_UNCOMMITTED, uncommitted)):
            seen = client.read(topic, partition, isolation)
            if seen.last_stable_offset != seen.high_watermark:
                raise AssertionError(f"{topic}-{partition} is stable up to {seen.last_stable_offset} only")
            view[topic, partition] = list(zip(seen.offsets, seen.values, strict=True))
    offsets = {(group, where): client.committed(group, [where])[where] for group, where in group_offsets}
    return Final(committed, uncommitted, offsets)
