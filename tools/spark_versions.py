"""Runs the tests of the Spark half on several versions of Spark, each in a virtual environment of its own.

    python -m tools.spark_versions 4.0 4.1 4.2 [-- arguments for pytest]

An environment is made once, in `.cache/spark-<version>`: the locked packages, but this version of PySpark. Each version
runs with another Python where the machine has several (`PYTHONS`). At the end there is a table: which feature was
tested on which version, with how many tests.
"""

import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache"
LOCK = ROOT / "requirements-dev.lock"
#: The Python to prefer for a version of Spark. Any other that is new enough will do.
PYTHONS = {"4.0": "python3.11", "4.1": "python3.12", "4.2": "python3.13"}
#: What the lock file pins to one version of Spark.
OF_SPARK = ("pyspark", "py4j")
#: A test belongs to the first that names its file or its directory.
FEATURES = {
    "commitOffsets": ["tests/spark/source/test_committing.py"],
    "typed keys and values": ["tests/spark/source/test_typed.py", "tests/spark/sink/test_typed.py"],
    "Arrow tables": ["tests/spark/sink/test_arrow_transform.py"],
    "SQL on columns": ["tests/spark/columnar"],
    "dead letters": ["tests/spark/sink/test_dead_letters.py"],
    "standard writer API": ["tests/spark/sink/test_writer_api.py"],
    "source": ["tests/spark/source"],
    "sink": ["tests/spark/sink"],
    "state": ["tests/spark/state"],
    "killed drivers, workers, executors, brokers": ["tests/spark/failures"],
    "Spark Connect": ["tests/spark/connect"],
    "declarative pipelines": ["tests/spark/test_declarative_pipelines.py"],
    "first programs": ["tests/spark/test_first_steps.py"],
    "the shop": ["tests/shop"],
    "unit tests": ["tests/unit/spark"],
}


def main(arguments: list[str]) -> int:
    versions, more = _split(arguments)
    found = {version: run(version, more) for version in versions}
    print(table(found))
    return 0 if all(status == 0 for status, _ in found.values()) else 1


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    at = arguments.index("--") if "--" in arguments else len(arguments)
    versions = arguments[:at] or [*PYTHONS]
    if odd := [version for version in versions if not re.fullmatch(r"\d+\.\d+(\.\d+)?", version)]:
        sys.exit(f"{odd[0]!r} is not a version of Spark such as 4.1")
    return versions, arguments[at + 1 :]


def run(version: str, more: list[str]) -> tuple[int, Counter[tuple[str, str]]]:
    """Pytest's exit status, and the number of tests by feature and outcome."""
    python = environment(version)
    report = CACHE / f"spark-{version}.xml"
    report.unlink(missing_ok=True)
    paths = [path for paths in FEATURES.values() for path in paths]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    print(f"== Spark {version}, {_said_by(python, '--version')}", flush=True)
    # Made here, because it may take longer than the first test of a process has: the classes of this Spark.
    subprocess.run(
        [python, "-c", "from tests import quick_spark; quick_spark.classes()"], cwd=ROOT, env=env, check=True
    )
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--dist", "loadfile", f"--junitxml={report}"]
    done = subprocess.run([*command, *(more or ["-n", "2"]), *paths], cwd=ROOT, env=env, check=False)
    return done.returncode, count(report)


def environment(version: str) -> str:
    """The Python of the version's environment, which is made if there is none."""
    home = CACHE / f"spark-{version}"
    python, ready = home / "bin" / "python", home / ".ready"
    wanted = f"{version} {LOCK.stat().st_size} {ROOT}"
    if ready.exists() and ready.read_text() == wanted:
        return str(python)
    shutil.rmtree(home, ignore_errors=True)
    CACHE.mkdir(exist_ok=True)
    base = _python_for(version)
    print(f"== making an environment with Spark {version} and {base}: this takes a few minutes, once", flush=True)
    subprocess.run([base, "-m", "venv", home], check=True)
    others = CACHE / f"spark-{version}.lock"
    others.write_text(without_spark(LOCK.read_text()))
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--require-hashes", "--no-deps", "-r", str(others)], check=True)
    extras = "connect" if version.startswith("4.0") else "connect,pipelines"
    exact = f"{version}.*" if version.count(".") == 1 else version
    subprocess.run([*pip, f"pyspark[{extras}]=={exact}"], check=True)
    # Programs of users, which some tests run, find us without a path.
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", "--editable", str(ROOT)], check=True)
    ready.write_text(wanted)
    return str(python)


def _python_for(version: str) -> str:
    """The preferred one if it runs. What is on the path may be pyenv's switch, which only runs what it is told to."""
    name = PYTHONS.get(version, "python3")
    found = shutil.which(name)
    if found is None:
        return sys.executable
    told = {**os.environ, "PYENV_VERSION": name.removeprefix("python")}
    asked = (_said_by(found, "-c", "import sys; print(sys.executable)", env=env) for env in (None, told))
    return next(filter(None, asked), sys.executable)


def without_spark(lock: str) -> str:
    """The lock file without the packages of Spark. An entry is a line, and indented lines after it."""
    kept: list[str] = []
    is_kept = True
    for line in lock.splitlines(keepends=True):
        if not line.startswith((" ", "#")):
            is_kept = not line.startswith(tuple(f"{name}==" for name in OF_SPARK))
        if is_kept:
            kept.append(line)
    return "".join(kept)


def count(report: Path) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    if not report.exists():
        return found
    for case in ElementTree.parse(report).iter("testcase"):
        place = case.get("classname", "").replace(".", "/")
        feature = next(
            (name for name, paths in FEATURES.items() if any(_is_in(place, path) for path in paths)), "other"
        )
        kinds = {child.tag for child in case}
        outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        found[feature, outcome] += 1
    return found


def _is_in(place: str, path: str) -> bool:
    return place.startswith(path.removesuffix(".py"))


def table(found: dict[str, tuple[int, Counter[tuple[str, str]]]]) -> str:
    lines = [
        "| tests of | " + " | ".join(f"Spark {version}" for version in found) + " |",
        "| --- |" + " --- |" * len(found),
    ]
    for feature in FEATURES:
        cells = [_cell(feature, counts) for _, counts in found.values()]
        lines.append(f"| {feature} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(feature: str, counts: Counter[tuple[str, str]]) -> str:
    texts = [f"{counts[feature, kind]} {kind}" for kind in ("passed", "failed", "skipped") if counts[feature, kind]]
    return ", ".join(texts) or "none"


def _said_by(*command: str, env: dict[str, str] | None = None) -> str:
    """What it prints; nothing if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
