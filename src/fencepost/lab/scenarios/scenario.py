"""What a scenario is: its name, its expected result, and the function that plays it."""

import enum
import inspect
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
    says: str  #: the expected result, and why
    play: Play
    needs: Needs = Needs.NOTHING
    on_kafka_cluster: Play | None = None  #: instead, on three nodes of Apache Kafka


def scenario(
    number: int, needs: Needs = Needs.NOTHING, *, on_kafka_cluster: Play | None = None
) -> Callable[[Play], Scenario]:
    """Make a scenario of a function. Its docstring says what happens, in one line, and then what the result is."""

    def make(play: Play) -> Scenario:
        line, says = inspect.cleandoc(play.__doc__ or "").split("\n\n")[:2]
        name = play.__name__.replace("_", "-")
        return Scenario(name, number, line.removesuffix("."), " ".join(says.split()), play, needs, on_kafka_cluster)

    return make
