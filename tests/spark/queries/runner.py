"""Runs the query of a case once, from its start to the end of what is there, or to its death.

In the Spark of this process; or as a driver of its own, which is really killed.
"""

import contextlib
import itertools
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException

from fencepost.child import Child, ChildFailed
from fencepost.spark.sink.steps import BatchStep
from tests.conftest import ROOT
from tests.spark.queries.case import Case, Death, How, Kind
from tests.spark.queries.deaths import DIED, dying, repeating, stopping
from tests.spark.queries.given import Given, Place
from tests.spark.queries.sinks import Start
from tests.spark.queries.spark_kafka import add_connector
from tests.spark.sink.inprocess import looking

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TIMEOUT_S = 120
NO_END = "the query does not end"


@dataclass
class Runner:
    spark: "SparkSession"
    case: Case
    place: Place

    def run(self, death: Death | None = None) -> str | None:
        """What the query failed with, if it did."""
        if death is not None and death.how is How.KILLED:
            return self._run_elsewhere(death)
        started: Future[StreamingQuery] = Future()
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.configured())
            is_played = death is not None and death.how is How.PLAYED
            handed = stack.enter_context(dying(death if is_played else None))
            if death is not None and death.how is How.STOPPED:
                stack.enter_context(stopping(death, started))
            if death is not None and death.how is How.REPEATED:
                stack.enter_context(repeating(death))
            query, start = self.start()
            started.set_result(query)
            try:
                if not self._await(query):
                    return NO_END
            except StreamingQueryException as error:
                return str(error)
            finally:
                query.stop()
                for pipeline in (*handed, *start.writers):
                    pipeline.close()
        return None

    def start(self) -> "tuple[StreamingQuery, Start]":
        case = self.case
        if any(source.kind is Kind.KAFKA for source in case.sources.values()):
            add_connector(self.spark)
        start = Start(
            records=case.query(Given(self.spark, self.place, case.sources, is_stream=True)),
            pipeline=self.place.pipeline,
            bootstrap=self.place.bootstrap,
            checkpoint=self.place.checkpoint,
            home=self.place.home,
            outputs=self.place.outputs,
            mode=case.mode,
            trigger=case.trigger,
            options={"stateDirectory": str(self.place.home / "state"), **case.options},
        )
        return case.sink(start), start

    @contextlib.contextmanager
    def configured(self) -> Iterator[None]:
        """With the case's settings in the session."""
        before: dict[str, str | None] = {name: self.spark.conf.get(name, None) for name in self.case.conf}
        for name, value in self.case.conf.items():
            self.spark.conf.set(name, value)
        try:
            yield
        finally:
            for name, old in before.items():
                if old is None:
                    self.spark.conf.unset(name)
                else:
                    self.spark.conf.set(name, old)

    def _await(self, query: "StreamingQuery") -> bool:
        is_endless = any(source.kind is Kind.RATE for source in self.case.sources.values())  # it ends by its death
        if is_endless or {"availableNow", "once"} & set(self.case.trigger):
            return bool(query.awaitTermination(TIMEOUT_S))
        query.processAllAvailable()
        return True

    def _run_elsewhere(self, death: Death) -> str | None:
        """In a process of its own, which kills itself and its JVM."""
        with tempfile.TemporaryDirectory(prefix="driver-") as home:
            order, log = Path(home) / "order", Path(home) / "log"
            order.write_bytes(cloudpickle.dumps((self.case, self.place, death)))
            path = os.pathsep.join(filter(None, [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
            with Child(log, "the driver", logs_output=True) as driver:
                command = [sys.executable, "-m", "tests.spark.queries.runner", str(order)]
                driver.start(command, {"PYTHONPATH": path, "SPARK_LOCAL_DIRS": home}, ROOT)
                try:
                    status = driver.wait(TIMEOUT_S)
                except ChildFailed:
                    return NO_END
            if status == -signal.SIGKILL:
                return DIED
            return None if status == 0 else str(log.read_text(errors="replace")[-4000:])


def main() -> int:
    """The driver that is killed: at once, with its JVM."""
    from fencepost.spark.session import session

    case, place, death = cloudpickle.loads(Path(sys.argv[1]).read_bytes())
    left = itertools.count(death.passes, -1)

    def look(here: BatchStep | str) -> None:
        if here == death.point and next(left) == 0:
            os.killpg(0, signal.SIGKILL)

    conf = {"spark.sql.shuffle.partitions": "2", "spark.sql.streaming.pollingDelay": "10"}
    spark = session("driver", "local[2]", conf)
    with looking(look):
        said = Runner(spark, case, place).run()
    if said is not None:
        print(said, file=sys.stderr)
        return 1
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
