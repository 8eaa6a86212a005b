"""What the tests of Spark share: scenes with topics, and a Kafka with the settings that they need."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.client import Cluster
from fencepost.lab.kit.kafka import AUTHORIZER
from fencepost.lab.kit.servers import SHORT_CYCLES
from fencepost.security.names import Protocol
from tests import logins
from tests.conftest import APACHE_SETTINGS, unique
from tests.spark.bad_rows import LIMIT
from tests.spark.numbers_job import Plan
from tests.spark.scene import SMALL_RECORD_BATCHES, MakeScene, Scene

#: These tests write records with old timestamps, and none waits for retention.
SECURED_SETTINGS = {**SHORT_CYCLES, **AUTHORIZER, "log.retention.ms": "-1"}


@pytest.fixture(scope="session")
def original_settings(security: Protocol | None) -> dict[str, str]:
    return APACHE_SETTINGS if security is None else SECURED_SETTINGS


@pytest.fixture(scope="session", autouse=True)
def always_quick(quick_start: None) -> None:
    pass


@pytest.fixture
def cluster(bootstrap: str) -> Iterator[Cluster]:
    with logins.cluster(bootstrap) as opened:
        yield opened


@pytest.fixture
def make_scene(topic: Callable[..., str], bootstrap: str, tmp_path: Path) -> MakeScene:
    """`make_scene(300, options=…)`: with 300 numbers in its source."""
    checkpoints = itertools.count()

    def make(count: int = 0, **settings: Any) -> Scene:
        checkpoint = str(tmp_path / f"checkpoint-{next(checkpoints)}")
        given = {"bootstrap": bootstrap, "checkpoint": checkpoint, "options": SMALL_RECORD_BATCHES}
        names = {"source": topic(3), "left": topic(3), "right": topic(2), "pipeline": unique("pipeline")}
        made = Scene(Plan(**{**given, **names, **settings}))
        made.check.write(count)
        return made

    return make


@pytest.fixture
def scene(make_scene: MakeScene) -> Scene:
    return make_scene()


@pytest.fixture
def make_bad_scene(make_scene: MakeScene, topic: Callable[..., str]) -> MakeScene:
    """`make_bad_scene(60, maxAttempts="1")`: with topics that take little, and one for dead letters (`bad_rows`)."""

    def make(count: int, **options: str) -> Scene:
        left, dead = topic(3, config={"max.message.bytes": LIMIT}), topic(2, config={"max.message.bytes": LIMIT})
        given = {**SMALL_RECORD_BATCHES, "deadLetters": dead, **options}
        return make_scene(count, left=left, options=given)

    return make
