"""Checks the shop from outside: a purchase has one invoice and one shipment, or neither, as its offset says.

Reads with confluent-kafka and checks with `fencepost.shop.books`. Topics may have names of this run only.
"""

from dataclasses import dataclass
from typing import Any, Self

from fencepost.client.offsets import latest, partitions_of
from fencepost.lab.scenarios.loop import Plan
from fencepost.lab.scenarios.stage import Stage
from fencepost.shop import INVOICES, PURCHASES, SHIPMENTS
from fencepost.shop.books import Books, Found, Problem, Where
from fencepost.wire.terms import Isolation, TopicPartition


@dataclass(frozen=True, slots=True)
class Shop:
    """The topics and the group of one run."""

    purchases: str
    invoices: str
    shipments: str
    group: str

    @classmethod
    def open(cls, stage: Stage, partitions: int = 1) -> Self:
        purchases, invoices, shipments = stage.topics(PURCHASES, INVOICES, SHIPMENTS, partitions=partitions)
        return cls(purchases, invoices, shipments, stage.name("shop"))

    def sell(self, stage: Stage, fewest: int, most: int) -> int:
        """A random number of purchases between these bounds. Returns the number."""
        count = stage.random.randint(fewest, most)
        stage.tell(f"{count} customers buy something.")
        stage.sell(self.purchases, count)
        return count

    def plan(self, stage: Stage, **more: Any) -> Plan:
        """For the program that turns purchases into invoices and shipments."""
        topics = self.purchases, self.invoices, self.shipments
        return Plan(stage.kafka, *topics, self.group, transactional_id=stage.name("shop"), **more)

    def outputs(self, stage: Stage) -> list[TopicPartition]:
        return partitions_of(stage.cluster, [self.invoices, self.shipments])

    def inputs(self, stage: Stage) -> list[TopicPartition]:
        return partitions_of(stage.cluster, [self.purchases])


def problems(stage: Stage, shop: Shop, *, is_final: bool) -> dict[Problem, Found]:
    """What does not add up. Offsets are read before and after the outputs, so that a live pipeline can be judged."""
    books = Books()
    offsets = committed if is_final else committed_so_far
    before = offsets(stage, shop)
    for seen in stage.read(shop.purchases):
        books.purchase(seen.value, (seen.partition, seen.offset))
    for topic, name in ((shop.invoices, INVOICES), (shop.shipments, SHIPMENTS)):
        for seen in stage.read(topic):
            books.output(Where(name, seen.partition, seen.offset), seen.value)
    books.end_of_purchases()
    after = offsets(stage, shop)
    ends = latest(stage.cluster, shop.inputs(stage), Isolation.READ_COMMITTED)
    found = books.problems(before, after, {where.partition: end for where, end in ends.items()}, is_final=is_final)
    stage.note(
        f"books: {books.counts[PURCHASES]} purchases, {books.counts[INVOICES]} invoices, "
        f"{books.counts[SHIPMENTS]} shipments",
        **{name: books.counts[name] for name in (PURCHASES, INVOICES, SHIPMENTS)},
    )
    return found


def committed(stage: Stage, shop: Shop) -> dict[int, int]:
    """The group's offsets by partition. Waits for pending ones."""
    inputs = shop.inputs(stage)

    def stable() -> dict[int, int] | None:
        found = stage.view.committed(shop.group, inputs, stable=True)
        numbers = {where.partition: found[str(where)] for where in inputs}
        whole = {partition: number for partition, number in numbers.items() if isinstance(number, int)}
        return whole if len(whole) == len(numbers) else None

    found = stage.eventually(stable, "stable offsets")
    return {partition: offset for partition, offset in found.items() if offset >= 0}


def committed_so_far(stage: Stage, shop: Shop) -> dict[int, int]:
    """If an open transaction has pending offsets, the offsets committed before it count."""
    inputs = shop.inputs(stage)
    found = stage.view.committed(shop.group, inputs, stable=False)
    numbers = {where.partition: int(found[str(where)]) for where in inputs}
    return {partition: offset for partition, offset in numbers.items() if offset >= 0}


def check_exactly_once(stage: Stage, shop: Shop) -> bool:
    found = problems(stage, shop, is_final=True)
    return stage.check(
        not found, "every purchase has exactly one invoice and one shipment, and the group's offsets agree", tell(found)
    )


def tell(found: dict[Problem, Found]) -> str:
    return "; ".join(f"{problem.value}: {each.count} ({', '.join(each.first)})" for problem, each in found.items())
