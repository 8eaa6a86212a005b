"""Security in one step: `fencepost up --secure`, `--add-user`, `fencepost.Broker(security=...)`."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import aiokafka
import javaproperties
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaProducer

import fencepost
from fencepost.client.cluster import Cluster
from fencepost.errors import AuthenticationFailed, ConfigError
from fencepost.security import jaas

METADATA = 3


def by_confluent(broker: fencepost.Broker) -> None:
    producer = Producer(broker.client_config("confluent"))
    producer.produce("t", b"1")
    assert producer.flush(30) == 0


def by_kafka_python(broker: fencepost.Broker) -> None:
    producer = KafkaProducer(**broker.client_config("kafka-python"))
    producer.send("t", b"1").get(30)
    producer.close()


def by_aiokafka(broker: fencepost.Broker) -> None:
    async def send() -> None:
        async with aiokafka.AIOKafkaProducer(**broker.client_config("aiokafka")) as producer:
            await producer.send_and_wait("t", b"1")

    asyncio.run(send())


def by_our_own(broker: fencepost.Broker) -> None:
    with Cluster(broker.client_config("java")) as cluster:
        assert cluster.any().call(METADATA, {"topics": []}).brokers


@pytest.mark.parametrize("security", ["SASL_SSL", "SSL", "SASL_PLAINTEXT", "plaintext", None])
def test_a_broker_gives_every_client_what_it_needs(security: str | None) -> None:
    with fencepost.Broker(security=security) as broker:
        broker.create_topic("t")
        for write in (by_confluent, by_kafka_python, by_aiokafka, by_our_own):
            write(broker)
        assert set(broker.client_config("spark")) == {f"kafka.{name}" for name in broker.client_config("java")}
        with pytest.raises(ConfigError, match="choose one of java, spark, confluent, kafka-python, aiokafka"):
            broker.client_config("sarama")


def test_clients_go_on_after_a_restart(tmp_path: Path) -> None:
    with fencepost.Broker(tmp_path / "data", security="SASL_SSL") as broker:
        before = broker.client_config("java")
        broker.kill()
        broker.start()
        assert broker.client_config("java") == before
        by_our_own(broker)
    files = [*(tmp_path / "data" / "security").iterdir()]
    assert len(files) == 4
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


def test_a_protocol_that_does_not_exist_is_refused() -> None:
    with pytest.raises(
        ConfigError, match="security must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL, not 'TLS'"
    ):
        fencepost.Broker(security="TLS")


@contextmanager
def up(*words: object) -> Iterator[Sequence[str]]:
    """`fencepost up`, and the lines that it says before it waits for work."""
    command = [
        sys.executable,
        "-m",
        "fencepost.cli.main",
        "up",
        *map(str, words),
        "--port",
        "0",
        "--owner",
        str(os.getpid()),
    ]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        lines = [process.stdout.readline().rstrip("\n")]
        while "--secure" in words and not lines[-1].startswith("  .option('kafka.ssl.truststore.type'"):
            lines.append(process.stdout.readline().rstrip("\n"))
        yield lines
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        assert process.returncode == 0


def test_what_up_secure_prints_connects_clients(tmp_path: Path) -> None:
    with up(tmp_path / "it's dätä", "--secure") as lines:
        blocks = [block.partition("\n\n")[2] for block in re.split(r"\n\n(?=For )", "\n".join(lines))]
        java = javaproperties.loads(blocks[1])
        librdkafka = dict(re.findall(r"^  ([a-z.]+)=(.*)$", blocks[2], re.MULTILINE))
        spark: dict[str, str] = {}
        for option in blocks[3].splitlines():
            eval(f"reader{option.strip()}", {"reader": SimpleNamespace(option=spark.__setitem__)})
        with Cluster(java) as cluster:
            assert cluster.any().call(METADATA, {"topics": []}).brokers
        assert AdminClient(librdkafka).list_topics(timeout=30).brokers
        assert spark == {f"kafka.{name}": value for name, value in java.items()}


def test_users_are_added_and_get_new_passwords(tmp_path: Path) -> None:
    def log_in(lines: Sequence[str], password: str) -> None:
        login = f"ScramLoginModule required username=alice password={jaas.quote(password)};"
        with Cluster(
            {
                "bootstrap.servers": lines[0].removeprefix("listening on "),
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.jaas.config": login,
            }
        ) as cluster:
            cluster.any()

    words = (tmp_path / "data", "--set", "listeners=SASL_PLAINTEXT://127.0.0.1:0")
    with up(*words, "--add-user", "alice=one=1") as lines:
        log_in(lines, "one=1")
    with up(*words) as lines:
        log_in(lines, "one=1")
    with up(*words, "--add-user", "alice=two") as lines:
        log_in(lines, "two")
        with pytest.raises(AuthenticationFailed):
            log_in(lines, "one=1")
