"""The shop on Spark, on a stage: topics, jobs that can be killed, and what is looked at after each failure."""

import itertools
import shutil
import sys
import time
from collections.abc import Mapping
from typing import Any

from fencepost.child import ChildFailed
from fencepost.client.identity import TransactionProtocol
from fencepost.client.offsets import latest
from fencepost.lab.kit.programs import Program
from fencepost.lab.scenarios.audit import Shop, check_exactly_once, committed
from fencepost.lab.scenarios.orders import VARIABLE, Orders
from fencepost.lab.scenarios.spark_job import Plan
from fencepost.lab.scenarios.stage import Stage
from fencepost.spark.home import link_spark
from fencepost.wire.terms import Isolation

PARTITIONS = 2
BATCH = 200
JOB_TIMEOUT_S = 240.0
#: Record batches so small that each writer has several, and two stages even for small batches.
OPTIONS = {"kafka.batch.size": "2048", "smallBatchRecords": "0"}
TRANSACTIONAL_ID_PREFIX = "fencepost-"


class SparkShop:
    """One pipeline: its topics, its checkpoint, and one job after the other."""

    def __init__(self, stage: Stage, word: str = "") -> None:
        self.stage = stage
        names = [f"{name}{word}" for name in ("purchases", "invoices", "shipments", "purchases.dead")]
        self.suffix = f"{word}{stage.suffix}"
        purchases, invoices, shipments, _ = stage.topics(*names, partitions=PARTITIONS)
        self.pipeline = stage.name(f"shop{word}")
        self.books = Shop(purchases, invoices, shipments, self.pipeline)
        self.transactional_id = TRANSACTIONAL_ID_PREFIX + self.pipeline
        self.checkpoint = stage.home / f"checkpoint{word}"
        self.sold = 0
        self._jobs = itertools.count(1)
        self._word = word

    def sell(self, count: int = BATCH) -> None:
        self.stage.sell(self.books.purchases, count, self.sold + 1)
        self.sold += count

    def job(
        self,
        protocol: TransactionProtocol,
        *,
        orders: Orders | None = None,
        conf: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
        **changes: Any,
    ) -> Program:
        number = next(self._jobs)
        home = self.stage.home
        plan = Plan(
            self.stage.bootstrap,
            self.pipeline,
            self.books.purchases,
            str(self.checkpoint),
            self.suffix,
            BATCH,
            options={**OPTIONS, "transactionProtocol": str(int(protocol)), **(options or {})},
            conf=dict(conf or {}),
            log_file=str(home / f"spark{self._word}-{number}.log"),
        ).as_dict()
        environment = {
            "SPARK_LOCAL_DIRS": str(home / "spark"),
            "SPARK_HOME": str(link_spark(home / "spark-home")),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }
        if orders is not None:
            environment[VARIABLE] = str(orders.directory)
        return self.stage.program(f"job{self._word} {number}", "spark_job", {**plan, **changes}, environment)

    def orders(self) -> Orders:
        return Orders(self.stage.home / f"orders{self._word}-{time.monotonic_ns()}")

    def wait_for_order(self, job: Program, orders: Orders, point: str) -> int:
        """Until the order is taken; gives the process that took it."""

        def taken() -> int | None:
            found = orders.taken_by(point)
            if found is None and not job.is_running:
                raise ChildFailed(f"{job.name} ended before {point}: {job.said()}")
            return found

        return self.stage.eventually(taken, f"{job.name} comes to {point}", JOB_TIMEOUT_S)

    def wait_until_processed(self, job: Program | None = None) -> None:
        """Until the group stands at the end of all purchases."""
        inputs = self.books.inputs(self.stage)

        def processed() -> bool:
            if job is not None and not job.is_running:
                raise ChildFailed(f"{job.name} has ended: {job.said()}")
            ends = latest(self.stage.cluster, inputs, Isolation.READ_COMMITTED)
            found = self.stage.view.committed(self.pipeline, inputs, stable=False)
            return all(found[str(where)] == end for where, end in ends.items())

        self.stage.eventually(processed, "all purchases are processed", JOB_TIMEOUT_S)

    def finish(self, job: Program) -> None:
        """A job over what there is comes to its end."""
        status = job.wait(JOB_TIMEOUT_S)
        self.stage.check(status == 0, f"{job.name} comes to the end of the purchases", job.said())

    def look(self) -> None:
        self.stage.show_epochs(self.transactional_id)
        self.stage.show_lso(*self.books.outputs(self.stage))

    def look_at_everything(self) -> None:
        stage = self.stage
        stage.show_epochs(self.transactional_id)
        stage.show_log(self.transactional_id)
        outputs = self.books.outputs(stage)
        stage.eventually(
            lambda: all(found.lso == found.end for found in stage.view.ends(outputs).values()), "nothing is open"
        )
        stage.show_lso(*outputs)
        stage.show_readers(self.books.invoices, self.books.shipments)
        stage.show_offsets(self.pipeline, self.books.inputs(stage), stable=True)
        check_exactly_once(stage, self.books)

    def find_in_logs(self, text: str) -> str | None:
        """A line of Spark's logs that has this in it."""
        for path in sorted(self.stage.home.glob(f"spark{self._word}-*.log")):
            for line in path.read_text(errors="replace").splitlines():
                if text in line and "raise " not in line:
                    return line.strip()
        return None

    def check_progress(self) -> None:
        found = sum(committed(self.stage, self.books).values())
        self.stage.check(found == self.sold, f"all {self.sold} purchases have taken effect", found)

    def delete_checkpoint(self) -> None:
        shutil.rmtree(self.checkpoint, ignore_errors=True)
