"""Pictures of the console for the docs: a broker with a small shop on it, the views in Chromium, light and dark.

    python -m tools.screenshots [--into docs/img] [--only transactions log]

Needs Chromium and Playwright (`make browser`). The shop is made up: two billing services, a pipeline, two readers, and
an export that somebody left open.
"""

import argparse
import json
import random
import shutil
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer
from playwright.sync_api import sync_playwright

import fencepost
from fencepost.client.admin import NewTopic, create_topics
from fencepost.client.cluster import Cluster
from fencepost.client.groups import CommittedOffset
from fencepost.client.naming import transactional_id_of
from fencepost.client.offsets import latest, partitions_of
from fencepost.client.transaction import SharedTransaction
from fencepost.client.writing import TransactionWriter
from fencepost.spark import ledger
from fencepost.spark.ledger import LedgerEntry
from fencepost.spark.topic_identity import identities
from fencepost.wire.records import Record, encode_batch
from fencepost.wire.terms import TopicPartition

FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--hide-scrollbars")  # fmt: skip
TOPICS = {"purchases": 4, "invoices": 4, "shipments": 2, "clicks": 1}
#: Seconds of work before the export is left open, and before the first picture.
BEFORE_S, AFTER_S = 20.0, 25.0

Act = Callable[[Any], None]


def _nothing(_: Any) -> None:
    pass


def _select_batch(tab: Any) -> None:
    tab.locator("canvas.strip").focus()
    tab.keyboard.press("+")
    for _ in range(6):
        tab.keyboard.press("]")
    tab.get_by_text("CRC-32C").wait_for()


def _open_record(tab: Any) -> None:
    tab.locator(".rows .tr").nth(4).click()
    tab.get_by_role("button", name="Show the whole transaction").wait_for()


def _open_group(tab: Any) -> None:
    tab.locator('.tr[data-key="reporting"]').click()
    tab.locator(".drawer .area").wait_for()


VIEWS: dict[str, tuple[str, Act]] = {
    "transactions": ("transactions", _nothing),
    "why": ("why?topic=shipments", _nothing),
    "log": ("partition?topic=invoices&partition=1", _select_batch),
    "records": ("records?topic=invoices&partition=0", _open_record),
    "groups": ("groups", _open_group),
    "pipelines": ("pipelines", _nothing),
    "topics": ("topics", _nothing),
}


class Shop:
    """Clients that keep a broker busy until `over`."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.over = threading.Event()
        self._threads: list[threading.Thread] = []
        with Cluster(bootstrap) as cluster:
            create_topics(cluster, {name: NewTopic(partitions) for name, partitions in TOPICS.items()})
        for work in (
            lambda: self.bill("billing-1"),
            lambda: self.bill("billing-2"),
            self.browse,
            self.pipeline,
            lambda: self.read("warehouse", "shipments", 0.1),
            lambda: self.read("reporting", "invoices", 1.5),
        ):
            thread = threading.Thread(target=work, daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        self.over.set()
        for thread in self._threads:
            thread.join(20)

    def bill(self, name: str) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": name, "linger.ms": 0})
        producer.init_transactions(30)
        dice = random.Random(name)
        number = 0
        while not self.over.wait(dice.uniform(0.1, 0.7)):
            producer.begin_transaction()
            for _ in range(dice.randint(1, 9)):
                number += 1
                key, price = f"user-{number % 50}", round(dice.uniform(5, 200), 2)
                invoice = json.dumps({"purchaseId": number, "userId": number % 50, "totalPrice": price})
                shipment = json.dumps({"purchaseId": number, "userFullName": "Ada", "quantity": number % 7 + 1})
                producer.produce("invoices", invoice, key, partition=number % 4, headers={"source": name})
                producer.produce("shipments", shipment, key, partition=number % 2)
            producer.flush()
            self.over.wait(dice.uniform(0.05, 0.5))
            (producer.abort_transaction if dice.random() < 0.12 else producer.commit_transaction)(30)

    def browse(self) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap})
        number = 0
        while not self.over.wait(0.25):
            for number in range(number, number + 12):  # noqa: B020
                producer.produce("clicks", json.dumps({"page": f"/item/{number % 9}"}))
                producer.produce("purchases", json.dumps({"purchaseId": number}), partition=number % 4)
            producer.flush()

    def read(self, group: str, topic: str, pause_s: float) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": group,
                "client.id": f"{group}-app",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )
        consumer.subscribe([topic])
        while not self.over.wait(pause_s):
            consumer.consume(30, 0.2)
            try:
                consumer.commit(asynchronous=False)
            except KafkaException:  # nothing was read
                pass
        consumer.close()

    def pipeline(self) -> None:
        """What the Spark sink writes, by hand."""
        with Cluster(self.bootstrap) as cluster:
            ledger.ensure(cluster)
            transaction = SharedTransaction(cluster, transactional_id_of("shop"))
            transaction.init()
            query, batch = str(uuid.uuid4()), -1
            places = partitions_of(cluster, ["purchases"])
            while not self.over.wait(1.5):
                batch += 1
                reached = latest(cluster, places)
                entry = LedgerEntry(query, batch, reached, {}, topics=identities(cluster, {"purchases"}))
                transaction.begin()
                with TransactionWriter(cluster, transaction.identity) as writer:
                    writer.write(ledger.place("shop"), ledger.blob("shop", entry))
                note = ledger.note(query, batch)
                transaction.add_offsets("shop", {where: CommittedOffset(at, note) for where, at in reached.items()})
                self.over.wait(0.2)
                transaction.commit()

    def leave_open(self) -> None:
        with Cluster(self.bootstrap) as cluster:
            transaction = SharedTransaction(cluster, "nightly-export", timeout_ms=900_000)
            transaction.init()
            transaction.begin()
            record = Record(b"export", b'{"note": "left open"}', time.time_ns() // 1_000_000)
            with TransactionWriter(cluster, transaction.identity) as writer:
                writer.write(TopicPartition("shipments", 0), encode_batch([record]))


@contextmanager
def console(bootstrap: str) -> Iterator[str]:
    command = [sys.executable, "-m", "fencepost.cli.main", "console", "-b", bootstrap, "--listen", "127.0.0.1:0"]
    server = subprocess.Popen([*command, "--allow-changes"], stdout=subprocess.PIPE, text=True)
    try:
        yield (server.stdout.readline() if server.stdout else "").removeprefix("console on ").strip()
    finally:
        server.terminate()
        server.wait(10)


def take(url: str, into: Path, names: list[str]) -> None:
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=list(FLAGS))
        for theme in ("light", "dark"):
            context = browser.new_context(viewport={"width": 1200, "height": 760}, color_scheme=theme)
            tab = context.new_page()
            tab.goto(url)
            for name in names:
                route, act = VIEWS[name]
                tab.evaluate("route => { location.hash = '#/' + route; }", route)
                tab.wait_for_timeout(2500)
                act(tab)
                tab.wait_for_timeout(400)
                _save(tab, into / f"console-{name}-{theme}.png")
            tab.set_viewport_size({"width": 390, "height": 780})
            tab.evaluate("() => { location.hash = '#/transactions'; }")
            tab.wait_for_timeout(1500)
            _save(tab, into / f"console-phone-{theme}.png")
            context.close()
        browser.close()


def _save(tab: Any, path: Path) -> None:
    tab.screenshot(path=path)
    print(f"{path}  {path.stat().st_size // 1024} KB")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--into", type=Path, default=Path("docs/img"))
    parser.add_argument("--only", nargs="*", choices=list(VIEWS), default=list(VIEWS))
    given = parser.parse_args()
    with fencepost.Broker() as broker, console(broker.bootstrap_servers) as url:
        shop = Shop(broker.bootstrap_servers)
        try:
            time.sleep(BEFORE_S)
            shop.leave_open()
            time.sleep(AFTER_S)
            take(url, given.into, given.only)
        finally:
            shop.stop()


if __name__ == "__main__":
    main()
