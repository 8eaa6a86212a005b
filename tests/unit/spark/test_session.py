"""Which settings a session gets on which master."""

import pytest

from fencepost.spark.environment import is_local, is_one_process
from fencepost.spark.session import CHECKPOINT_FILES, JAVA_OPTIONS, JAVA_VARIABLES, THRESHOLDS, _tuning, recommended


@pytest.mark.parametrize(
    ("master", "local", "one_process"),
    [
        ("local", True, True),
        ("local[2]", True, True),
        ("local[*,4]", True, True),
        ("local-cluster[2,1,1024]", True, False),
        ("spark://host:7077", False, False),
        ("localhost", False, False),
    ],
)
def test_what_runs_where(master: str, local: bool, one_process: bool) -> None:
    assert (is_local(master), is_one_process(master)) == (local, one_process)
    assert (CHECKPOINT_FILES in recommended(master)) == one_process
    assert ("spark.driver.host" in recommended(master)) == local


def test_unix_sockets_only_where_their_noise_has_a_file_to_go_to() -> None:
    name = "spark.python.unix.domain.socket.enabled"
    assert name not in recommended("local[2]")
    assert recommended("local[2]", "a.log")[name] == "true"


def test_the_jvm_is_tuned_where_nobody_has_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in JAVA_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    collector = "-XX:+UseParallelGC"
    assert [*_tuning({})] == [collector, THRESHOLDS]
    assert [*_tuning({JAVA_OPTIONS: "-Xss4m"})] == [collector, THRESHOLDS]
    assert [*_tuning({JAVA_OPTIONS: "-Xss4m -XX:+UseZGC"})] == [THRESHOLDS]
    assert [*_tuning({JAVA_OPTIONS: "-XX:Tier4InvocationThreshold=5000"})] == [collector]
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-XX:+UseG1GC")
    assert [*_tuning({})] == [THRESHOLDS]
