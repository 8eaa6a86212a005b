"""Purchases into the shop, and `fencepost verify` upon what comes out: in part while it runs, whole in the end."""

import json
from typing import Any

from confluent_kafka import IsolationLevel, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from fencepost.shop import DEAD_LETTERS, INVOICES, PURCHASES, SHIPMENTS
from fencepost.shop.purchases import FIRST_ID, purchase_rows
from fencepost.shop.verify import Verifier
from tests.commands import fencepost
from tests.spark.faults.checker import TIMEOUT_S, Checker

SEED = 7
PARTITIONS = {PURCHASES: 3, INVOICES: 3, SHIPMENTS: 2, DEAD_LETTERS: 1}
#: Of a Plan.
SHOP: dict[str, Any] = {"source": PURCHASES, "left": INVOICES, "right": SHIPMENTS, "is_shop": True}


def open_shop(bootstrap: str) -> None:
    """Create its topics."""
    topics = [NewTopic(name, partitions) for name, partitions in PARTITIONS.items()]
    admin = AdminClient({"bootstrap.servers": bootstrap})  # without a name it would be gone before it is done
    for created in admin.create_topics(topics).values():
        created.result(TIMEOUT_S)


class ShopChecker(Checker):
    def write(self, count: int) -> None:
        """The next purchases."""
        rows = purchase_rows(SEED, FIRST_ID + self.written, count)
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5})
        for key, value in zip(rows.column("key").to_pylist(), rows.column("value").to_pylist(), strict=True):
            producer.produce(PURCHASES, value=value, key=key)
        assert producer.flush(TIMEOUT_S) == 0
        self.written += count

    def assert_whole(self) -> int:
        """No order is half done, doubled or foreign; gives how many purchases have taken effect."""
        with Verifier(self.bootstrap, self.plan.pipeline) as verifier:
            report = verifier.look(is_final=False, patience_s=TIMEOUT_S)
        assert report.is_right, report.as_dict()
        assert report.invoices == report.shipments
        return report.invoices

    def assert_complete(self) -> None:
        """Every purchase has taken effect once, no transaction is left open, and the group stands at the end."""
        ran = fencepost("verify", "--bootstrap", self.bootstrap, "--group", self.plan.pipeline, "--json")
        assert ran.returncode == 0, ran.stdout + ran.stderr
        report = json.loads(ran.stdout.splitlines()[-1])
        assert (report["purchases"], report["invoices"], report["shipments"]) == (self.written,) * 3
        assert self.committed() == self.ends(PURCHASES, IsolationLevel.READ_COMMITTED)
        self.wait_until_settled()
