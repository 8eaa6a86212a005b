"""Plays scenarios one after the other, each on its own stage, and reports how each one ended.

Owns the brokers. Ours is new for every scenario, so that one cannot disturb the next. Apache Kafka starts slowly and is
shared; everything on it has a unique name. A cluster that runs already is only used.
"""

import contextlib
import importlib.util
import logging
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fencepost.errors import FencepostError
from fencepost.lab.kit.kafka import ApacheKafka
from fencepost.lab.kit.servers import LAB_SETTINGS, OUR_SMALL_SEGMENTS, Server
from fencepost.lab.kit.target import Target
from fencepost.lab.scenarios.scenario import Needs, Play, Scenario
from fencepost.lab.scenarios.stage import Stage
from fencepost.lab.scenarios.story import Ending, Listener, Result, Story

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Settings:
    seed: int
    target: Target = field(default_factory=Target)


OnStart = Callable[[Scenario], Listener]
OnEnd = Callable[[Result], None]


class Player:
    def __init__(self, settings: Settings, on_start: OnStart, on_end: OnEnd) -> None:
        self._settings = settings
        self._on_start = on_start
        self._on_end = on_end
        self._home = Path(tempfile.mkdtemp(prefix="fencepost-scenarios-"))
        self._kafka: ApacheKafka | None = None

    def play(self, scenarios: list[Scenario]) -> list[Result]:
        try:
            return [self._play(scenario) for scenario in scenarios]
        finally:
            if self._kafka is not None:
                self._kafka.close()
            shutil.rmtree(self._home, ignore_errors=True)

    def _play(self, scenario: Scenario) -> Result:
        listener = self._on_start(scenario)
        story = Story(listener)
        started_s = time.monotonic()
        reason = self._reason_to_skip(scenario)
        target_name = ""
        if reason:
            ending = Ending.SKIPPED
        else:
            try:
                with self._target(scenario) as (target, home, play):
                    target_name = target.name
                    with Stage(target, story, self._settings.seed, home) as stage:
                        play(stage)
                ending = Ending.RIGHT if all(check.holds for check in story.checks) else Ending.WRONG
            except FencepostError as error:
                ending, reason = Ending.BROKEN, str(error)
            except Exception as error:  # this scenario has failed; the others are still played
                logger.debug("%s", scenario.name, exc_info=True)
                ending, reason = Ending.BROKEN, f"{type(error).__name__}: {error}"
        result = Result(
            scenario.name,
            scenario.number,
            scenario.line,
            ending,
            self._settings.seed,
            time.monotonic() - started_s,
            target_name,
            reason,
            tuple(story.items),
        )
        self._on_end(result)
        return result

    def _reason_to_skip(self, scenario: Scenario) -> str:
        target = self._settings.target
        if target.cluster is not None and scenario.needs & (Needs.OWN_BROKER | Needs.OUR_BROKER):
            return "it kills or pauses the broker, and this one is not ours to harm"
        if target.kafka_library and Needs.OUR_BROKER in scenario.needs and scenario.on_kafka_cluster is None:
            return "it needs a broker that can be killed at a numbered step: fencepost's"
        if Needs.SPARK in scenario.needs and importlib.util.find_spec("pyspark") is None:
            return "Spark is not installed: pip install 'fencepost[spark]'"
        return ""

    @contextlib.contextmanager
    def _target(self, scenario: Scenario) -> Iterator[tuple[Server, Path, Play]]:
        home = self._home / scenario.name
        home.mkdir(parents=True)
        chosen = self._settings.target
        if chosen.cluster is not None:
            yield chosen.elsewhere().start(), home, scenario.play
        elif chosen.kafka_library and scenario.on_kafka_cluster is not None:
            with chosen.kafka_cluster(home / "cluster") as cluster:
                yield cluster.start(), home, scenario.on_kafka_cluster
        elif chosen.kafka_library:
            if self._kafka is None:
                self._kafka = chosen.kafka(self._home / "kafka", LAB_SETTINGS)
            if not self._kafka.is_running:
                self._kafka.start()
            yield self._kafka, home, scenario.play
        else:
            with chosen.ours(home / "broker", {**LAB_SETTINGS, **OUR_SMALL_SEGMENTS}) as ours:
                yield ours.start(), home, scenario.play
