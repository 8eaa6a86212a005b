"""A pipeline of a test's own: its topics, its checkpoint, and a look at them from outside."""

import shutil
from collections.abc import Callable
from pathlib import Path

from tests.spark.checker import Checker
from tests.spark.numbers_job import Plan

#: Record batches so small that each writer has several.
SMALL_RECORD_BATCHES = {"kafka.batch.size": "1024"}


class Scene:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.check = Checker(plan)

    @property
    def checkpoint(self) -> Path:
        return Path(self.plan.checkpoint)

    def delete_checkpoint(self) -> None:
        shutil.rmtree(self.checkpoint, ignore_errors=True)


#: The fixture `make_scene`.
MakeScene = Callable[..., Scene]
