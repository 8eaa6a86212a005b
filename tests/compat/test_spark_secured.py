"""The Spark half on an Apache Kafka with TLS, SCRAM and an authorizer: its own tests, and jobs whose processes die."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from bench.harness import brokers
from fencepost.lab.kit.servers import Server
from fencepost.security.names import Protocol
from tests import logins
from tests.conftest import ROOT
from tests.scenarios.playing import assert_right
from tests.spark.conftest import SECURED_SETTINGS

#: Of tests/spark: what reads, writes and keeps state on the session's broker. The others are about plans and options.
CHOSEN = (
    "sink/test_pipeline.py",
    "sink/test_several_writes.py",
    "sink/test_small.py",
    "sink/test_deaths.py",
    "sink/test_recreated_topics.py",
    "sink/test_dead_letters.py",
    "source/test_batch.py",
    "source/test_stream.py",
    "source/test_planner.py",
    "source/test_committing.py",
    "state/test_stateful_step.py",
    "connect/test_deaths.py",
    "connect/test_dead_letters.py",
    "connect/test_committing.py",
    "connect/test_stop.py",
    "connect/test_state.py",
)


@pytest.fixture(scope="module")
def secured() -> Iterator[Server]:
    with brokers.running("kafka", SECURED_SETTINGS, Protocol.SASL_SSL) as kafka:
        logins.remember(kafka.bootstrap, kafka.security)
        yield kafka


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("story", ["spark-driver-dies", "spark-workers-die", "spark-executor-dies"])
def test_a_job_on_a_secured_cluster_survives_the_death_of_its_processes(secured: Server, story: str) -> None:
    assert_right(story, cluster=secured.client_config("java"))


@pytest.mark.timeout(3600)
def test_the_tests_of_the_spark_half_pass_on_a_secured_cluster() -> None:
    """In a process of their own, because their fixtures live as long as a session."""
    words = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--apache-kafka", "--security", Protocol.SASL_SSL]
    chosen = [str(ROOT / "tests" / "spark" / each) for each in CHOSEN]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, *chosen],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
    assert " passed" in done.stdout
