"""The page on the command line: every command on it runs, in the page's order, on one broker; and it prints that."""

import subprocess
from collections.abc import Callable

from click.testing import CliRunner

from fencepost.cli.main import LATE, main
from fencepost.lab.kit.servers import Ours
from tests.conftest import ROOT
from tests.pages import Reader, blocks

PAGE = ROOT / "docs" / "cli.md"


class AtAPrompt(Reader):
    """Runs commands in this process, which is faster; `|` hands the output of one to the next."""

    def run(self, words: list[str]) -> "subprocess.CompletedProcess[str]":
        printed = b""
        while words:
            end = words.index("|") if "|" in words else len(words)
            command, words = words[:end], words[end + 1 :]
            if command[0] != "fencepost":
                printed = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout
                continue
            done = CliRunner().invoke(main, command[1:], input=printed)
            printed = done.stdout_bytes
            if done.exit_code:
                return subprocess.CompletedProcess(command, done.exit_code, done.stdout, done.stderr)
        return subprocess.CompletedProcess(command, 0, printed.decode(), "")


def test_every_command_on_the_page_prints_what_it_says(start_broker: Callable[..., Ours]) -> None:
    broker = start_broker()
    reader = AtAPrompt(PAGE, {"localhost:9092": broker.bootstrap, "./data": broker.directory})
    for block in blocks(PAGE):
        assert block.name is not None, f"nobody runs this block: {block.text}"
        reader.shown(block.name)


def test_every_command_is_on_the_page() -> None:
    text = PAGE.read_text()
    assert [name for name in LATE if f"`{name}" not in text and f"fencepost {name}" not in text] == []
