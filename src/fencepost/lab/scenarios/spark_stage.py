"""The shop on Spark, on a stage: its topics, its jobs, the failures that are ordered, and the checks after each."""

import itertools
import shutil
import signal
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fencepost.child import ChildFailed
from fencepost.client.offsets import latest
from fencepost.lab.kit.programs import Program
from fencepost.lab.scenarios.audit import Shop, check_exactly_once, committed, problems, tell
from fencepost.lab.scenarios.orders import VARIABLE, Action, Orders
from fencepost.lab.scenarios.spark_job import Plan
from fencepost.lab.scenarios.stage import NotYet, Stage
from fencepost.spark.home import link_spark
from fencepost.wire.terms import Isolation

PARTITIONS = 2
BATCH = 200
JOB_TIMEOUT_S = 240.0
#: Record batches so small that each writer has several, and two stages even for small batches.
OPTIONS = {"kafka.batch.size": "2048", "smallBatchRecords": "0"}
TIMEOUT = "kafka.transaction.timeout.ms"
TRANSACTIONAL_ID_PREFIX = "fencepost-"
TWO_EXECUTORS = "local-cluster[2,1,1024]"
#: Runs the driver's and the workers' Python processes.
PYTHON = sys.executable


class SparkShop:
    """One pipeline: its topics, its checkpoint, its orders, and one job after the other."""

    job: Program  #: the last one that was started

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        names = ("purchases", "invoices", "shipments", "purchases.dead")
        purchases, invoices, shipments, _ = stage.topics(*names, partitions=PARTITIONS)
        self.pipeline = stage.name("shop")
        self.books = Shop(purchases, invoices, shipments, self.pipeline)
        self.transactional_id = TRANSACTIONAL_ID_PREFIX + self.pipeline
        self.checkpoint = stage.home / "checkpoint"
        self.orders = Orders(stage.home / "orders")
        self.protocol = stage.protocol()
        self.sold = 0
        self._jobs = itertools.count(1)

    def sell(self, count: int = BATCH) -> None:
        self.stage.sell(self.books.purchases, count, self.sold + 1)
        self.sold += count

    # -- jobs --------------------------------------------------------------------------------------------------------

    def start(
        self, *, conf: Mapping[str, str] | None = None, options: Mapping[str, str] | None = None, **changes: Any
    ) -> Program:
        """Start a job; `changes` are to its plan."""
        number = next(self._jobs)
        home = self.stage.home
        plan = Plan(
            self.stage.kafka,
            self.pipeline,
            self.books.purchases,
            str(self.checkpoint),
            self.stage.suffix,
            BATCH,
            options={**OPTIONS, "transactionProtocol": str(int(self.protocol)), **(options or {})},
            conf=dict(conf or {}),
            log_file=str(home / f"spark-{number}.log"),
        )
        plan = replace(plan, **changes)
        environment = {
            VARIABLE: str(self.orders.directory),
            "SPARK_LOCAL_DIRS": str(home / "spark"),
            "PYSPARK_PYTHON": PYTHON,
            "PYSPARK_DRIVER_PYTHON": PYTHON,
        }
        if not plan.master.startswith("local["):  # executors write into the home
            environment["SPARK_HOME"] = str(link_spark(home / "spark-home"))
        self.job = self.stage.program(f"job {number}", "spark_job", plan, environment)
        return self.job

    def go_live(self, where: str = "", **how: Any) -> None:
        """Start a job that goes on for ever, and wait for its first batch."""
        self.stage.tell(f"Protocol {self.protocol}: the shop runs on Spark{where}, and does its first batch.")
        self.sell()
        self.start(is_endless=True, **how)
        self.wait_until_processed()

    def suffer(self, point: str, action: Action, words: str) -> None:
        """Something happens to the live job in its next batch. The batch is processed all the same."""
        self.stage.tell(words)
        self.orders.give(point, action)
        self.sell()
        self.wait_for_order(point)
        self.get_over_it()
        self.orders.withdraw(point)

    def get_over_it(self) -> None:
        self.wait_until_processed()
        self.look()
        found = sum(committed(self.stage, self.books).values())
        self.stage.check(found == self.sold, f"all {self.sold} purchases have taken effect", found)

    def die(self, point: str, action: Action, **how: Any) -> None:
        """Start a job that is killed at a point of its second batch. So it has done one."""
        self.orders.give(point, action, passes=1)
        status = self.start(**how).wait(JOB_TIMEOUT_S)
        self.stage.check(status == -signal.SIGKILL, "the driver is gone", self.job.said())
        self.job.kill_all()  # what is left of its session

    def close(self) -> None:
        """Kill the live job, and look at everything."""
        self.job.kill_all()
        self.stage.tell("Look at everything.")
        self.look_at_everything()

    def finish(self, **changes: Any) -> None:
        """One more job processes what is left, and ends."""
        status = self.start(**changes).wait(JOB_TIMEOUT_S)
        self.stage.check(status == 0, f"{self.job.name} comes to the end of the purchases", self.job.said())
        self.look_at_everything()

    # -- waiting -----------------------------------------------------------------------------------------------------

    def wait_for_order(self, point: str) -> int:
        """Until the order is taken. Returns the process that took it."""

        def taken() -> int | None:
            found = self.orders.taken_by(point)
            if found is None:
                self._require_job(point)
            return found

        return self.stage.eventually(taken, f"{self.job.name} comes to {point}", JOB_TIMEOUT_S)

    def wait_until_processed(self) -> None:
        """Until the group's offsets are at the end of all purchases."""
        inputs = self.books.inputs(self.stage)

        def processed() -> bool:
            self._require_job("all purchases were processed")
            ends = latest(self.stage.cluster, inputs, Isolation.READ_COMMITTED)
            found = self.stage.view.committed(self.pipeline, inputs, stable=False)
            return all(found[str(where)] == end for where, end in ends.items())

        self.stage.eventually(processed, "all purchases are processed", JOB_TIMEOUT_S)

    def _require_job(self, before: str) -> None:
        if not self.job.is_running:
            raise ChildFailed(f"{self.job.name} ended before {before}: {self.job.said()}")

    def wait_until_settled(self) -> None:
        self.stage.wait_until_settled(self.books.outputs(self.stage), "every transaction ends")

    # -- looking -----------------------------------------------------------------------------------------------------

    def look(self) -> None:
        self.stage.show_epochs(self.transactional_id)
        self.stage.show_lso(*self.books.outputs(self.stage))

    def look_at_everything(self) -> None:
        stage = self.stage
        stage.show_epochs(self.transactional_id)
        stage.show_log(self.transactional_id)
        self.wait_until_settled()
        stage.show_lso(*self.books.outputs(stage))
        stage.show_readers(self.books.invoices, self.books.shipments)
        stage.show_offsets(self.pipeline, self.books.inputs(stage), stable=True)
        check_exactly_once(stage, self.books)

    def find_in_logs(self, text: str) -> str | None:
        """A line of Spark's logs that contains this text."""
        for path in sorted(self.stage.home.glob("spark-*.log")):
            for line in path.read_text(errors="replace").splitlines():
                if text in line and "raise " not in line:
                    return line.strip()
        return None

    def check_whole(self) -> None:
        """No purchase is half done, done twice or unknown, however many have been processed.

        Kafka answers a commit before all partitions show it, so what looks half done is looked at again.
        """
        wrong = ""

        def is_whole() -> bool:
            nonlocal wrong
            wrong = tell(problems(self.stage, self.books, is_final=False))
            return not wrong

        try:
            self.stage.eventually(is_whole, "nothing looks half done")
        except NotYet as error:
            wrong = wrong or str(error)
        self.stage.check(not wrong, "what has taken effect has done so as a whole, and once", wrong)

    def delete_checkpoint(self) -> None:
        shutil.rmtree(self.checkpoint, ignore_errors=True)
