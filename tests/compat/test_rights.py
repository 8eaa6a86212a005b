"""The table of rights, on Apache Kafka: what our broker answers without a right is what the original answers."""

import contextlib
from collections.abc import Iterator

import pytest

from bench.harness import java
from fencepost.lab.kit.kafka import ApacheKafka
from fencepost.lab.kit.servers import HOST, LAB_SETTINGS, free_ports
from fencepost.wire.terms import Address
from tests.security.rights.runner import Case, Scene, broker_settings, cases
from tests.security.rights.table import ROWS

CASES = [case for case in cases(ROWS) if not case.row.only_ours]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    admin, users, controller = free_ports(3)
    settings = {
        **LAB_SETTINGS,
        **broker_settings(CASES),
        "listeners": f"PLAINTEXT://{HOST}:{admin},SASL_PLAINTEXT://{HOST}:{users},CONTROLLER://{HOST}:{controller}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    }
    server = ApacheKafka(java.kafka(), tmp_path_factory.mktemp("kafka"), settings, controllers={1: controller})
    server.port = admin
    with server.start(), contextlib.closing(Scene(CASES, server.address, Address(HOST, users))) as opened:
        yield opened


@pytest.mark.parametrize("case", CASES, ids=str)
def test_apache_kafka_answers_as_the_table_says(scene: Scene, case: Case) -> None:
    scene.run(case)
