"""Kafka's own programs on a secured broker, each with the file of settings that it takes for that.

What they do there is what the other tests here see without security: those are called again.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import pytest

from bench.harness import brokers
from fencepost.lab.kit.servers import SHORT_CYCLES, Server
from fencepost.security import jaas, quick
from fencepost.security.names import Protocol
from tests.compat import (
    test_client_programs,
    test_cluster_tools,
    test_group_tools,
    test_topic_tools,
    test_transaction_tools,
)
from tests.compat.conftest import write_values
from tests.compat.tools import Tool, write_config
from tests.conftest import wait_until


@dataclass
class Scene:
    server: Server
    tool: Tool
    name: str

    @cached_property
    def topic(self) -> str:
        self.tool("topics", "--create", "--topic", self.name, "--partitions", "3")
        return self.name

    @cached_property
    def fill(self) -> Callable[..., None]:
        return partial(write_values, self.server)


def look_at_a_group(scene: Scene) -> None:
    group = test_group_tools.read_in_a_group(scene.tool, scene.topic, scene.fill)
    test_group_tools.test_a_groups_offsets_and_lag_are_described(scene.tool, scene.topic, group, scene.fill)


def look_at_a_transaction(scene: Scene) -> None:
    with test_transaction_tools.open_transaction(scene.server, scene.topic, scene.name):
        test_transaction_tools.test_a_transaction_is_described_with_its_partitions(scene.tool, scene.topic, scene.name)


PROGRAMS: dict[str, Callable[[Scene], None]] = {
    "topics": lambda s: test_topic_tools.test_topics_are_created_listed_described_and_deleted(s.tool, s.name),
    "configs": lambda s: test_topic_tools.test_a_topics_settings_are_changed_described_and_reset(s.tool, s.topic),
    "get-offsets": lambda s: test_topic_tools.test_offsets_are_looked_up_by_position_and_time(s.tool, s.topic, s.fill),
    "console": lambda s: (
        test_topic_tools.test_console_producer_and_consumer_carry_keys_values_headers_and_every_compression(
            s.tool, s.topic
        )
    ),
    "consumer-groups": look_at_a_group,
    "transactions": look_at_a_transaction,
    "perf-test": lambda s: test_client_programs.test_the_perf_tools_produce_and_consume(s.server, s.tool, s.topic),
    "perf-test in transactions": lambda s: test_client_programs.test_the_perf_tool_produces_in_transactions(
        s.server, s.tool, s.topic
    ),
    "e2e-latency": lambda s: test_client_programs.test_end_to_end_latency(s.server, s.tool, s.topic),
    "verifiable": lambda s: (
        test_client_programs.test_every_acknowledged_record_of_the_verifiable_producer_reaches_the_verifiable_consumer(
            s.tool, s.topic
        )
    ),
    "cluster": lambda s: test_cluster_tools.test_the_cluster_has_an_id_and_one_node(s.server, s.tool),
    "broker-api-versions": lambda s: test_cluster_tools.test_the_java_client_can_use_every_api_that_is_announced(
        s.tool
    ),
}
PROTOCOLS = (Protocol.SASL_SSL, Protocol.SSL)
Running = dict[Protocol, tuple[Server, Tool]]


@pytest.fixture(scope="module")
def running(pytestconfig: pytest.Config, kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A broker of each protocol, and the tools for it."""
    if pytestconfig.getoption("--bootstrap"):
        pytest.skip("starts brokers of its own")
    with ExitStack() as stack:
        servers = {each: stack.enter_context(brokers.running(kind, SHORT_CYCLES, each)) for each in PROTOCOLS}
        yield {each: (server, Tool.of(server, tmp_path_factory.mktemp(each))) for each, server in servers.items()}
        assert not [text for server in servers.values() for text in server.tracebacks()]


@pytest.mark.parametrize(
    ("program", "protocol"), [(each, PROTOCOLS[number % 2]) for number, each in enumerate(PROGRAMS)]
)
def test_a_program_of_kafkas_works_with_a_login_as_without(
    running: Running, name: str, program: str, protocol: Protocol
) -> None:
    PROGRAMS[program](Scene(*running[protocol], name))


class Users:
    """Users of SCRAM by `kafka-configs`."""

    def __init__(self, server: Server, tool: Tool, home: Path) -> None:
        self._server, self._tool, self._home = server, tool, home

    def run(self, user: str, *words: str) -> str:
        return self._tool("configs", "--entity-type", "users", "--entity-name", user, *words)

    def set_password(self, user: str, password: str, *, iterations: int = 4096) -> None:
        wanted = f"{quick.MECHANISM}=[iterations={iterations},password={password}]"
        assert f"Completed updating config for user {user}." in self.run(user, "--alter", "--add-config", wanted)

    def log_in(self, user: str, password: str) -> str:
        """What kafka-topics says to a login."""
        login = f"{quick.SCRAM_MODULE} required username={jaas.quote(user)} password={jaas.quote(password)};"
        settings = {**self._server.client_config("java"), "sasl.jaas.config": login}
        tool = Tool(self._server.bootstrap, write_config(self._home / "user.properties", settings))
        done = tool.run("topics", "--list")
        return done.stdout + done.stderr


def test_users_are_added_changed_and_deleted_with_kafka_configs(running: Running, tmp_path: Path, name: str) -> None:
    users = Users(*running[Protocol.SASL_SSL], tmp_path)
    refused = "Authentication failed during authentication due to invalid credentials"
    assert refused in users.log_in(name, "first")
    users.set_password(name, "first", iterations=8192)
    assert f"SCRAM credential configs for user-principal '{name}' are SCRAM-SHA-512=iterations=8192" in users.run(
        name, "--describe"
    )
    wait_until(lambda: refused not in users.log_in(name, "first"), "the new user logs in", 60)
    users.set_password(name, "s3cond")
    wait_until(lambda: refused in users.log_in(name, "first"), "the old password is refused", 60)
    assert refused not in users.log_in(name, "s3cond")
    users.run(name, "--alter", "--delete-config", quick.MECHANISM)
    wait_until(lambda: refused in users.log_in(name, "s3cond"), "the user is gone", 60)
    assert "SCRAM" not in users.run(name, "--describe")
