"""Our errors lose their traceback in a process of Spark, and only there."""

import io
import os

import pytest
from pyspark.util import handle_worker_exception

from fencepost.errors import ConfigError, InvariantBroken
from fencepost.spark.plain_errors import HIDE_VARIABLE, one_line


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test leaves the variable as it was."""
    monkeypatch.setenv(HIDE_VARIABLE, "")


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_PYTHON_RUNTIME", "PYTHON_WORKER")


def sent(error: Exception) -> str:
    """What Spark's process writes to the JVM when our code raises this."""

    @one_line()
    def ours() -> None:
        try:
            {}["cause"]
        except KeyError as cause:
            raise error from cause

    stream = io.BytesIO()
    try:
        ours()
    except Exception as raised:
        handle_worker_exception(raised, stream)
    return stream.getvalue()[8:].decode()


@pytest.mark.usefixtures("worker")
def test_an_error_of_ours_is_one_line() -> None:
    assert sent(ConfigError("no such option")) == "fencepost.errors.ConfigError: no such option\n"


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("error", [InvariantBroken("a bug"), ValueError("a surprise")])
def test_unexpected_errors_keep_their_traceback(error: Exception) -> None:
    assert "Traceback" in sent(error)


def test_in_other_processes_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_PYTHON_RUNTIME", raising=False)
    assert "Traceback" in sent(ConfigError("no such option"))
    assert os.environ[HIDE_VARIABLE] == ""
