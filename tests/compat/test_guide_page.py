"""Kafka's tools as the guide shows them: on a running broker of ours, and on its files."""

import shlex
from pathlib import Path

from confluent_kafka import Producer

from bench.harness import java
from fencepost.embedded import Broker
from fencepost.lab.kit.java import QUICK
from tests.compat.tools import MAIN
from tests.conftest import ROOT
from tests.pages import block

PAGE = ROOT / "docs" / "guide.md"


def test_the_tools_of_the_page_read_a_broker_and_its_files(tmp_path: Path) -> None:
    with Broker(tmp_path / "data") as broker:
        broker.create_topic("invoices")
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "shop"})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("invoices", b"1")
        assert producer.flush(30) == 0
        producer.abort_transaction(30)
        (state,) = [
            each.parent.name for each in tmp_path.glob("data/__transaction_state-*/*.log") if each.stat().st_size
        ]
        places = {"127.0.0.1:9092": broker.bootstrap_servers, "data/": f"{tmp_path}/data/"}
        text = block("kafka-tools", PAGE).filled({**places, "__transaction_state-7": state})
        printed = []
        for line in text.splitlines():
            script, *words = shlex.split(line.removeprefix("$ "))
            name = script.removeprefix("kafka-").removesuffix(".sh")
            done = java.kafka().run(MAIN[name], *words, options=QUICK, timeout_s=120)
            assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
            printed.append(done.stdout)
    described, hanging, aborted, log = printed
    assert "Topic: invoices" in described
    assert "Topic" in hanging and "invoices" not in hanging, "none hangs"
    assert "lastOffset" in aborted
    assert "shop" in log
