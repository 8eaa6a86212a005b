"""Every block of every page is run by a test, or says why not; commands that nobody runs are spelt right."""

import ast
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

from fencepost.cli.main import main
from tests.conftest import ROOT
from tests.docs.test_pages import PAGES
from tests.pages import blocks

README = ROOT / "README.md"
#: By the beginning of each block, who runs it. tests/shop runs the shop.
BLOCKS_OF_README = {
    "$ make shop": None,
    "import tempfile": "tests/spark/test_first_steps.py",
    "$ .venv/bin/fencepost up": "tests/docs/test_guide.py",
    "import fencepost": "tests/docs/test_guide.py",
    "def test_checkout": "tests/docs/test_guide.py",
}
#: Who runs the blocks of a page.
RUN_BY = {
    "docs/cli.md": ["tests/cli/test_page.py"],
    "docs/console.md": ["tests/console/test_page.py"],
    "docs/guide.md": ["tests/docs/test_guide.py", "tests/compat/test_guide_page.py"],
    "docs/how-a-transaction-works.md": ["tests/docs/test_how_a_transaction_works.py"],
    "docs/metrics.md": ["tests/metrics/test_page.py", "tests/spark/test_metrics.py"],
    "docs/operate.md": ["tests/spark/test_operate_page.py"],
    "docs/scenarios.md": ["tests/scenarios/test_page.py"],
    "docs/security.md": [
        "tests/security/test_security_page.py",
        "tests/spark/test_security_page.py",
        "tests/compat/test_security_page.py",
        "tests/compat/test_least_rights.py",
        "tests/compat/test_acl_tools.py",
    ],
    "docs/shop.md": ["tests/spark/test_pages.py", "tests/shop/test_verify.py"],
    "docs/source.md": ["tests/spark/test_pages.py", "tests/spark/source/test_committing.py"],
    "docs/spark.md": [
        "tests/spark/test_pages.py",
        "tests/spark/test_first_steps.py",
        "tests/spark/test_declarative_pipelines.py",
        "tests/spark/connect/test_page.py",
        "tests/compat/test_three_brokers.py",
    ],
    "docs/state.md": ["tests/spark/test_pages.py"],
    "docs/tutorial.md": ["tests/spark/test_tutorial.py"],
    "docs/tx.md": ["tests/observe/test_page.py"],
}
#: Where `make kafka` puts Apache Kafka, which is not needed to read a command.
KAFKA = ".cache/kafka/lib"
#: Other people's commands, on blocks that no test runs.
THEIRS = {"export", "spark-submit"}


def title(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def names_in(test: str) -> set[str] | None:
    """Texts in a file of tests; None if it runs all blocks of a page, one after the other."""
    tree = ast.parse((ROOT / test).read_text())
    loops = [each.iter for each in ast.walk(tree) if isinstance(each, ast.For)]
    if any(isinstance(each, ast.Call) and ast.unparse(each) == "blocks(PAGE)" for each in loops):
        return None
    return {each.value for each in ast.walk(tree) if isinstance(each, ast.Constant) and isinstance(each.value, str)}


@pytest.mark.parametrize("page", PAGES[:-1], ids=title)
def test_each_block_is_run_or_says_why_not(page: Path) -> None:
    found = blocks(page)
    assert len(found) * 2 == len(re.findall(r"^\s*(?:```|~~~)", page.read_text(), re.MULTILINE)), "a block is not seen"
    named = [each.name for each in found if each.name is not None]
    assert len(named) == len(set(named))
    for each in found:
        assert each.name or each.reason, f"name the test's block, or say why no test runs it:\n{each.text}"
    known = [names_in(test) for test in RUN_BY.get(title(page), [])]
    for name in named:
        assert any(names is None or name in names for names in known), f"no test of {title(page)} runs {name!r}"


def test_each_block_of_the_readme_is_run() -> None:
    for each in blocks(README):
        ((start, test),) = [known for known in BLOCKS_OF_README.items() if each.text.startswith(known[0])]
        assert test is None or start in (names_in(test) or ())


def not_run() -> list[str]:
    """Commands of blocks that no test runs."""
    found = [each for page in PAGES[:-1] for each in blocks(page) if each.reason] + blocks(README)
    lines = [line for each in found if each.language == "console" for line in each.text.splitlines()]
    lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    lines += [line for each in found if not each.language for line in each.text.splitlines() if "python -m" in line]
    return lines


@pytest.mark.parametrize("command", not_run(), ids=lambda command: command.partition("  ")[0])
def test_a_command_that_no_test_runs_exists_with_its_options(command: str, tmp_path: Path) -> None:
    words = shlex.split(command, comments=True)
    match words[0].removeprefix(".venv/bin/"), words[1:]:
        case "fencepost", arguments:
            (tmp_path / "FILE").touch()
            (tmp_path / "DIR").mkdir()
            there = {"FILE": str(tmp_path / "FILE"), "DIR": str(tmp_path / "DIR"), KAFKA: str(tmp_path / "DIR")}
            parse([there.get(word, word) for word in arguments])
        case "make", arguments:
            dry = subprocess.run(
                ["make", "--dry-run", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
            )
            assert dry.returncode == 0, dry.stderr
        case "python", ["-m", module, *arguments]:
            told = subprocess.run(
                [sys.executable, "-m", module, "--help"], cwd=ROOT, capture_output=True, text=True, check=True
            )
            options = {word for word in arguments if word.startswith("-")}
            assert options <= set(re.findall(r"--[\w-]+", told.stdout))
        case "pip", ["install", what]:
            extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
            assert set(re.findall(r"\[(\w+)\]", what)) <= set(extras)
        case other, _:
            assert other in THEIRS


def parse(arguments: list[str]) -> None:
    """As the command line would, without doing anything. Raises click.UsageError."""
    command: click.Command | None = main
    while isinstance(command, click.Group):
        name, *arguments = arguments
        command = command.get_command(click.Context(command), name)
    if command is None:
        raise click.UsageError(f"there is no command {name}")
    command.make_context(name, arguments)


def test_a_misspelt_command_is_found() -> None:
    with pytest.raises(click.UsageError):
        parse(["chaos", "--second", "5"])
    with pytest.raises(click.UsageError):
        parse(["scenario", "ls"])
