"""What README and the guide show of the broker: the command, the class, the fixtures of pytest."""

import importlib.metadata
import shlex
from pathlib import Path
from typing import Any

import pytest

import fencepost as package
from fencepost.child import Child
from fencepost.lab.kit.servers import free_ports
from tests.commands import command, fencepost
from tests.conftest import ROOT
from tests.pages import Block, block, starting

pytest_plugins = ["pytester"]

README, GUIDE = ROOT / "README.md", ROOT / "docs" / "guide.md"

#: What the tests on the pages leave to the reader.
READERS = """
import pytest
from confluent_kafka import Producer

def run_checkout(servers, topic):
    producer = Producer({"bootstrap.servers": servers})
    producer.produce(topic, b"bought")
    assert producer.flush(30) == 0

"""


def words(line: str) -> list[str]:
    """Of a command of ours, without its first."""
    typed = shlex.split(line.removeprefix("$ "), comments=True)
    assert typed[0] == ".venv/bin/fencepost"
    return typed[1:]


@pytest.mark.parametrize(
    "shown", [starting("$ .venv/bin/fencepost up", README), block("up", GUIDE)], ids=["README", "guide"]
)
def test_the_broker_says_where_it_listens(shown: Block, tmp_path: Path) -> None:
    typed, listening = shown.text.splitlines()
    (port,) = free_ports(1)
    arguments = [str(tmp_path / "data") if word == "./data" else word for word in words(typed)]
    if "--port" in arguments:
        arguments = arguments[: arguments.index("--port")]
    with Child(tmp_path / "log").start(command(*arguments, "--port", port)) as broker:
        assert broker.first_line(60) == listening.replace("9092", str(port)) + "\n"


def test_a_misspelt_setting_is_found() -> None:
    typed, refused = block("misspelt", GUIDE).text.splitlines()
    done = fencepost(*words(typed))
    assert done.returncode != 0
    assert done.stderr.splitlines()[-1] == refused


def test_a_broker_in_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    found: dict[str, Any] = {}
    exec(starting("import fencepost", README).text, found)
    assert not found["broker"].running
    exec(block("embedded", GUIDE).text, found)
    assert capsys.readouterr().out.startswith("127.0.0.1:")
    assert not found["broker"].running and (tmp_path / "data").is_dir()


def test_tests_with_a_broker(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = any(entry.name == "fencepost" for entry in importlib.metadata.entry_points(group="pytest11"))
    pytester.makepyfile(
        test_readme=READERS + starting("def test_checkout", README).text,
        test_guide=READERS + block("in-tests", GUIDE).text + block("in-secured-tests", GUIDE).text,
    )
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(Path(package.__file__).parent.parent))
    plugin = () if installed else ("-p", "fencepost.pytest_plugin")
    ran = pytester.runpytest_subprocess(*plugin, "-p", "no:cacheprovider", "--strict-markers", "-n", "0")
    ran.assert_outcomes(passed=4)
