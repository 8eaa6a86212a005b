"""A pipeline with the rights that docs/security.md lists, and without each of them.

The commands are the page's own, run by a shell with Kafka's tools. A right that is taken away ends the query with an
error, and the command in that error is what brings it back.
"""

import argparse
import json
import os
import re
import shlex
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from bench.harness import java
from fencepost.broker.settings_table import ELSEWHERE
from fencepost.lab.kit.java import QUICK
from fencepost.lab.kit.kafka import AUTHORIZER, ApacheKafka
from fencepost.lab.kit.servers import HOST, LAB_SETTINGS, Ours, Server
from fencepost.security import jaas
from fencepost.security.names import Protocol
from fencepost.security.quick import MECHANISM, SCRAM_MODULE, prepare
from fencepost.security.settings import ClientSecurity
from fencepost.security.spellings import spelled
from fencepost.spark import batch_writer, write
from fencepost.spark.state import Keyed, StatefulStep, Updated
from tests import logins, quick_spark
from tests.conftest import wait_until
from tests.pages import Block, block
from tests.spark.checker import read_records, wait_until_settled

TIMEOUT_S = 30
HOST_OF_PAGE = "kafka.example.org:9093"
#: The page's commands, and the programs that its shell finds under these names.
PROGRAMS = {"kafka-acls": "org.apache.kafka.tools.AclCommand", "kafka-topics": "org.apache.kafka.tools.TopicCommand"}
#: Topics that are missing stay missing.
SETTINGS = {**LAB_SETTINGS, **AUTHORIZER, "auto.create.topics.enable": "false"}
PASSWORD = 'the "password" of all'
COUNT = 40
FEW = 10


@pytest.fixture(scope="module", params=["Apache Kafka", "fencepost"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Secured, with an authorizer. Its own user may do everything."""
    home = tmp_path_factory.mktemp("rights")
    made: Server
    if request.param == "fencepost":
        if next(iter(AUTHORIZER)) in ELSEWHERE:
            pytest.skip("the broker has no authorizer yet")
        made = Ours(home, SETTINGS, security=Protocol.SASL_SSL)
    else:
        security = prepare(home / "security", Protocol.SASL_SSL, HOST)
        made = ApacheKafka(java.kafka(), home, SETTINGS, security=security)
    with made:
        made.start()
        logins.remember(made.bootstrap, made.security)
        yield made


@pytest.fixture(scope="module")
def admin(server: Server) -> AdminClient:
    return AdminClient(server.client_config("confluent"))


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    started = quick_spark.start("rights", tmp_path_factory.mktemp("spark"))
    yield started
    started.stop()


# -- the page ----------------------------------------------------------------------------------------------------------


class Page:
    """The commands of the page, run against the server by its administrator."""

    def __init__(self, server: Server, home: Path) -> None:
        self._server = server
        self._settings = home / "admin.properties"
        config = server.client_config("java")
        lines = (f"{name}={str(value).replace(chr(92), chr(92) * 2)}\n" for name, value in config.items())
        self._settings.write_text("".join(lines))
        self._programs = home / "bin"
        self._programs.mkdir()
        for name, main in PROGRAMS.items():
            command = java.kafka().command(main, options=QUICK)
            program = self._programs / name
            program.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
            program.chmod(0o700)

    def run(self, commands: Block) -> None:
        script = commands.filled({HOST_OF_PAGE: self._server.bootstrap, "admin.properties": self._settings})
        path = f"{self._programs}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["/bin/sh", "-ec", script],
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def page(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Page:
    return Page(server, tmp_path_factory.mktemp("page"))


# -- rights ------------------------------------------------------------------------------------------------------------


def grant(admin: AdminClient, binding: AclBinding) -> None:
    admin.create_acls([binding])[binding].result(TIMEOUT_S)
    wait_until(lambda: binding in _bindings(admin), f"{binding} is known")


def revoke(admin: AdminClient, binding: AclBinding) -> None:
    chosen = AclBindingFilter(*(getattr(binding, name) for name in FIELDS))
    (gone,) = admin.delete_acls([chosen])[chosen].result(TIMEOUT_S)
    assert gone == binding
    wait_until(lambda: binding not in _bindings(admin), f"{binding} is gone")


FIELDS = ("restype", "name", "resource_pattern_type", "principal", "host", "operation", "permission_type")
ANY = AclBindingFilter(
    ResourceType.ANY,
    None,  # type: ignore[arg-type]
    ResourcePatternType.ANY,
    None,  # type: ignore[arg-type]
    None,  # type: ignore[arg-type]
    AclOperation.ANY,
    AclPermissionType.ANY,
)


def _bindings(admin: AdminClient) -> list[AclBinding]:
    return list(admin.describe_acls(ANY).result(TIMEOUT_S))


def commanded(command: str, server: Server) -> AclBinding:
    """What a command of an error grants. It says nothing that is not understood here."""
    parser = argparse.ArgumentParser(prog="kafka-acls", exit_on_error=False)
    for option in ("--bootstrap-server", "--command-config", "--allow-principal", "--operation"):
        parser.add_argument(option, required=True)
    parser.add_argument("--add", action="store_true", required=True)
    chosen = parser.add_mutually_exclusive_group(required=True)
    for option in ("--topic", "--group", "--transactional-id"):
        chosen.add_argument(option)
    parser.add_argument("--resource-pattern-type", choices=["literal", "prefixed"], default="literal")
    program, *words = shlex.split(command)
    given = parser.parse_args(words)
    assert (program, given.bootstrap_server, given.command_config) == ("kafka-acls", server.bootstrap, "FILE")
    kinds = {
        "topic": ResourceType.TOPIC,
        "group": ResourceType.GROUP,
        "transactional_id": ResourceType.TRANSACTIONAL_ID,
    }
    ((kind, name),) = [(kind, getattr(given, option)) for option, kind in kinds.items() if getattr(given, option)]
    pattern = ResourcePatternType[given.resource_pattern_type.upper()]
    return acl(kind, name, AclOperation[_constant(given.operation)], given.allow_principal, pattern)


def acl(
    kind: ResourceType,
    name: str,
    operation: AclOperation,
    principal: str = "User:alice",
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
) -> AclBinding:
    return AclBinding(kind, name, pattern, principal, "*", operation, AclPermissionType.ALLOW)


def _constant(word: str) -> str:
    """DescribeConfigs to DESCRIBE_CONFIGS."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", word).upper()


# -- pipelines ---------------------------------------------------------------------------------------------------------


def count_up(given: Keyed) -> Updated:
    counts = given.old.column("n").fill_null(0).to_numpy() + np.bincount(given.index, minlength=len(given.keys))
    return Updated(pa.table({"n": pa.array(counts, pa.int64())}))


TOTALS = StatefulStep("totals", ("last",), "n long", count_up, partitions=4)


class Pipeline:
    """Numbers from one topic to two others and to a stateful step, as a user with a password."""

    def __init__(self, spark: SparkSession, server: Server, home: Path, user: str, pipeline: str, prefix: str) -> None:
        self._spark, self._server, self._home = spark, server, home
        self.name = pipeline
        self.source, self.left, self.right = (f"{prefix}{word}" for word in ("purchases", "invoices", "shipments"))
        self.sold = 0
        login = f"{SCRAM_MODULE} required username={jaas.quote(user)} password={jaas.quote(PASSWORD)};"
        security = ClientSecurity.parse({**dict(server.security.given), "sasl.jaas.config": login})
        self._options = {**spelled(server.bootstrap, security, "spark"), "stateDirectory": str(home / "state")}

    def sell(self, count: int) -> None:
        producer = Producer(self._server.client_config("confluent"))
        for number in range(self.sold, self.sold + count):
            producer.produce(self.source, str(number), key=str(number))
        assert producer.flush(TIMEOUT_S) == 0
        self.sold += count

    def run(self) -> None:
        """Until everything is processed."""
        options = dict(self._options)
        directory, servers = options.pop("stateDirectory"), options["kafka.bootstrap.servers"]
        reader = self._spark.readStream.format("fencepost").options(**options)
        rows = reader.option("subscribe", self.source).option("pipeline", self.name).load()
        del options["kafka.bootstrap.servers"]
        writer = batch_writer(
            pipeline=self.name, bootstrap_servers=servers, options={**options, "stateDirectory": directory}
        )

        def write_both(batch: DataFrame, batch_id: int) -> None:
            numbers = batch.selectExpr("CAST(value AS STRING) AS value")
            with writer.batch(batch, batch_id) as both:
                both.write(numbers, topic=self.left)
                both.write(numbers, topic=self.right)
                both.update(numbers.selectExpr("right(value, 1) AS last"), TOTALS)

        query = (
            rows.writeStream.foreachBatch(write_both)
            .option("checkpointLocation", str(self._home / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(180)
        finally:
            query.stop()
            writer.close()

    def fail(self) -> str:
        """What a user sees of a query that fails, without what Spark says of the query itself."""
        with pytest.raises(StreamingQueryException) as failed:
            self.run()
        return str(failed.value).partition("=== Streaming Query ===")[0]

    def write(self, how: str) -> None:
        """Numbers to the left topic, as a batch."""
        numbers = self._spark.range(COUNT).selectExpr("CAST(id AS STRING) AS value")
        if how == "save":
            numbers.write.format("fencepost").options(**self._options, topic=self.left).mode("append").save()
        else:
            options = dict(self._options)
            servers = options.pop("kafka.bootstrap.servers")
            write(numbers, bootstrap_servers=servers, topic=self.left, options=options)

    def assert_exact(self) -> None:
        expected = Counter(str(number) for number in range(self.sold))
        for topic in (self.left, self.right):
            assert self.values(topic) == expected
        totals: dict[str, int] = {}
        for record in read_records(self._server.bootstrap, f"{self.name}.totals.changelog"):
            totals[json.loads(record.key() or b"")["last"]] = json.loads(record.value() or b"")["n"]
        assert totals == Counter(number[-1] for number in expected)

    def values(self, topic: str) -> Counter[str]:
        return Counter((record.value() or b"").decode() for record in read_records(self._server.bootstrap, topic))


MakePipeline = Callable[..., Pipeline]


@pytest.fixture
def make(spark: SparkSession, server: Server, admin: AdminClient, tmp_path: Path) -> MakePipeline:
    """A user, topics, and no rights yet."""

    def made(user: str, pipeline: str, prefix: str = "") -> Pipeline:
        changed = UserScramCredentialUpsertion(
            user, ScramCredentialInfo(ScramMechanism[MECHANISM.replace("-", "_")], 4096), PASSWORD.encode()
        )
        for each in admin.alter_user_scram_credentials([changed]).values():
            each.result(TIMEOUT_S)
        found = Pipeline(spark, server, tmp_path, user, pipeline, prefix)
        topics = [NewTopic(name, 2, 1) for name in (found.source, found.left, found.right)]
        for each in admin.create_topics(topics, operation_timeout=TIMEOUT_S).values():
            each.result(TIMEOUT_S)
        return found

    return made


COMMAND = re.compile(r"This grants it: (kafka-acls [^\n]*)")


def named_in(said: str, server: Server) -> AclBinding:
    """The right that an error names, in a sentence and by its command."""
    (command,) = {found.strip() for found in COMMAND.findall(said)}
    right = commanded(command, server)
    assert f"{right.principal} lacks the right" in said
    return right


@pytest.mark.timeout(900)
def test_a_pipeline_runs_with_the_rights_of_the_page_and_without_one_says_which(
    make: MakePipeline, page: Page, admin: AdminClient, server: Server
) -> None:
    pipeline = make("alice", "shop")
    page.run(block("least-rights"))
    page.run(block("ledger"))
    rights = _bindings(admin)
    topic, may_read, may_write = ResourceType.TOPIC, AclOperation.READ, AclOperation.WRITE
    assert set(rights) == {
        acl(topic, "purchases", may_read),
        acl(topic, "invoices", may_write),
        acl(topic, "shipments", may_write),
        *(
            acl(topic, name, each)
            for name in ("fencepost.ledger", "shop.totals.changelog")
            for each in (may_read, may_write)
        ),
        acl(ResourceType.GROUP, "shop", may_read),
        acl(ResourceType.TRANSACTIONAL_ID, "fencepost-shop", may_write),
    }
    pipeline.sell(COUNT)
    pipeline.run()
    pipeline.assert_exact()
    for right in rights:
        revoke(admin, right)
        pipeline.sell(FEW)
        assert named_in(pipeline.fail(), server) == right
        # Long before the transaction timeout.
        wait_until_settled(server.bootstrap, pipeline.left, pipeline.right)
        grant(admin, right)
        pipeline.run()
        pipeline.assert_exact()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("how", ["write", "save"])
def test_a_batch_write_needs_two_rights(make: MakePipeline, admin: AdminClient, server: Server, how: str) -> None:
    pipeline = make(f"carol-{how}", "none", f"{how}.")
    user, may_write, prefixed = f"User:carol-{how}", AclOperation.WRITE, ResourcePatternType.PREFIXED
    missing = {
        acl(ResourceType.TOPIC, pipeline.left, may_write, user),
        acl(ResourceType.TRANSACTIONAL_ID, "fencepost-batch-", may_write, user, prefixed),
    }
    while missing:
        with pytest.raises(Exception, match="This grants it") as failed:
            pipeline.write(how)
        right = named_in(str(failed.value), server)
        missing.remove(right)
        grant(admin, right)
    pipeline.write(how)
    assert pipeline.values(pipeline.left) == Counter(str(number) for number in range(COUNT))


@pytest.mark.timeout(600)
def test_a_team_whose_names_begin_alike_needs_four_commands(
    make: MakePipeline, page: Page, admin: AdminClient, server: Server
) -> None:
    """Its pipeline creates its changelog. The ledger is there, or the right to create it is missing."""
    pipeline = make("bob", "team.shop", "team.")
    page.run(block("team"))
    pipeline.sell(COUNT)
    if "fencepost.ledger" in admin.list_topics(timeout=TIMEOUT_S).topics:
        admin.delete_topics(["fencepost.ledger"])["fencepost.ledger"].result(TIMEOUT_S)
    create = acl(ResourceType.TOPIC, "fencepost.ledger", AclOperation.CREATE, "User:bob")
    assert named_in(pipeline.fail(), server) == create
    grant(admin, create)
    pipeline.run()
    pipeline.assert_exact()
