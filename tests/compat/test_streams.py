"""Kafka Streams with exactly_once_v2 counts every word exactly once, also when the broker or the program is killed.

The state store is not cached, so each input word gives one output record: for a word that came n times the output must
hold the counts 1, 2, … n, each once and in order. A lost, repeated or half-visible transaction breaks that row.
"""

import contextlib
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from bench.harness import java
from fencepost.child import Child
from fencepost.lab.kit.java import PERFORMANCE_OPTIONS
from fencepost.lab.kit.kafka import AUTHORIZER
from fencepost.lab.kit.servers import Server
from fencepost.security import jaas, quick
from fencepost.security.names import Protocol
from tests.compat.tools import Tool, write_config
from tests.conftest import wait_until

SOURCE = Path(__file__).parent / "java" / "WordCount.java"
WORDS = [f"word{index}" for index in range(40)]
LINES_A_PART = 400
PATIENCE_S = 120
SETTINGS = {"transaction.max.timeout.ms": "60000"}


class Streams:
    """One instance of the application: its state directory stays when it is killed."""

    def __init__(self, arguments: list[str], log: Path) -> None:
        self._arguments = arguments
        self._log = log

    def start(self) -> None:
        options = ("-Xmx400M", "-XX:TieredStopAtLevel=1", *PERFORMANCE_OPTIONS)
        self.process = Child(self._log, "Kafka Streams", logs_output=True)
        self.process.start(java.kafka().command(str(SOURCE), *self._arguments, options=options))

    def kill(self) -> None:
        self.process.kill()


class Counts:
    """Reads the output as a read_committed consumer does, and keeps every count of every word."""

    def __init__(self, server: Server, topic: str) -> None:
        self.seen: dict[str, list[int]] = defaultdict(list)
        self._consumer = Consumer(
            {
                **server.client_config("confluent"),
                "group.id": f"reader-{topic}",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )
        self._consumer.subscribe([topic])

    def total(self) -> int:
        for message in self._consumer.consume(1000, 0.2):
            if message.error() is None:
                key, value = message.key(), message.value()
                assert key is not None and value is not None
                self.seen[key.decode()].append(int.from_bytes(value, "big"))
        return sum(map(len, self.seen.values()))

    def close(self) -> None:
        self._consumer.close()


class Shop:
    """The broker, the application between two topics, and what went in."""

    def __init__(self, server: Server, streams: Streams, counts: Counts, source: str) -> None:
        self.server, self.streams, self.counts = server, streams, counts
        self.expected: Counter[str] = Counter()
        self._source = source
        self._random = random.Random(4)

    def produce(self) -> None:
        """One part of the input, all of it acknowledged."""
        producer = Producer({**self.server.client_config("confluent"), "log_level": 0, "linger.ms": 5})
        for _ in range(LINES_A_PART):
            words = self._random.choices(WORDS, k=3)
            self.expected.update(words)
            producer.produce(self._source, " ".join(words))
        assert producer.flush(60) == 0

    def wait_for(self, share: float) -> None:
        wanted = share * self.expected.total()

        def reached() -> bool:
            assert self.streams.process.is_running, self.streams.process.said()
            return self.counts.total() >= wanted

        try:
            wait_until(reached, f"{wanted:.0f} words are counted", PATIENCE_S)
        except pytest.fail.Exception as failure:
            raise AssertionError(f"{failure}\n{self.streams.process.said()}") from None

    def check(self) -> None:
        self.wait_for(1)
        self.counts.total()
        assert dict(self.counts.seen) == {word: list(range(1, n + 1)) for word, n in self.expected.items()}


@dataclass(frozen=True)
class Topics:
    application: str
    source: str
    target: str


def user_with_least_rights(tool: Tool, server: Server, topics: Topics, home: Path) -> Path:
    """A user who may do what Kafka Streams' documentation names, and nothing else; the file with its settings."""
    user, password = "streams", "counts words"
    scram = f"{quick.MECHANISM}=[password={password}]"
    tool("configs", "--alter", "--entity-type", "users", "--entity-name", user, "--add-config", scram)
    own = ("--resource-pattern-type", "prefixed")
    for words in (
        ("--topic", topics.source, "--operation", "Read"),
        ("--topic", topics.target, "--operation", "Write"),
        ("--topic", topics.application, *own, "--operation", "All"),
        ("--group", topics.application, *own, "--operation", "All"),
        ("--transactional-id", topics.application, *own, "--operation", "Write", "--operation", "Describe"),
    ):
        tool("acls", "--add", "--allow-principal", f"User:{user}", *words)
    login = f"{quick.SCRAM_MODULE} required username={jaas.quote(user)} password={jaas.quote(password)};"
    return write_config(home / "streams.properties", {**server.client_config("java"), "sasl.jaas.config": login})


@contextlib.contextmanager
def running_shop(server: Server, name: str, home: Path, *, has_least_rights: bool = False) -> Iterator[Shop]:
    # Not f"{name}-in": what begins with the application's id is its own.
    topics = Topics(name, f"in-{name}", f"out-{name}")
    tool = Tool.of(server, home)
    for topic in (topics.source, topics.target):
        tool("topics", "--create", "--topic", topic, "--partitions", "2")
    login = user_with_least_rights(tool, server, topics, home) if has_least_rights else tool.config
    words = [server.bootstrap, name, topics.source, topics.target, str(home / "state")]
    streams = Streams([*words, *([] if login is None else [str(login)])], home / "streams.log")
    counts = Counts(server, topics.target)
    streams.start()
    try:
        yield Shop(server, streams, counts, topics.source)
    finally:
        counts.close()
        streams.kill()


@pytest.fixture
def shop(start_server: Callable[..., Server], name: str, tmp_path: Path) -> Iterator[Shop]:
    with running_shop(start_server(SETTINGS), name, tmp_path) as shop:
        yield shop


@pytest.fixture
def secured_shop(start_server: Callable[..., Server], name: str, tmp_path: Path) -> Iterator[Shop]:
    """Over SASL_SSL, on a broker that checks rights."""
    server = start_server({**SETTINGS, **AUTHORIZER}, Protocol.SASL_SSL)
    with running_shop(server, name, tmp_path, has_least_rights=True) as shop:
        yield shop


def test_words_are_counted(shop):
    shop.produce()
    shop.check()


def test_words_are_counted_over_sasl_ssl_with_the_least_rights_though_the_broker_is_killed(secured_shop):
    secured_shop.produce()
    secured_shop.wait_for(0.2)
    secured_shop.produce()
    secured_shop.server.kill()
    secured_shop.server.start()
    secured_shop.check()


def test_the_application_is_killed_in_the_middle_and_started_again(shop):
    shop.produce()
    shop.wait_for(0.2)
    shop.produce()
    shop.streams.kill()
    shop.streams.start()
    shop.wait_for(0.6)
    shop.produce()
    shop.check()


def test_the_broker_is_killed_in_the_middle_and_started_again(shop):
    shop.produce()
    shop.wait_for(0.2)
    shop.produce()
    shop.server.kill()
    shop.server.start()
    shop.wait_for(0.7)
    shop.produce()
    shop.check()


def test_broker_and_application_are_killed_together(shop):
    shop.produce()
    shop.wait_for(0.3)
    shop.produce()
    shop.server.kill()
    shop.streams.kill()
    shop.server.start()
    shop.streams.start()
    shop.check()
