"""What the run itself noted as wrong: a client stuck after the faults were over, an answer that no client may get."""

from collections.abc import Iterator

from fencepost.lab.chaos.anomaly import Anomaly, Kind
from fencepost.lab.chaos.facts import Facts
from fencepost.lab.chaos.history import Function


def check(facts: Facts) -> Iterator[Anomaly]:
    for op in facts.complaints:
        kind = Kind.STUCK if op.function is Function.STUCK else Kind.SURPRISE
        yield Anomaly(kind, f"{op.client}: {op.data['what']}", (op,))
