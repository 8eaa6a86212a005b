"""The console beside a running Spark pipeline: its batches, its group, and what one of its transactions wrote."""

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MakeTopic, unique
from tests.console.browser import filtered, go
from tests.console.web import Page
from tests.spark import numbers_job
from tests.spark.checker import Checker
from tests.spark.numbers_job import Plan

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def running(spark: Any, bootstrap: str, topic: MakeTopic, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plan]:
    """A pipeline that gets something to do all the time. When it has stopped, all of that has taken effect once."""
    directory: Path = tmp_path_factory.mktemp("pipeline")
    names = {name: topic(2, prefix=name) for name in ("source", "left", "right")}
    plan = Plan(bootstrap, unique("pipeline"), **names, checkpoint=str(directory), is_endless=True)
    check = Checker(plan)
    over = threading.Event()

    def feed() -> None:
        while not over.wait(0.2):
            check.write(50)

    check.write(50)
    query = numbers_job.start(spark, plan)
    feeder = threading.Thread(target=feed, daemon=True)
    feeder.start()
    yield plan
    over.set()
    feeder.join(30)
    query.processAllAvailable()
    query.stop()
    check.assert_complete()


def last_batch(tile: Any) -> int:
    digits = re.sub(r"\D", "", tile.locator(".figure b").first.inner_text())
    return int(digits or 0)


def test_a_running_pipeline_has_a_tile_that_lives_and_a_story(tab: Any, page: Page, running: Plan):
    go(tab, page, "pipelines")
    tile = tab.locator(".tile").filter(has_text=running.pipeline)
    tile.get_by_text("batches / min").wait_for()
    for _ in range(2):  # it goes on
        tab.wait_for_function(
            """([name, before]) => [...document.querySelectorAll('.tile')].some(tile => tile.textContent.includes(name)
            && Number(tile.querySelector('.figure b').textContent.replace(/\\D/g, '')) > before)""",
            arg=[running.pipeline, last_batch(tile)],
        )
    tile.get_by_role("button", name=running.pipeline).click()
    drawer = tab.locator(".drawer")
    drawer.get_by_text("Batches in the ledger").wait_for()
    assert f"{running.source}-0" in drawer.inner_text()
    drawer.get_by_text(re.compile(r"batch \d+")).first.wait_for()
    drawer.locator(".chip.committed").first.wait_for()


def test_its_transactions_and_the_lag_of_its_group_are_live(tab: Any, page: Page, running: Plan):
    go(tab, page, "groups")
    filtered(tab, running.pipeline).wait_for()
    go(tab, page, "transactions")
    mine = tab.locator(".rows .tr").filter(has_text=running.pipeline)
    tab.get_by_label("Filter").fill(running.pipeline)
    mine.first.click()
    tab.get_by_text("every partition has its marker").first.wait_for()
    tab.get_by_role("button", name="Show all that it wrote").click()
    written = tab.locator(".drawer .part")
    for name in (running.left, running.right, "fencepost.ledger"):
        written.filter(has_text=name).first.wait_for()


def test_every_view_is_calm_while_it_runs(tab: Any, page: Page, running: Plan):
    """No error in the page, and no banner, in any view."""
    for view in (
        "transactions",
        f"why?topic={running.left}",
        f"partition?topic={running.left}&partition=0",
        f"records?topic={running.left}&partition=0&start=0",
        "groups",
        "pipelines",
        "topics",
    ):
        go(tab, page, view)
        tab.get_by_text("live", exact=True).wait_for()
        assert tab.locator("#banner").is_hidden(), view
