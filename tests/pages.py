"""The blocks of a page of documentation, so that tests can run them.

A block that runs has a name in a comment in front of it: `<!-- runs: scram -->`. The test that runs it asks for it as
`block("scram")`.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SECURITY = ROOT / "docs" / "security.md"

_FENCE = re.compile(
    r"(?:<!-- runs: (?P<name>[\w-]+) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)


class Block(NamedTuple):
    name: str | None
    language: str
    text: str

    def filled(self, places: Mapping[str, object]) -> str:
        """With what a reader would put in: every key of `places` stands in the block."""
        text = self.text
        for written, meant in places.items():
            assert written in text, f"the block {self.name} no longer says {written}"
            text = text.replace(written, str(meant))
        return text


def blocks(page: Path = SECURITY) -> list[Block]:
    return [Block(*found.group("name", "language", "text")) for found in _FENCE.finditer(page.read_text())]


def block(name: str) -> Block:
    """Of the page on security."""
    (found,) = [each for each in blocks() if each.name == name]
    return found
