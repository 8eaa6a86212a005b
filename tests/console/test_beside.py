"""`fencepost up --console`: the page beside a broker, which ends with it however it ends."""

import http.client
import signal
import sys
from collections import deque
from pathlib import Path

import pytest
from click.testing import CliRunner

from fencepost.child import Child
from fencepost.cli.main import main
from fencepost.console.metrics import of_broker
from fencepost.lab.kit.servers import free_ports
from tests.conftest import wait_until
from tests.console.web import Page
from tests.metrics.support import Scrape


@pytest.mark.parametrize("options", [(), ("--secure",)], ids=["plaintext", "secured"])
def test_it_shows_the_broker_and_ends_with_it(tmp_path: Path, options: tuple[str, ...]):
    lines: deque[str] = deque(maxlen=200)
    command = [sys.executable, "-m", "fencepost.cli.main", "up", str(tmp_path), "--port", "0", *options]
    with Child(deque(maxlen=200), "the broker", on_line=lines.append) as child:
        child.start([*command, "--console", "127.0.0.1:0"])
        wait_until(lambda: any(line.startswith("console on") for line in lines), "the console is up")
        url = next(line for line in lines if line.startswith("console on")).removeprefix("console on ").strip()
        page = Page(url, lambda: "".join(lines))
        page.await_row("health", "topics", lambda row: row["condition"] == "good")
        child.signal(signal.SIGKILL)
        wait_until(lambda: _is_gone(page), "the console has ended")


def test_on_its_port_are_also_the_metrics_of_a_broker_that_has_them(tmp_path: Path):
    lines: deque[str] = deque(maxlen=200)
    command = [sys.executable, "-m", "fencepost.cli.main", "up", str(tmp_path), "--port", "0"]
    with Child(deque(maxlen=200), "the broker", on_line=lines.append) as child:
        child.start([*command, "--console", "127.0.0.1:0", "--metrics", "0"])
        wait_until(lambda: any(line.startswith("console on") for line in lines), "the console is up")
        url = next(line for line in lines if line.startswith("console on")).removeprefix("console on ").strip()
        answer = Page(url, lambda: "".join(lines)).get("/metrics")
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        found = Scrape.of_text(answer.body.decode())
        assert found.value("fencepost_connections") >= 0 and found.value("fencepost_console_open_transactions") == 0
        assert found.value("fencepost_transactions_committed_total") == 0


def test_a_broker_that_does_not_answer_leaves_the_metrics_of_the_console():
    (port,) = free_ports(1)
    assert of_broker(f"http://127.0.0.1:{port}/metrics") == ""
    assert of_broker(None) == ""


def _is_gone(page: Page) -> bool:
    try:
        page.get("/login")
    except (OSError, http.client.HTTPException):
        return True
    return False


def test_an_address_that_is_none_is_refused():
    refused = CliRunner().invoke(main, ["up", "--console", "./data"])
    assert refused.exit_code == 2 and "HOST:PORT" in refused.output
