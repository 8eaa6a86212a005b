"""Every scenario, in the order of the list."""

import importlib
from collections.abc import Iterable

from fencepost.errors import ConfigError
from fencepost.lab.scenarios.scenario import Scenario

MODULES = (
    "idempotence",
    "producer_restart",
    "zombie",
    "consumers",
    "coordinators",
    "hanging",
    "spark_failures",
    "pauses",
    "spark_pauses",
)


def scenarios() -> list[Scenario]:
    modules = [importlib.import_module(f"fencepost.lab.scenarios.{name}") for name in MODULES]
    found = [each for module in modules for each in vars(module).values() if isinstance(each, Scenario)]
    return sorted(found, key=lambda scenario: scenario.number)


def choose(names: Iterable[str]) -> list[Scenario]:
    """Scenarios by name or by number: `zombie`, `3`. Raises ConfigError if there is none."""
    known = scenarios()
    chosen: list[Scenario] = []
    for name in names:
        fitting = [each for each in known if name in (each.name, str(each.number))]
        if not fitting:
            raise ConfigError(f"there is no scenario {name!r}; `fencepost scenarios ls` lists them")
        chosen += [each for each in fitting if each not in chosen]
    return chosen
