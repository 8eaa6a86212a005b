"""The program on the page about Spark runs as a reader would run it, and is killed as its events say."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from fencepost.child import Child
from fencepost.lab.kit.servers import Ours
from tests.conftest import wait_until
from tests.pages import ROOT, block
from tests.spark.checker import read_committed
from tests.spark.connect.server import ConnectServer
from tests.spark.test_first_steps import bare, run

__all__ = ["bare"]  # a fixture

pytestmark = pytest.mark.thorough

TIMEOUT_S = 60.0
PAGE = ROOT / "docs" / "spark.md"
PURCHASES = 5_000


class Reader:
    """Somebody who has a Kafka, a server of Spark Connect, and the page."""

    def __init__(self, bootstrap: str, server: ConnectServer, home: Path) -> None:
        self.bootstrap, self.home = bootstrap, home
        places = {
            "sc://spark.example:15002": server.url,
            "kafka.example:9092": bootstrap,
            "/data/checkpoint": home / "checkpoint",
        }
        self.script = home / "program.py"
        self.script.write_text(block("connect", PAGE).filled(places))
        self.bought = 0

    def buy(self) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for number in range(self.bought, self.bought + PURCHASES):
            producer.produce("purchases", str(number), key=str(number))
        assert producer.flush(TIMEOUT_S) == 0
        self.bought += PURCHASES

    @contextmanager
    def program(self) -> Iterator[Child]:
        """Running, and its query started."""
        with Child(self.home / "program.log", "the program") as child:
            child.start([sys.executable, str(self.script)], None, self.home)
            assert (child.first_line(TIMEOUT_S) or "").startswith("query "), child.said()
            yield child

    def processed(self) -> int:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "shop"})
        found = consumer.committed([TopicPartition("purchases", 0)], timeout=TIMEOUT_S)
        consumer.close()
        return max(0, int(found[0].offset))

    def wait_until_processed(self, count: int) -> None:
        wait_until(lambda: self.processed() >= count, f"{count} purchases are processed", TIMEOUT_S)


def test_the_program_is_killed_twice_and_is_exact(
    start_broker: Callable[..., Ours], own_server: ConnectServer, tmp_path: Path
) -> None:
    broker = start_broker({"num.partitions": "1", "auto.create.topics.enable": "true"})
    reader = Reader(broker.bootstrap, own_server, tmp_path)
    Producer({"bootstrap.servers": broker.bootstrap}).list_topics("invoices", timeout=TIMEOUT_S)
    reader.buy()
    with reader.program() as program:
        reader.wait_until_processed(1)
        program.signal(signal.SIGKILL)
        program.wait(TIMEOUT_S)
    reader.wait_until_processed(PURCHASES)  # the query goes on without the program
    reader.buy()
    with reader.program():
        reader.wait_until_processed(PURCHASES + 1)
        own_server.kill()
    own_server.start()
    reader.buy()
    with reader.program():
        reader.wait_until_processed(reader.bought)
    assert sorted(map(int, read_committed(broker.bootstrap, "invoices"))) == [*range(reader.bought)]


def test_the_first_pipeline_runs_in_local_mode(tmp_path: Path, bare: Path) -> None:
    program = block("first", PAGE).text
    assert '.appName("shop")' in program
    # Its server takes a free port, not 15002, which may be another's.
    ran = run(program.replace('.appName("shop")', '.remote("local[2]")'), tmp_path, bare, SPARK_TESTING="1")
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert "SinkProgress(pipeline='shop'" in ran.stdout
    assert "records=1000" in ran.stdout
