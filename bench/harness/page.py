"""Puts results where people read them: tables between markers of a page, plots beside it.

A section of the page is from `<!-- bench NAME -->` to `<!-- end NAME -->`; only what is between them is ever changed.
"""

import re
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "benchmarks.md"
IMAGES = ROOT / "docs" / "img"


class NoSuchSection(RuntimeError):
    """The page has no markers of that name."""


def with_section(page: str, name: str, text: str) -> str:
    """The page with `text` as its section `name`."""
    pattern = re.compile(rf"(<!-- bench {re.escape(name)} -->\n).*?(<!-- end {re.escape(name)} -->)", re.DOTALL)
    if not pattern.search(page):
        raise NoSuchSection(f"the page has no section {name!r}: add '<!-- bench {name} -->' and its end")
    return pattern.sub(lambda found: f"{found[1]}{text.strip()}\n{found[2]}", page)


def image_name(name: str) -> str:
    return f"bench-{name}.svg"


def write(sections: Mapping[str, str], images: Mapping[str, str], path: Path | None = None) -> None:
    """Into docs/benchmarks.md, unless it is another page."""
    path = path or PAGE
    page = path.read_text()
    for name, text in sections.items():
        page = with_section(page, name, text)
    for name, svg in images.items():
        (IMAGES / image_name(name)).write_text(svg)
    path.write_text(page)
