"""On three nodes of Apache Kafka: how our own topics are replicated, and a leader that dies during a batch."""

import json
import logging
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from bench.harness import java
from fencepost.client import Cluster
from fencepost.client.replication import NO_MODELS, Models
from fencepost.lab.kit.java import QUICK
from fencepost.lab.kit.kafka import KafkaCluster
from fencepost.spark import ledger
from fencepost.spark.sink.steps import BatchStep
from fencepost.spark.state import changelog
from tests import quick_spark
from tests.compat.tools import MAIN, Tool
from tests.conftest import ROOT, wait_until
from tests.pages import block
from tests.spark.numbers_job import Plan
from tests.spark.scene import SMALL_RECORD_BATCHES, Scene
from tests.spark.sink.inprocess import Gate, InProcess, looking

pytestmark = pytest.mark.timeout(600)
#: What a cluster has that nobody has configured: one replica.
UNSAFE = {"default.replication.factor": "1", "min.insync.replicas": "1"}
INPUT = "purchases"


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with KafkaCluster(java.kafka(), tmp_path_factory.mktemp("three"), UNSAFE) as cluster:
        cluster.start()
        create(cluster, INPUT, {"min.insync.replicas": "2"})
        yield cluster


def create(three: KafkaCluster, name: str, configs: dict[str, str] | None = None) -> None:
    admin = AdminClient({"bootstrap.servers": three.bootstrap})
    admin.create_topics([NewTopic(name, 3, replication_factor=3, config=configs or {})])[name].result(60)


def replication(tool: Tool, name: str) -> tuple[int, int]:
    """As kafka-topics and kafka-configs show them: the replication factor, and the effective min.insync.replicas."""
    described = tool("topics", "--describe", "--topic", name)
    settings = tool("configs", "--describe", "--all", "--entity-type", "topics", "--entity-name", name)
    factor, insync = (
        re.search(r"ReplicationFactor: (\d+)", described),
        re.search(r"min\.insync\.replicas=(\d+)", settings),
    )
    assert factor, described
    assert insync, settings
    return int(factor[1]), int(insync[1])


def test_our_topics_are_as_safe_as_the_topics_that_a_query_reads(
    three: KafkaCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tool = Tool(three.bootstrap)
    with Cluster(three.bootstrap) as cluster, caplog.at_level(logging.WARNING, "fencepost.client.replication"):
        ledger.ensure(cluster, Models([INPUT]))
        changelog.look(cluster, "shop.totals.changelog", 4, {}, None, Models([INPUT]))
        assert replication(tool, ledger.TOPIC) == (3, 2)
        assert replication(tool, "shop.totals.changelog") == (3, 2)
        assert not caplog.messages

        changelog.look(cluster, "other.totals.changelog", 2, {}, None, NO_MODELS)
        assert replication(tool, "other.totals.changelog") == (1, 1)
        assert "topic 'other.totals.changelog' has one replica on a cluster of 3 brokers" in caplog.text

    plan = tmp_path / "more.json"
    moves = [{"topic": "other.totals.changelog", "partition": each, "replicas": [1, 2, 3]} for each in range(2)]
    plan.write_text(json.dumps({"version": 1, "partitions": moves}))
    tool("reassign-partitions", "--reassignment-json-file", str(plan), "--execute")
    wait_until(lambda: replication(tool, "other.totals.changelog")[0] == 3, "it has three replicas", 120)


def without_ledger(tool: Tool) -> None:
    """As before any pipeline."""
    if ledger.TOPIC in tool("topics", "--list").split():
        tool("topics", "--delete", "--topic", ledger.TOPIC)
        wait_until(lambda: ledger.TOPIC not in tool("topics", "--list").split(), "the ledger is gone", 60)


def test_the_commands_of_the_page_give_the_ledger_two_more_replicas(three: KafkaCluster, tmp_path: Path) -> None:
    tool = Tool(three.bootstrap)
    without_ledger(tool)
    tool("topics", "--create", "--topic", ledger.TOPIC, "--partitions", "8", "--replication-factor", "1")
    for name in ("reassign-partitions", "configs"):  # as in the bin of Kafka's distribution
        script = tmp_path / f"kafka-{name}"
        script.write_text(f'#!/bin/sh\nexec {shlex.join(java.kafka().command(MAIN[name], options=QUICK))} "$@"\n')
        script.chmod(0o755)
    commands = block("ledger", ROOT / "docs" / "spark.md").filled({"kafka.example.org:9093": three.bootstrap})
    variables = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-e", "-c", commands], cwd=tmp_path, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    wait_until(lambda: replication(tool, ledger.TOPIC) == (3, 2), "it is replicated", 120)


def test_a_leader_that_dies_during_a_batch_is_replaced_and_the_batch_written_once(
    three: KafkaCluster, tmp_path: Path
) -> None:
    """The ledger, which this query creates, has replicas elsewhere, too."""
    tool = Tool(three.bootstrap)
    without_ledger(tool)
    for name in ("numbers", "left", "right"):
        create(three, name, {"min.insync.replicas": "2"})
    options = {**SMALL_RECORD_BATCHES, "smallBatchRecords": "0"}
    checkpoint = str(tmp_path / "checkpoint")
    scene = Scene(Plan(three.bootstrap, "numbers", "numbers", "left", "right", checkpoint, options=options))
    scene.check.write(300)
    spark: SparkSession = quick_spark.start("tests", tmp_path / "spark")
    here, gate = InProcess(spark), Gate(BatchStep.WRITING)
    try:
        with looking(gate.look):
            query = here.start(scene.plan)
            gate.wait_until_reached(query)
            assert replication(tool, ledger.TOPIC) == (3, 2)
            with Cluster(three.bootstrap) as cluster:
                leader = three.node_at(cluster.leader_address("left", 0))
            three.nodes[leader].kill()
            gate.open()
            assert query.awaitTermination(240)
        scene.check.assert_complete()
        three.nodes[leader].start()
    finally:
        here.close()
        spark.stop()
