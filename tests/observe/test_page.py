"""The page on transactions: every command on it runs, in the page's order, and prints what the page says."""

import subprocess
from collections.abc import Callable

from click.testing import CliRunner

from fencepost.cli.main import main
from fencepost.client.admin import NewTopic, create_topics
from fencepost.client.cluster import Cluster
from fencepost.lab.kit.servers import Ours
from tests.conftest import ROOT
from tests.observe import stuck
from tests.pages import Reader, blocks

PAGE = ROOT / "docs" / "tx.md"


class OfTransactions(Reader):
    def is_error(self, expected: str) -> bool:
        return super().is_error(expected) or " is HELD" in expected or expected.startswith("Nothing was changed")

    def run(self, words: list[str]) -> "subprocess.CompletedProcess[str]":
        """In this process, which is faster."""
        done = CliRunner().invoke(main, words[1:])
        return subprocess.CompletedProcess(words, done.exit_code, done.stdout, done.stderr)


def test_every_block_has_a_name() -> None:
    assert [each.text for each in blocks(PAGE) if each.name is None] == []


def test_the_page_from_top_to_bottom(start_broker: Callable[..., Ours]) -> None:
    bootstrap = start_broker(stuck.TRUSTING).bootstrap
    reader = OfTransactions(PAGE, {"kafka.example.org:9092": bootstrap})
    with Cluster(bootstrap) as cluster:
        create_topics(cluster, {"orders": NewTopic(1), "payments": NewTopic(1)})
    stuck.write(bootstrap, "orders", "a")
    stuck.leave_hanging(bootstrap, "orders", values=["x", "y", "z"])
    stuck.write(bootstrap, "orders", "b", "c")
    stuck.set_offset(bootstrap, "billing", "orders", 1)
    reader.shown("why")
    reader.shown("abort")
    producer = stuck.begin(bootstrap, "fencepost-shop", "payments", "x")
    reader.shown("live")
    reader.shown("around")
    reader.shown("watch")
    producer.abort_transaction(30)
    reader.check_all_is_read()
