"""Pages lead somewhere: links, headings, tests and scenarios that they name exist."""

import ast
import re
from pathlib import Path

import pytest
import yaml

from fencepost.lab.scenarios.catalogue import scenarios
from tests.conftest import ROOT

PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def without_blocks(page: Path) -> str:
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Of its headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", without_blocks(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_to_files_and_headings_that_exist(page: Path) -> None:
    for link in LINK.findall(without_blocks(page)):
        if "://" in link:
            continue
        path, _, heading = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{link} leads nowhere"
        if heading and target.suffix == ".md":
            assert heading in anchors(target), f"{link}: there is no such heading"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_tests_and_scenarios_that_a_page_names_exist(page: Path) -> None:
    known = {scenario.name for scenario in scenarios()}
    for name in re.findall(r"`fencepost scenarios run ([\w-]+)`", page.read_text()):
        assert name in known or name == "NAME" or name.isdigit()
    for path, name in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page.read_text()):
        tree = ast.parse((ROOT / path).read_text())
        names = {each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert name in names, f"{path} has no test {name}"


def test_each_failure_on_the_page_is_shown_by_something() -> None:
    page = (ROOT / "docs" / "what-goes-wrong.md").read_text()
    for section in page.split("\n## ")[1:]:
        assert "**Elsewhere.**" in section and "**Here.**" in section
        assert re.search(r"^\| `(tests/|fencepost scenarios run )", section, re.MULTILINE), section.splitlines()[0]


def test_every_page_has_a_place_in_the_site() -> None:
    def files(entry: object) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        return [file for each in (entry.values() if isinstance(entry, dict) else entry) for file in files(each)]  # type: ignore[attr-defined]

    listed = files(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    assert sorted(listed) == sorted(page.relative_to(ROOT / "docs").as_posix() for page in PAGES[:-1])
