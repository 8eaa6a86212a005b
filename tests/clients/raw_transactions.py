"""A transactional producer as its requests see it, and what readers and groups see of its transactions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fencepost.client.fields import by_topic
from fencepost.client.raw import Session, offset_topics
from tests.clients.raw import Key, Wire, batch, errors, stored
from tests.clients.raw_records import fetch, produce
from tests.conftest import wait_until

#: Ask again: the coordinator is being created, or the last transaction's markers are being written.
TRANSIENT = {
    "CONCURRENT_TRANSACTIONS",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "NOT_COORDINATOR",
}


def patiently(ask: Callable[[], Any]) -> Any:
    """The first answer that does not ask for patience."""
    answers: list[Any] = []

    def is_final() -> bool:
        answers.append(ask())
        return not errors(answers[-1]) & TRANSIENT

    wait_until(is_final, "the answer is final")
    return answers[-1]


@dataclass
class Transactional:
    """One transactional producer, as its requests see it."""

    wire: Wire
    transactional_id: str
    producer: tuple[int, int]
    sequence: int = 0

    @property
    def fields(self) -> dict[str, Any]:
        return Session(*self.producer, self.transactional_id).fields

    def produce(self, topic: str, *values: bytes, version: int = 12, **options: Any) -> set[str]:
        records = batch(*values, producer=self.producer, sequence=self.sequence, transactional=True)
        found = errors(produce(self.wire, topic, records, version, transactional_id=self.transactional_id, **options))
        if not found:
            self.sequence += len(values)
        return found

    def register(self, topic: str, partition: int = 0, version: int = 3) -> set[str]:
        return errors(
            self.wire.call(
                Key.ADD_PARTITIONS_TO_TXN,
                version,
                **{f"v3_and_below_{name}": value for name, value in self.fields.items()},
                v3_and_below_topics=by_topic([(topic, partition)]),
            )
        )

    def end(self, *, commit: bool = True, version: int = 5, move: bool = True) -> Any:
        """What EndTxn answers. With the second protocol it hands out the next epoch, which is taken over."""
        answer = patiently(lambda: self.wire.call(Key.END_TXN, version, **self.fields, committed=commit))
        if not errors(answer) and version >= 5 and move:
            self.producer, self.sequence = (answer.producer_id, answer.producer_epoch), 0
        return answer

    def commit_offset(self, group: str, topic: str, offset: int, version: int = 5, **options: Any) -> set[str]:
        topics = offset_topics({(topic, 0): offset})
        return errors(
            self.wire.call(Key.TXN_OFFSET_COMMIT, version, **self.fields, group_id=group, topics=topics, **options)
        )

    def state(self) -> tuple[str, set[tuple[str, int]]]:
        answer = self.wire.call(Key.DESCRIBE_TRANSACTIONS, 0, transactional_ids=[self.transactional_id])
        (found,) = answer.transaction_states
        return found.transaction_state, {(each.topic, p) for each in found.topics for p in each.partitions}


def init(
    wire: Wire, transactional_id: str | None, producer: tuple[int, int] = (-1, -1), timeout_ms: int = 60_000
) -> Any:
    """What InitProducerId answers. `producer` is the id and epoch that the caller has already."""
    producer_id, epoch = producer
    asked = {"transactional_id": transactional_id, "producer_id": producer_id, "producer_epoch": epoch}
    return patiently(lambda: wire.call(Key.INIT_PRODUCER_ID, 5, **asked, transaction_timeout_ms=timeout_ms))


def settled(wire: Wire, transactional_id: str | None) -> tuple[int, int]:
    """A producer id and epoch. Apache Kafka creates its coordinators when a client first looks for one."""
    wire.call(Key.FIND_COORDINATOR, 4, key_type=1, coordinator_keys=[transactional_id or ""])
    answer = init(wire, transactional_id)
    assert errors(answer) == set()
    return answer.producer_id, answer.producer_epoch


def read_committed(wire: Wire, topic: str) -> tuple[list[bytes | None], int]:
    """The values that a reader of committed records keeps, and the last stable offset."""
    found = fetch(wire, topic, isolation_level=1)
    aborted = {(each.producer_id, each.first_offset) for each in found.aborted_transactions or ()}
    values: list[bytes | None] = []
    dropping: set[int] = set()
    for each in stored(found.records):
        producer = each.producer[0]
        dropping |= {who for who, first in aborted if who == producer and first in each.offsets}
        if each.is_control:
            dropping.discard(producer)
        elif producer not in dropping:
            values.extend(each.values)
    return values, found.last_stable_offset


def settle(wire: Wire, topic: str, end: int) -> list[bytes | None]:
    """What is committed once the last stable offset is there: Apache Kafka writes markers after it has answered."""
    wait_until(lambda: read_committed(wire, topic)[1] >= end, f"the last stable offset is {end}")
    return read_committed(wire, topic)[0]


def committed(wire: Wire, group: str, topic: str, *, require_stable: bool = False) -> tuple[int, set[str]]:
    answer = wire.call(
        Key.OFFSET_FETCH,
        8,
        groups=[{"group_id": group, "topics": by_topic([(topic, 0)], "partition_indexes")}],
        require_stable=require_stable,
    )
    (found,) = answer.groups
    (partition,) = found.topics[0].partitions
    return partition.committed_offset, errors(answer)


def stable(wire: Wire, group: str, topic: str) -> int:
    wait_until(lambda: not committed(wire, group, topic, require_stable=True)[1], "the offset is stable")
    return committed(wire, group, topic, require_stable=True)[0]
