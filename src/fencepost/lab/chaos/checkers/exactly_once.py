"""Exactly once: in a consume-transform-produce loop every input before the group's offset has one output, others none.

Counts what a read_committed reader finds in the end. Two outputs of one input are a repetition. None before the
committed offset is a loss. One at or after it will be repeated.
"""

from collections import defaultdict
from collections.abc import Iterator

from fencepost.lab.chaos.anomaly import Anomaly, Kind
from fencepost.lab.chaos.facts import READ_COMMITTED, Facts, Place, Transaction


def check(facts: Facts) -> Iterator[Anomaly]:
    if not facts.drains:
        return
    visible = facts.visible()
    effects: dict[str, dict[Place, list[Transaction]]] = defaultdict(lambda: defaultdict(list))
    for transaction in facts.transactions:
        # Output i of a loop is made from input i.
        for entry, write in zip(transaction.inputs, transaction.writes, strict=False):
            if write.value in visible:
                effects[transaction.group or ""][entry.place].append(transaction)
    final = facts.final(READ_COMMITTED)
    groups = {transaction.group for transaction in facts.transactions if transaction.inputs}
    for group, observation in facts.final_offsets().items():
        if group not in groups:
            continue
        for where, records in final.items():
            if where not in observation.offsets and not any(place.partition == where for place in effects[group]):
                continue
            position = observation.offsets.get(where, -1)
            for offset, value in records:
                done = effects[group].get(Place(where, offset), [])
                if len(done) != (1 if offset < position else 0):
                    names = ", ".join(map(str, done)) or "nobody"
                    text = (
                        f"{value} at {where}@{offset} took effect {len(done)} times (by {names}); "
                        f"{group} is at {position}"
                    )
                    ops = tuple(op for each in done for op in each.ops)
                    yield Anomaly(Kind.NOT_EXACTLY_ONCE, text, (*ops, observation.op))
