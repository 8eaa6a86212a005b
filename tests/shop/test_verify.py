"""`fencepost verify` against topics that were filled by hand."""

import json
import re
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import javaproperties
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import fencepost as package
from fencepost.client import Cluster
from fencepost.security import jaas
from fencepost.shop import DEAD_LETTERS, INVOICES, PURCHASES, SHIPMENTS, TOPICS
from fencepost.shop.expected import expected_invoice, expected_shipment, parse_purchase
from fencepost.shop.purchases import purchase_rows
from tests.commands import fencepost
from tests.conftest import ROOT
from tests.pages import block, pattern_of

COUNT = 50


class ByHand:
    """A pipeline that does what it is told."""

    def __init__(self, settings: dict[str, Any]) -> None:
        """`settings` are confluent-kafka's."""
        self._settings = settings
        self.values = [value.encode() for value in purchase_rows(1, 1, COUNT).column("value").to_pylist()]
        producer = Producer(settings)
        for value in self.values:
            producer.produce(PURCHASES, value, partition=0)
        producer.flush()

    def process(
        self,
        invoices: Iterable[int],
        shipments: Iterable[int],
        offset: int,
        more: dict[str, bytes] | None = None,
        *,
        end: Callable[[Producer], None] = Producer.commit_transaction,
    ) -> None:
        """One transaction: invoices and shipments of the purchases with these indexes, and an offset."""
        producer = Producer({**self._settings, "transactional.id": "by hand"})
        producer.init_transactions()
        producer.begin_transaction()
        for topic, indexes, make in ((INVOICES, invoices, expected_invoice), (SHIPMENTS, shipments, expected_shipment)):
            for index in indexes:
                purchase = parse_purchase(self.values[index])
                assert purchase is not None
                producer.produce(topic, json.dumps(make(purchase)))
        for topic, value in (more or {}).items():
            producer.produce(topic, value)
        consumer = Consumer({**self._settings, "group.id": "shop"})
        producer.send_offsets_to_transaction([TopicPartition(PURCHASES, 0, offset)], consumer.consumer_group_metadata())
        end(producer)
        consumer.close()


@pytest.fixture
def by_hand(cluster: Cluster, bootstrap: str) -> ByHand:
    return ByHand({"bootstrap.servers": bootstrap})


def verify(bootstrap: str, *words: str) -> tuple[int, dict[str, object]]:
    ran = fencepost("verify", "--bootstrap", bootstrap, "--json", "--patience", "1", *words)
    assert ran.stderr == ""
    return ran.returncode, json.loads(ran.stdout)


def test_what_is_right_is_called_right(bootstrap: str, by_hand: ByHand):
    by_hand.process(range(20), range(20), 20)
    by_hand.process(range(20, COUNT), range(20, COUNT), COUNT)
    code, report = verify(bootstrap)
    assert (code, report["right"], report["problems"]) == (0, True, {})
    assert (report["purchases"], report["invoices"], report["shipments"], report["open"]) == (COUNT, COUNT, COUNT, 0)
    said = fencepost("verify", "--bootstrap", bootstrap)
    assert said.returncode == 0
    assert "right: every purchase has exactly one invoice and one shipment" in said.stdout


def test_it_prints_what_the_page_on_the_shop_shows(bootstrap: str, by_hand: ByHand):
    by_hand.process(range(COUNT), range(COUNT), COUNT)
    typed, *expected = block("verify", ROOT / "docs" / "shop.md").text.replace("200,000", str(COUNT)).splitlines()
    words = [bootstrap if word == "localhost:9092" else word for word in shlex.split(typed.removeprefix("$ "))]
    said = fencepost(*words[1:])
    assert re.fullmatch(pattern_of("\n".join(expected)), said.stdout.strip()), said.stdout


def test_transactions_that_were_not_committed_count_for_nothing(bootstrap: str, by_hand: ByHand):
    by_hand.process([], [], 3, {INVOICES: b"rubbish"}, end=Producer.abort_transaction)
    by_hand.process(range(COUNT), range(COUNT), COUNT)
    by_hand.process([], [], 7, end=lambda _: None)
    code, report = verify(bootstrap)
    assert (code, report["committedOffsets"]) == (0, {"0": COUNT}), report


@pytest.mark.parametrize(
    ("invoices", "shipments", "offset", "problem"),
    [
        (range(COUNT), range(COUNT - 1), COUNT, "purchases with an invoice or a shipment, but not both"),
        (range(COUNT - 1), range(COUNT - 1), COUNT - 1, "purchases without invoice and shipment"),
        (range(COUNT - 1), range(COUNT - 1), COUNT, "purchases before the committed offset that were not processed"),
        (range(COUNT), range(COUNT), COUNT - 1, "purchases after the committed offset that were processed"),
        ([*range(COUNT), COUNT - 1], range(COUNT), COUNT, "purchases with more than one invoice"),
    ],
)
def test_what_is_wrong_is_named(
    bootstrap: str, by_hand: ByHand, invoices: list[int], shipments: list[int], offset: int, problem: str
):
    by_hand.process(invoices, shipments, offset)
    code, report = verify(bootstrap)
    assert (code, report["problems"]) == (1, {problem: {"count": 1, "first": [str(COUNT)]}})


def test_records_that_nobody_ordered_are_named(bootstrap: str, by_hand: ByHand):
    by_hand.process(range(COUNT), range(COUNT), COUNT, {INVOICES: b"rubbish", DEAD_LETTERS: b"rubbish"})
    said = fencepost("verify", "--bootstrap", bootstrap, "--patience", "1")
    assert said.returncode == 1
    assert "wrong: 1 invoices without a purchase: invoices-" in said.stdout
    assert "wrong: 1 dead letters without a bad purchase: purchases.dead-" in said.stdout


def test_a_secured_cluster_is_checked_with_a_command_config(tmp_path: Path):
    with package.Broker(tmp_path / "data", security="SASL_SSL") as broker:
        for name in TOPICS:
            broker.create_topic(name)
        ByHand(broker.client_config("confluent")).process(range(COUNT), range(COUNT), COUNT)
        java = broker.client_config("java")
        (tmp_path / "client.properties").write_text(javaproperties.dumps(java))
        assert verify(java["bootstrap.servers"], "--command-config", str(tmp_path / "client.properties"))[0] == 0

        wrong = jaas.quote("not the password")
        login = f"sasl.jaas.config=ScramLoginModule required username=fencepost password={wrong};"
        code, report = verify(
            java["bootstrap.servers"], "--command-config", str(tmp_path / "client.properties"), "-X", login
        )
        assert (code, report["right"]) == (2, None)
        assert "refused the SCRAM-SHA-512 login" in str(report["error"])
        assert "not the password" not in str(report)


def test_a_cluster_that_is_not_there_is_no_verdict():
    code, report = verify("127.0.0.1:1")
    assert (code, report["right"]) == (2, None)


def test_a_cluster_without_the_topics_is_no_verdict(bootstrap: str):
    code, report = verify(bootstrap)
    assert code == 2
    assert "has no topic 'purchases'" in str(report["error"])
