"""Scenarios, played by tests."""

import json
import random
from collections.abc import Mapping

import pytest
from _pytest.mark import ParameterSet

from fencepost.lab.kit.target import Target
from fencepost.lab.scenarios.catalogue import choose
from fencepost.lab.scenarios.play import Player, Settings
from fencepost.lab.scenarios.scenario import Scenario
from fencepost.lab.scenarios.story import Ending, Result


def play(*scenarios: Scenario, cluster: Mapping[str, str] | None = None, seed: int | None = None) -> list[Result]:
    """`cluster` are Kafka's settings for a client of it; without them, on our broker."""
    seed = random.SystemRandom().randrange(2**31) if seed is None else seed
    player = Player(Settings(seed, Target(cluster)), lambda scenario: lambda item: None, lambda result: None)
    return player.play(list(scenarios))


def told(result: Result) -> str:
    return json.dumps(result.as_dict(), indent=1, ensure_ascii=False)


def assert_right(
    scenario: Scenario | str, *, cluster: Mapping[str, str] | None = None, seed: int | None = None
) -> None:
    (chosen,) = choose([scenario]) if isinstance(scenario, str) else [scenario]
    (result,) = play(chosen, cluster=cluster, seed=seed)
    assert result.ending is Ending.RIGHT, told(result)
    assert len(result.checks) >= 3


def thorough(*values: object) -> ParameterSet:
    """A parameter that is used with `--thorough` only."""
    return pytest.param(*values, marks=pytest.mark.thorough)
