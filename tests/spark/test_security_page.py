"""The blocks of the page on security that need Spark."""

import os
from collections import Counter

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from pyspark.sql import SparkSession

import fencepost
from tests.conftest import KAFKA_PASSWORD
from tests.pages import block


def test_tls_and_scram(spark: SparkSession) -> None:
    assert os.environ["KAFKA_PASSWORD"] == KAFKA_PASSWORD, "Spark's processes have it"
    with fencepost.Broker(security="SASL_SSL") as broker:
        login = broker.client_config("confluent")
        wanted = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        alice = UserScramCredentialUpsertion("alice", wanted, KAFKA_PASSWORD.encode())
        admin = AdminClient(login)
        for future in admin.alter_user_scram_credentials([alice]).values():
            future.result(30)
        producer = Producer(login)
        producer.produce("purchases", b"one")
        assert producer.flush(30) == 0
        places = {
            "kafka.example.org:9093": broker.bootstrap_servers,
            "/etc/kafka/authority.pem": broker.directory / "security" / "authority.pem",
        }
        names = {"spark": spark}
        exec(block("scram").filled(places), names)
        assert names["purchases"].isStreaming
        found = spark.read.format("fencepost").options(**names["secured"]).option("subscribe", "purchases").load()
        assert [row.value for row in found.collect()] == [b"one"]


def test_a_secured_broker_from_python(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    exec(block("python").text, {"spark": spark})
    shown = capsys.readouterr().out
    assert Counter(line.strip("| ") for line in shown.splitlines() if "from" in line) == Counter(
        ["from confluent-kafka", "from kafka-python", "from aiokafka"]
    )
