"""Phantoms: every record that anybody sees was written by a client, to that partition."""

from collections.abc import Iterator

from fencepost.lab.chaos.anomaly import Anomaly, Kind
from fencepost.lab.chaos.facts import Facts


def check(facts: Facts) -> Iterator[Anomaly]:
    told: set[str] = set()
    for seen in facts.everything_seen():
        for offset, value in seen.records:
            writer = facts.written.get(value)
            wanted = None if writer is None else writer[0].writes[writer[1]].partition
            if wanted != seen.partition and value not in told:
                told.add(value)
                meant = "nobody wrote it" if wanted is None else f"it was written to {wanted}"
                text = f"{value} at {seen.partition}@{offset} was seen by {seen.op.client}, but {meant}"
                yield Anomaly(Kind.PHANTOM, text, (seen.op,))
