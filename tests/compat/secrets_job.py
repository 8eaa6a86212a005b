"""A Spark that shows everything it has, in a process of its own: `python -m tests.compat.secrets_job`.

Its plan is on standard input, because it holds secrets. UI and event log are on, and logs at a low level. What plans,
errors, progress, listeners and pages of the UI say goes to the directory `seen`, beside Spark's own files.
"""

import contextlib
import functools
import io
import json
import sys
import traceback
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from fencepost.spark import write, write_stream
from tests import quick_spark

EXPLANATIONS = ("simple", "extended", "codegen", "cost", "formatted")
PAGES = ("jobs/", "stages/", "storage/", "environment/", "executors/", "SQL/", "StreamingQuery/")
APIS = ("jobs", "stages?details=true", "executors", "environment", "sql?details=true&planDescription=true&length=1000")
COUNT = 50


@dataclass(frozen=True)
class Plan:
    home: str
    logins: dict[str, dict[str, str]]  #: options of sources by name; each logs in
    wrong: dict[str, dict[str, str]]  #: options that do not
    topics: tuple[str, str]


class Seen:
    """Texts, each in a file."""

    def __init__(self, home: Path) -> None:
        self._directory = home / "seen"
        self._directory.mkdir()

    def note(self, name: str, text: object) -> None:
        with (self._directory / name.replace("/", "_")).open("a") as file:
            file.write(f"{text}\n")

    def printed(self, name: str, call: Callable[[], object]) -> None:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            call()
        self.note(name, out.getvalue())

    def failed(self, name: str, call: Callable[[], object]) -> None:
        """What a call that must fail says, in all lengths."""
        try:
            call()
        except Exception as error:
            self.note(name, "".join(traceback.format_exception(error)) + str(error) + repr(error))
        else:
            raise AssertionError(f"{name}: nothing failed")


class Listener(StreamingQueryListener):
    def __init__(self, seen: Seen) -> None:
        self._seen = seen

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        self._seen.note("listener", vars(event))

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        self._seen.note("listener", event.progress.json)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        self._seen.note("listener", vars(event))

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        self._seen.note("listener", event.exception)


class Job:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.home = Path(plan.home)
        self.seen = Seen(self.home)
        events = self.home / "events"
        events.mkdir()
        conf = {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": events.as_uri(),
            "spark.ui.enabled": "true",
            "spark.ui.port": "0",
        }
        self.spark: SparkSession = quick_spark.start("secrets", self.home, log_file=self.home / "spark.log", conf=conf)
        self.spark.sparkContext.setLogLevel("DEBUG")
        self.spark.streams.addListener(Listener(self.seen))

    def run(self) -> None:
        for name, options in self.plan.logins.items():
            self._succeed(name, options)
        for name, options in self.plan.wrong.items():
            self._fail(name, options)
        self._look_at_ui()
        self.spark.stop()

    def _numbers(self) -> DataFrame:
        return self.spark.range(COUNT).selectExpr("CAST(id AS STRING) AS value")

    def _stream(self, name: str, options: dict[str, str]) -> DataFrame:
        reader = self.spark.readStream.format("fencepost").options(**options)
        return reader.option("subscribe", self.plan.topics[0]).option("pipeline", name).load()

    def _write_stream(self, name: str, rows: DataFrame) -> Any:
        checkpoint, trigger = str(self.home / f"checkpoint-{name}"), {"availableNow": True}
        return write_stream(rows, topic=self.plan.topics[1], checkpoint=checkpoint, trigger=trigger, query_name=name)

    def _succeed(self, name: str, options: dict[str, str]) -> None:
        self._write(options)
        self._numbers().write.format("fencepost").options(**options, topic=self.plan.topics[0]).mode("append").save()
        rows = self._stream(name, options)
        self.seen.note(f"{name} plan", rows._jdf.queryExecution().toString())
        query = self._write_stream(name, rows.select("value"))
        query.awaitTermination()
        for extended in (False, True):
            self.seen.printed(f"{name} query", functools.partial(query.explain, extended))
        self.seen.note(f"{name} progress", [each.json for each in query.recentProgress])
        self.seen.note(f"{name} progress", query.lastProgress)
        read = self.spark.read.format("fencepost").options(**options, subscribe=self.plan.topics[1]).load()
        assert read.count()
        for mode in EXPLANATIONS:
            self.seen.printed(f"{name} explain", functools.partial(read.explain, mode=mode))
        self.seen.note(f"{name} plan", f"{read!r} {read._jdf.queryExecution().toString()}")
        other = f"{name}-spoiled"
        spoiled = self._stream(other, options).selectExpr("CAST(raise_error('spoiled') AS STRING) AS value")
        self.seen.failed(f"{name} batch", lambda: self._write_stream(other, spoiled).awaitTermination())

    def _fail(self, name: str, options: dict[str, str]) -> None:
        batch = self.spark.read.format("fencepost").options(**options).option("subscribe", self.plan.topics[0])
        self.seen.failed(f"{name} read", lambda: batch.load().count())
        stream = self.home / f"checkpoint-{name}-stream"
        self.seen.failed(
            f"{name} stream",
            lambda: (
                self._stream(name, options)
                .writeStream.format("noop")
                .option("checkpointLocation", str(stream))
                .start()
                .awaitTermination()
            ),
        )
        self.seen.failed(f"{name} write", lambda: self._write(options))

    def _write(self, options: dict[str, str]) -> None:
        servers = options["kafka.bootstrap.servers"]
        login = {name: value for name, value in options.items() if name != "kafka.bootstrap.servers"}
        write(self._numbers(), topic=self.plan.topics[0], bootstrap_servers=servers, options=login)

    def _look_at_ui(self) -> None:
        api = f"api/v1/applications/{self.spark.sparkContext.applicationId}"
        for page in (*PAGES, *(f"{api}/{each}" for each in APIS)):
            self.seen.note("page " + page.partition("?")[0], self._get(page))
        for execution in json.loads(self._get(f"{api}/sql?length=1000")):
            self.seen.note("page of executions", self._get(f"SQL/execution/?id={execution['id']}"))
        for job in json.loads(self._get(f"{api}/jobs")):
            self.seen.note("page of jobs", self._get(f"jobs/job/?id={job['jobId']}"))
        for stage in json.loads(self._get(f"{api}/stages")):
            page = f"stages/stage/?id={stage['stageId']}&attempt={stage['attemptId']}"
            self.seen.note("page of stages", self._get(page))

    def _get(self, page: str) -> str:
        with urllib.request.urlopen(f"{self.spark.sparkContext.uiWebUrl}/{page}", timeout=60) as answer:
            text: bytes = answer.read()
        return text.decode(errors="replace")


if __name__ == "__main__":
    Job(Plan(**json.load(sys.stdin))).run()
