"""Duplicates: a write is at one place. Every value is written once, so two places mean one write, appended twice.

That holds for every reader, and for aborted and unknown writes too: idempotence does not depend on the outcome.
"""

from collections import defaultdict
from collections.abc import Iterator

from fencepost.lab.chaos.anomaly import Anomaly, Kind
from fencepost.lab.chaos.facts import Facts, Place


def check(facts: Facts) -> Iterator[Anomaly]:
    places: dict[str, set[Place]] = defaultdict(set)
    for seen in facts.everything_seen():
        for offset, value in seen.records:
            places[value].add(Place(seen.partition, offset))
    for value, where in places.items():
        if len(where) > 1:
            writer = facts.written.get(value)
            text = f"{value} is at {', '.join(map(str, sorted(where)))}"
            yield Anomaly(Kind.DUPLICATE, text, writer[0].ops if writer else ())
