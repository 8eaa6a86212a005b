"""The page on the console: its commands start one, and Prometheus reads it."""

import re
import shlex
from collections import deque
from pathlib import Path

from fencepost.child import Child
from fencepost.lab.kit.servers import free_ports
from tests.commands import command
from tests.conftest import ROOT, wait_until
from tests.console.web import Page
from tests.metrics.support import Scrape
from tests.pages import block

PAGE, METRICS = ROOT / "docs" / "console.md", ROOT / "docs" / "metrics.md"


def test_the_commands_of_the_page_start_a_console(bootstrap: str, tmp_path: Path) -> None:
    lines = block("console", PAGE).text.splitlines()
    commands = [shlex.split(line.removeprefix("$ "), comments=True) for line in lines if line.startswith("$ fencepost")]
    (says,) = [line for line in lines if not line.startswith("$ ")]
    beside, port = free_ports(2)
    places = {"kafka:9092": bootstrap, "./data": str(tmp_path), "--console": f"--console=127.0.0.1:{port}"}
    where = {"console": ["--listen", f"127.0.0.1:{port}"], "up": ["--port", beside]}
    for words in commands:
        said: deque[str] = deque(maxlen=200)
        with Child(deque(maxlen=200), on_line=said.append) as child:
            child.start(command(*(places.get(word, word) for word in words[1:]), *where[words[1]]))
            started = says.replace("9094", str(port)) + "\n"
            wait_until(lambda: started in said, f"it says {started!r}, and not {list(said)}", 60)  # noqa: B023
            page = Page(started.split()[-1], lambda: "".join(said))  # noqa: B023
            page.await_row("health", "topics", lambda row: row["condition"] == "good")
            found = Scrape.of_text(page.get("/metrics").body.decode())
            assert found.value("fencepost_console_answered", question="topics") == 1


def test_the_page_on_metrics_lists_those_of_a_console(page: Page) -> None:
    found = Scrape.of_text(page.get("/metrics").body.decode())
    listed = re.findall(r"^\| `(fencepost_console_\w+)` \| gauge \|", METRICS.read_text(), re.MULTILINE)
    assert set(listed) == found.names
