"""The shop on a broker of its own, so that its topics have their names."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.lab.kit.servers import Ours
from tests.conftest import unique
from tests.spark.faults.driver import Plan
from tests.spark.faults.scene import SMALL_RECORD_BATCHES, Scene
from tests.spark.faults.shop_checker import SHOP, open_shop


@pytest.fixture
def make_scene(start_broker: Callable[..., Ours], tmp_path: Path) -> Iterator[Callable[..., Scene]]:
    """`make_scene(options=…)`; all of its drivers are gone after the test."""
    made: list[Scene] = []

    def make(broker: Ours | None = None, **settings: Any) -> Scene:
        home = tmp_path / f"scene-{len(made)}"
        home.mkdir()
        bootstrap = (broker or start_broker()).bootstrap
        open_shop(bootstrap)
        given = {"bootstrap": bootstrap, "checkpoint": str(home / "checkpoint"), "options": SMALL_RECORD_BATCHES}
        scene = Scene(Plan(**{**given, **SHOP, "pipeline": unique("pipeline"), **settings}), home)
        made.append(scene)
        return scene

    yield make
    for scene in made:
        scene.close()


@pytest.fixture
def scene(make_scene: Callable[..., Scene]) -> Scene:
    return make_scene()
