"""What a scenario tells: numbered steps, facts seen from outside, and checks that hold or do not. Data, no drawing.

Invariants: facts and checks belong to the step before them. A story is right if it was played to its end and every
check holds.
"""

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


class Kind(enum.Enum):
    """Where a fact was seen."""

    EPOCHS = "epochs"  #: DescribeTransactions and DescribeProducers: who holds which epoch
    LOG = "log"  #: records of `__transaction_state`
    LSO = "lso"  #: the last stable offset and the end of a partition
    READERS = "readers"  #: what confluent-kafka gave to read_committed and to read_uncommitted
    OFFSETS = "offsets"  #: what a group has committed
    ANSWER = "answer"  #: what a broker answered
    NOTE = "note"


class Ending(enum.Enum):
    RIGHT = "right"
    WRONG = "wrong"  #: a check did not hold
    BROKEN = "broken"  #: it was not played to its end
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Step:
    number: int
    text: str

    def as_dict(self) -> dict[str, Any]:
        return {"step": self.number, "text": self.text}


@dataclass(frozen=True, slots=True)
class Fact:
    kind: Kind
    text: str
    data: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {"fact": self.kind.value, "text": self.text, **({"data": dict(self.data)} if self.data else {})}


@dataclass(frozen=True, slots=True)
class Check:
    holds: bool
    text: str
    seen: str = ""  #: what was seen instead

    def as_dict(self) -> dict[str, Any]:
        return {"check": self.text, "holds": self.holds, **({"seen": self.seen} if self.seen else {})}


Item = Step | Fact | Check
Listener = Callable[[Item], None]


class Story:
    """One scenario's items. A listener gets each at once."""

    def __init__(self, listener: Listener = lambda item: None) -> None:
        self.items: list[Item] = []
        self._listener = listener
        self._steps = 0

    def step(self, text: str) -> None:
        self._steps += 1
        self._add(Step(self._steps, text))

    def fact(self, kind: Kind, text: str, data: Mapping[str, Any] | None = None) -> None:
        self._add(Fact(kind, text, data or {}))

    def check(self, holds: bool, text: str, seen: object = "") -> bool:
        self._add(Check(holds, text, "" if holds else str(seen)))
        return holds

    @property
    def checks(self) -> list[Check]:
        return [item for item in self.items if isinstance(item, Check)]

    def _add(self, item: Item) -> None:
        self.items.append(item)
        self._listener(item)


@dataclass(frozen=True, slots=True)
class Result:
    """How a scenario went."""

    name: str
    number: int
    title: str
    ending: Ending
    seed: int
    seconds: float
    target: str
    reason: str = ""  #: why it was skipped or not played to its end
    items: tuple[Item, ...] = ()

    @property
    def failed(self) -> bool:
        return self.ending in (Ending.WRONG, Ending.BROKEN)

    @property
    def checks(self) -> list[Check]:
        return [item for item in self.items if isinstance(item, Check)]

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "number": self.number,
            "title": self.title,
            "ending": self.ending.value,
            "target": self.target,
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "checks": len(self.checks),
            "failedChecks": sum(not check.holds for check in self.checks),
            **({"reason": self.reason} if self.reason else {}),
            "story": [item.as_dict() for item in self.items],
        }
