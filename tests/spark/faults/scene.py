"""A pipeline of a test's own: its topics, its checkpoint, its drivers, and whoever looks at them from outside."""

import dataclasses
import itertools
import shutil
from pathlib import Path
from typing import Any

from tests.spark.faults.checker import Checker
from tests.spark.faults.driver import Plan
from tests.spark.faults.process import DriverProcess
from tests.spark.faults.shop_checker import ShopChecker

#: Record batches so small that each writer has several.
SMALL_RECORD_BATCHES = {"kafka.batch.size": "1024"}


class Scene:
    """A pipeline, and the drivers that have run it."""

    def __init__(self, plan: Plan, home: Path) -> None:
        self.plan = plan
        self.check = ShopChecker(plan) if plan.is_shop else Checker(plan)
        self._home = home
        self._numbers = itertools.count()
        self._drivers: list[DriverProcess] = []

    @property
    def checkpoint(self) -> Path:
        return Path(self.plan.checkpoint)

    def new_home(self) -> Path:
        """A directory for one more driver. It exists before the driver, so orders can be laid there."""
        home = self._home / f"driver-{next(self._numbers)}"
        (home / "orders").mkdir(parents=True)
        return home

    def start(self, home: Path | None = None, **changes: Any) -> DriverProcess:
        driver = DriverProcess(dataclasses.replace(self.plan, **changes), home or self.new_home())
        self._drivers.append(driver)
        return driver

    def delete_checkpoint(self) -> None:
        shutil.rmtree(self.checkpoint, ignore_errors=True)

    def close(self) -> None:
        for driver in self._drivers:
            driver.close()
