"""What a newcomer does first works as it is written: in an environment that is not activated, in a plain session.

Each program runs in a process of its own, with a `python3` in its PATH that has no fencepost, as the system's has none.
"""

import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.pages import block, starting

README, SPARK = ROOT / "README.md", ROOT / "docs" / "spark.md"
TIMEOUT_S = 220
#: What an activated environment, or another test's session, would have set.
LEFT_OUT = re.compile(r"PYSPARK_.*|SPARK_HOME|JAVA_HOME|PYTHONPATH|VIRTUAL_ENV")


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment with a Python of this version, and nothing else."""
    home = tmp_path_factory.mktemp("bare")
    venv.create(home, symlinks=True, with_pip=False)
    return home / "bin"


def run(program: str, directory: Path, bare: Path, **more: str) -> "subprocess.CompletedProcess[str]":
    script = directory / "program.py"
    script.write_text(program)
    kept = {name: value for name, value in os.environ.items() if not LEFT_OUT.fullmatch(name)}
    environment = {**kept, "PATH": f"{bare}:/usr/bin:/bin", "SPARK_LOCAL_IP": "127.0.0.1", **more}
    return subprocess.run(
        [sys.executable, str(script)],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def test_the_first_snippet_of_the_readme_runs(tmp_path: Path, bare: Path) -> None:
    ran = run(starting("import tempfile", README).text, tmp_path, bare)
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert re.search(r"invoices *\|\{\"purchaseId\":1,\"userId\":7,\"totalPrice\":20\.0\}", ran.stdout)
    assert re.search(r"shipments *\|\{\"purchaseId\":1,\"userFullName\":\"Ada\",\"quantity\":2\}", ran.stdout)


@pytest.mark.thorough
def test_the_first_snippet_of_the_page_on_spark_runs(tmp_path: Path, bare: Path) -> None:
    ran = run(block("first", SPARK).text, tmp_path, bare)
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert "SinkProgress(pipeline='shop'" in ran.stdout
    assert "records=1000" in ran.stdout


@pytest.mark.thorough
def test_the_example_of_the_standard_writer_api_runs(tmp_path: Path, bare: Path) -> None:
    ran = run(block("writer-api", SPARK).text, tmp_path, bare)
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert ran.stdout.splitlines()[-1] == "1000"


def test_the_example_of_dead_letters_runs(tmp_path: Path, bare: Path) -> None:
    ran = run(block("dead-letters", SPARK).text, tmp_path, bare)
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert "{'invoices': 1} {'query': 2}" in ran.stdout


LATE = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()

import tempfile
import fencepost
from fencepost.spark import register, write, write_stream

broker = fencepost.Broker().start()
broker.create_topic("in")
broker.create_topic("out")
servers = broker.bootstrap_servers
write(spark.range(10).selectExpr("CAST(id AS STRING) AS value"), bootstrap_servers=servers, topic="in")
register(spark)
rows = (spark.readStream.format("fencepost").option("kafka.bootstrap.servers", servers).option("subscribe", "in")
        .option("pipeline", "late").load())
query = write_stream(rows.select("value"), topic="out", checkpoint=tempfile.mkdtemp(), trigger={"availableNow": True})
query.awaitTermination()
found = spark.read.format("fencepost").option("kafka.bootstrap.servers", servers).option("subscribe", "out").load()
print("found", found.count())
"""


def test_a_session_that_was_there_before_the_import_is_served_after_register(tmp_path: Path, bare: Path) -> None:
    ran = run(LATE, tmp_path, bare)
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert "found 10" in ran.stdout


FAILING = """
import sys
import tempfile
import fencepost
from fencepost.spark import write, write_stream
from fencepost.spark.session import session

broker = fencepost.Broker().start()
broker.create_topic("in")
servers = broker.bootstrap_servers
spark = session(master="local[2]")
write(spark.range(10).selectExpr("CAST(id AS STRING) AS value"), bootstrap_servers=servers, topic="in")
rows = (spark.readStream.format("fencepost").option("kafka.bootstrap.servers", servers).option("subscribe", "in")
        .option("pipeline", "failing").load().selectExpr("'nowhere' AS topic", "value"))
print("from here on", file=sys.stderr, flush=True)
query = write_stream(rows, checkpoint=tempfile.mkdtemp(), trigger={"availableNow": True})
try:
    query.awaitTermination()
except Exception as error:
    print(error)
print("to here", file=sys.stderr, flush=True)
"""


def test_a_failed_batch_takes_a_few_lines_on_standard_error(tmp_path: Path, bare: Path) -> None:
    ran = run(FAILING, tmp_path, bare)
    assert ran.returncode == 0, ran.stderr[-4000:]
    said = ran.stderr.split("from here on\n")[1].split("to here\n")[0].splitlines()
    assert 1 <= len(said) <= 4, said
    assert "fencepost.errors.TopicNotFound: a row cannot be written to topic 'nowhere'" in said[-1]
    raised = ran.stdout.split("=== Streaming Query ===")[0].splitlines()
    assert len(raised) <= 16, raised


ELSEWHERE = """
import fencepost
from fencepost.errors import ConfigError
from fencepost.spark import write
from pyspark.sql import SparkSession

broker = fencepost.Broker().start()
broker.create_topic("in")
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
try:
    rows = spark.range(10).selectExpr("CAST(id AS STRING) AS value")
    write(rows, bootstrap_servers=broker.bootstrap_servers, topic="in")
except ConfigError as error:
    print(error)
"""


def test_a_python_of_the_users_wins_and_the_error_says_what_it_lacks(tmp_path: Path, bare: Path) -> None:
    ran = run(ELSEWHERE, tmp_path, bare, PYSPARK_PYTHON=str(bare / "python"))
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert ran.stdout.startswith("Spark's Python workers cannot import fencepost: ")
    assert "set PYSPARK_PYTHON" in ran.stdout
