"""Pipelines on the session's broker."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import unique
from tests.spark.faults.driver import Plan
from tests.spark.faults.scene import SMALL_RECORD_BATCHES, Scene


@pytest.fixture
def make_scene(topic: Callable[..., str], bootstrap: str, tmp_path: Path) -> Iterator[Callable[..., Scene]]:
    """`make_scene(bootstrap=…, options=…)`; all of its drivers are gone after the test."""
    made: list[Scene] = []

    def make(make_topic: Callable[..., str] = topic, **settings: Any) -> Scene:
        home = tmp_path / f"scene-{len(made)}"
        home.mkdir()
        given = {"bootstrap": bootstrap, "checkpoint": str(home / "checkpoint"), "options": SMALL_RECORD_BATCHES}
        names = {"source": make_topic(3), "left": make_topic(3), "right": make_topic(2), "pipeline": unique("pipeline")}
        scene = Scene(Plan(**{**given, **names, **settings}), home)
        made.append(scene)
        return scene

    yield make
    for scene in made:
        scene.close()


@pytest.fixture
def scene(make_scene: Callable[..., Scene]) -> Scene:
    return make_scene()
