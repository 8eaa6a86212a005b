"""The page on the command line: every command on it runs, in the page's order, on one broker; and it prints that."""

import json
import re
import subprocess
from collections.abc import Callable, Iterator

import click
from click.testing import CliRunner

from fencepost.cli.main import LATE, main
from fencepost.lab.kit.servers import Ours
from tests.conftest import ROOT
from tests.pages import Reader, blocks

PAGE = ROOT / "docs" / "cli.md"
#: Needs a secured broker: tests/security/test_doctor.py.
ELSEWHERE = {"rights"}


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
        if block.name not in ELSEWHERE:
            reader.shown(block.name)


def test_every_command_is_on_the_page() -> None:
    text = PAGE.read_text()
    assert [name for name in LATE if f"`{name}" not in text and f"fencepost {name}" not in text] == []


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command, str]]:
    """Each command, groups included: its name, and its help."""
    context = click.Context(group, info_name=" ".join(("fencepost", *path)))
    yield " ".join(path), group, group.get_help(context)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from commands(found, (*path, name))
        else:
            yield " ".join((*path, name)), found, found.get_help(click.Context(found))


def test_every_help_has_examples() -> None:
    assert [name for name, _, text in commands(main) if not re.search(r"^  Examples?\b", text, re.MULTILINE)] == []


def test_every_list_of_commands_has_whole_sentences() -> None:
    for name, found, text in commands(main):
        if isinstance(found, click.Group):
            assert not re.search(r"\w\.\.\.$", text.partition("Commands:")[2], re.MULTILINE), name


def test_a_slip_in_a_command_is_answered_with_what_was_meant() -> None:
    for slip, meant in {"topci": "topic", "consme": "consume"}.items():
        assert f"Did you mean '{meant}'?" in CliRunner().invoke(main, [slip]).stderr


def test_every_command_that_takes_a_cluster_is_told_in_the_same_way() -> None:
    for name, found, _ in commands(main):
        options = {option for parameter in found.params for option in parameter.opts}
        if "-b" in options:
            assert {"--bootstrap", "--command-config", "-X"} <= options, name


def test_scenarios_are_listed_as_one_object_a_line() -> None:
    lines = CliRunner().invoke(main, ["scenarios", "ls", "--json"]).stdout.splitlines()
    assert len(lines) > 5 and all(isinstance(json.loads(line), dict) for line in lines)
