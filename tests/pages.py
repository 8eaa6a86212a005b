"""The blocks of a page of documentation, so that tests can run them.

A block that runs has a name in a comment in front of it: `<!-- runs: scram -->`. The test that runs it asks for it as
`block("scram")`, or lets a `Reader` type its commands and compare what they print. One that no test can run says why:
`<!-- not run: takes hours -->`. tests/docs/test_blocks.py finds a block that says neither.
"""

import re
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.commands import fencepost

ROOT = Path(__file__).resolve().parent.parent
SECURITY = ROOT / "docs" / "security.md"

_FENCE = re.compile(
    r"(?:<!-- (?:runs: (?P<name>[\w-]+)|not run: (?P<reason>[^\n]+)) -->\n)?"
    r"^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    name: str | None
    language: str
    text: str
    reason: str | None = None  #: why no test runs it

    def filled(self, places: Mapping[str, object]) -> str:
        """With what a reader would put in: every key of `places` stands in the block."""
        text = self.text
        for written, meant in places.items():
            assert written in text, f"the block {self.name} no longer says {written}"
            text = text.replace(written, str(meant))
        return text


def blocks(page: Path = SECURITY) -> list[Block]:
    return [Block(*found.group("name", "language", "text", "reason")) for found in _FENCE.finditer(page.read_text())]


def block(name: str, page: Path = SECURITY) -> Block:
    (found,) = [each for each in blocks(page) if each.name == name]
    return found


def starting(beginning: str, page: Path) -> Block:
    """The block that begins with this, of a page whose blocks have no names: README shows everything it has."""
    (found,) = [each for each in blocks(page) if each.text.startswith(beginning)]
    return found


def pattern_of(expected: str) -> str:
    """Columns may be wider; `…` stands for anything, in one line or, alone, in several."""
    lines = [re.sub(r"\s+", " ", line.strip()) for line in expected.strip("\n").split("\n")]
    return "\n".join("(.|\n)*" if line == "…" else re.escape(line).replace("…", ".*") + " ?" for line in lines)


class Reader:
    """Somebody who types what is on a page."""

    def __init__(self, page: Path, places: Mapping[str, object]) -> None:
        self.page = page
        self.places = dict(places)
        self.read: list[str] = []

    def shown(self, name: str) -> None:
        """Run the block of this name and compare."""
        self.read.append(name)
        for part in re.split(r"^\$ ", block(name, self.page).text, flags=re.MULTILINE)[1:]:
            command, _, expected = part.partition("\n")
            printed = self._run(command, is_error=self.is_error(expected))
            shown = "\n".join(re.sub(r"\s+", " ", line.strip()) for line in printed.strip("\n").split("\n"))
            assert re.fullmatch(pattern_of(expected), shown), (
                f"$ {command}\n{printed}\n--- the page says ---\n{expected}"
            )

    def is_error(self, expected: str) -> bool:
        """Whether the command that prints this fails."""
        return expected.startswith("Error:")

    def check_all_is_read(self) -> None:
        assert sorted(self.read) == sorted(str(each.name) for each in blocks(self.page)), "a block is not run"

    def _run(self, command: str, *, is_error: bool) -> str:
        words = shlex.split(command)
        for written, meant in self.places.items():
            words = [word.replace(written, str(meant)) for word in words]
        done = self.run(words)
        assert bool(done.returncode) is is_error, f"$ {command}\n{done.stdout}{done.stderr}"
        return done.stderr + done.stdout

    def run(self, words: list[str]) -> "subprocess.CompletedProcess[str]":
        if words[0] == "fencepost":
            return fencepost(*words[1:])
        return subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
