"""The example of docs/spark.md for declarative pipelines, run by Spark's own command."""

import importlib.util
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from fencepost.spark.home import spark_home
from fencepost.spark.java import java_home
from tests import logins
from tests.conftest import ROOT, unique, wait_until
from tests.pages import block
from tests.spark.checker import read_committed

TIMEOUT_S = 300
#: What `pyspark[pipelines]` installs, beside PySpark 4.1 or later.
NEEDED = ("yaml", "grpc", "grpc_status", "google.protobuf", "pyspark.pipelines")


def is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(not all(map(is_installed, NEEDED)), reason="needs pyspark[pipelines]"),
]
SPECIFICATION = """
name: shop
storage: file://{storage}
libraries:
  - glob:
      include: transformations/**
"""


class Project:
    """A directory for `spark-pipelines`, and the topics that it reads and writes."""

    def __init__(self, home: Path, bootstrap: str, purchases: str, invoices: str) -> None:
        self.home, self.bootstrap, self.purchases, self.invoices = home, bootstrap, purchases, invoices
        self.pipeline = unique("pipeline")
        self.written = 0
        program = block("declarative", ROOT / "docs" / "spark.md").text
        for old, new in {
            "localhost:9092": bootstrap,
            '"shop"': f'"{self.pipeline}"',
            '"topic": "invoices"': f'"topic": "{invoices}"',
            '"purchases"': f'"{purchases}"',
            ".load())": '.option("maxOffsetsPerTrigger", 20).load())',
        }.items():
            assert old in program
            program = program.replace(old, new)
        (home / "transformations").mkdir(parents=True)
        (home / "transformations" / "invoices.py").write_text(program)
        (home / "spark-pipeline.yml").write_text(SPECIFICATION.format(storage=home / "storage"))

    def change(self, old: str, new: str) -> None:
        """Text of the program."""
        program = self.home / "transformations" / "invoices.py"
        text = program.read_text()
        assert old in text
        program.write_text(text.replace(old, new))

    def add(self, program: str) -> None:
        (self.home / "transformations" / "more.py").write_text(program)

    def write(self, count: int) -> None:
        producer = Producer(logins.confluent(self.bootstrap))
        for number in range(self.written, self.written + count):
            producer.produce(self.purchases, str(number))
        assert producer.flush(30) == 0
        self.written += count

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
        names = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, "PYTHONPATH": path}
        places = {"SPARK_HOME": str(spark_home()), "JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": "127.0.0.1"}
        # Its local server takes a free port, not 15002, which may be another's.
        places["SPARK_TESTING"] = "1"
        with (self.home / "log").open("a") as log:
            return subprocess.Popen(
                [str(spark_home() / "bin" / "spark-pipelines"), "run", *arguments],
                cwd=self.home,
                env={**os.environ, **names, **places},
                stdout=log,
                stderr=log,
                text=True,
                start_new_session=True,
            )

    def run(self, *arguments: str) -> None:
        assert self.start(*arguments).wait(TIMEOUT_S) == 0, (self.home / "log").read_text()[-4000:]

    def seen(self) -> Counter[str]:
        return Counter(read_committed(self.bootstrap, self.invoices))

    def assert_complete(self) -> None:
        assert self.seen() == Counter(map(str, range(self.written)))
        self.assert_committed(self.pipeline)

    def assert_committed(self, group: str) -> None:
        """The group stands at the end of the purchases."""
        consumer = Consumer({**logins.confluent(self.bootstrap), "group.id": group})
        committed = consumer.committed([TopicPartition(self.purchases, 0)], timeout=30)[0].offset
        assert committed == consumer.get_watermark_offsets(TopicPartition(self.purchases, 0), timeout=30)[1]
        consumer.close()

    def checkpoints(self) -> list[str]:
        return sorted(path.name for path in (self.home / "storage/_checkpoints/invoices/to_invoices").iterdir())


@pytest.fixture
def project(tmp_path: Path, bootstrap: str, topic: Callable[..., str]) -> Project:
    return Project(tmp_path / "project", bootstrap, topic(1), topic(1))


@pytest.mark.thorough
def test_a_pipeline_that_is_killed_and_run_again_writes_everything_once(project: Project) -> None:
    project.write(200)
    process = project.start()
    wait_until(lambda: len(project.seen()) > 0 or process.poll() is not None, "a batch is written", TIMEOUT_S)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert max(project.seen().values()) == 1
    project.run()
    project.assert_complete()
    project.write(50)
    project.run()
    project.assert_complete()


@pytest.mark.thorough
def test_a_full_refresh_continues_at_the_committed_offsets(project: Project) -> None:
    project.write(50)
    project.run()
    project.write(50)
    project.run("--full-refresh-all")
    project.assert_complete()
    assert project.checkpoints() == ["0", "1"]


#: Of every ten purchases one is bad.
WITH_ERROR = """selectExpr("key", "value", "IF(CAST(value AS STRING) % 10 = 3, 'a three', NULL) AS error")"""
#: A flow to files, with the source's own commits.
TO_FILES = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

dp.create_sink("copies", "parquet", {{"path": "{files}"}})

@dp.append_flow(target="copies")
def to_copies():
    return (SparkSession.active().readStream.format("fencepost").option("kafka.bootstrap.servers", "{servers}")
            .option("subscribe", "{purchases}").option("startingOffsets", "earliest")
            .option("kafka.group.id", "{group}").option("commitOffsets", "true").load())
"""


@pytest.mark.thorough
def test_purchases_are_invoices_or_dead_letters_and_a_group_follows_the_flow_to_files(
    project: Project, topic: Callable[..., str]
) -> None:
    dead, group = topic(1), unique("group")
    project.change('select("key", "value")', WITH_ERROR)
    project.change('"topic": ', f'"deadLetters": "{dead}", "topic": ')
    places = {"servers": project.bootstrap, "purchases": project.purchases, "files": project.home / "copies"}
    project.add(TO_FILES.format(group=group, **places))
    project.write(200)
    process = project.start()
    wait_until(lambda: len(project.seen()) > 0 or process.poll() is not None, "a batch is written", TIMEOUT_S)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for _ in range(2):  # before Spark 4.2 the second run commits the last batch of the first
        project.run()
        bad = {str(number) for number in range(200) if number % 10 == 3}
        assert project.seen() == Counter(str(number) for number in range(200) if str(number) not in bad)
        assert Counter(read_committed(project.bootstrap, dead)) == Counter(bad)
        project.assert_committed(project.pipeline)
    project.assert_committed(group)
