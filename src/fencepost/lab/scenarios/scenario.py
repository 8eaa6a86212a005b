"""What a scenario is: its name, what has to come of it, and the function that plays it."""

import enum
from collections.abc import Callable
from dataclasses import dataclass

from fencepost.lab.scenarios.stage import Stage

Play = Callable[[Stage], None]


class Needs(enum.Flag):
    NOTHING = 0
    OWN_BROKER = enum.auto()  #: one that may be killed and paused
    OUR_BROKER = enum.auto()  #: fencepost's, which can be killed at a numbered step
    SPARK = enum.auto()


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    number: int  #: of the eight kinds of failure
    line: str  #: what happens, in one line
    says: str  #: what has to come of it
    play: Play
    needs: Needs = Needs.NOTHING
    on_kafka_cluster: Play | None = None  #: instead, on three nodes of Apache Kafka
