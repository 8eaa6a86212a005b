"""Runs the query of a case once, from its start to the end of what is there, or to its death.

In the Spark of this process; or as a driver of its own, which is really killed.
"""

import contextlib
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
from tests import quick_spark
from tests.conftest import ROOT
from tests.spark.queries.acts import Death, How
from tests.spark.queries.case import Case, Kind
from tests.spark.queries.deaths import DIED, at, ending
from tests.spark.queries.given import Given, Place
from tests.spark.queries.sinks import Start
from tests.spark.queries.spark_kafka import add_connector

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
        with self.configured(), ending(death, started) as handed:
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
        records = case.query(Given(self.spark, self.place, case.sources, is_stream=True))
        start = Start(records, self.place, case.mode, case.trigger, case.options)
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
                driver.start(command, {"PYTHONPATH": path}, ROOT)
                try:
                    status = driver.wait(TIMEOUT_S)
                except ChildFailed:
                    return NO_END
            if status == -signal.SIGKILL:
                return DIED
            return None if status == 0 else str(log.read_text(errors="replace")[-4000:])


def main() -> int:
    """The driver that is killed: at once, with its JVM."""
    order = Path(sys.argv[1])
    case, place, death = cloudpickle.loads(order.read_bytes())
    spark = quick_spark.start("driver", order.parent)
    with at(death, lambda: os.killpg(0, signal.SIGKILL)):
        said = Runner(spark, case, place).run()
    if said is not None:
        print(said, file=sys.stderr)
        return 1
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
