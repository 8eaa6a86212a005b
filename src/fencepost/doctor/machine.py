"""What is installed here, and whether it is supported. Imports none of it."""

import importlib.metadata
import sys
from collections.abc import Iterator

from fencepost.doctor.findings import Finding, Severity
from fencepost.spark.java import JavaNotFound, find_java

OLDEST_PYTHON = (3, 11)
NEWEST_TESTED_PYTHON = (3, 14)
#: The first version of Spark that is supported, and the first that is not.
SPARK_FROM, SPARK_BEFORE = (4, 0), (4, 3)
#: Packages by the extra that installs them.
EXTRAS = {
    "client": ("numba", "numpy", "pyarrow"),
    "security": ("cryptography", "pyjwt"),
    "spark": ("pyspark", "lmdb", "pandas"),
}


def look() -> Iterator[Finding]:
    yield _python()
    spark = _version("pyspark")
    yield _spark(spark)
    yield _java(needed=spark is not None)
    for extra, packages in EXTRAS.items():
        found = {name: _version(name) for name in packages}
        missing = [name for name, version in found.items() if version is None]
        shown = ", ".join(f"{name} {version}" for name, version in found.items() if version is not None)
        if missing:
            text = f"not installed: {', '.join(missing)}" + (f" (there is {shown})" if shown else "")
            yield Finding(Severity.NOTE, f"extra {extra}", text, f"pip install 'fencepost[{extra}]'")
        else:
            yield Finding(Severity.OK, f"extra {extra}", shown)


def _python() -> Finding:
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] > NEWEST_TESTED_PYTHON:
        newest = ".".join(map(str, NEWEST_TESTED_PYTHON))
        return Finding(Severity.NOTE, "Python", f"{found}, which is newer than {newest}, the newest that is tested")
    return Finding(Severity.OK, "Python", found)


def _spark(version: str | None) -> Finding:
    supported = "4.0 to 4.2"
    if version is None:
        text = f"not installed: pipelines need it ({supported}); these commands and the broker do not"
        return Finding(Severity.NOTE, "Spark", text, "pip install 'fencepost[spark]'")
    if not SPARK_FROM <= _numbers(version) < SPARK_BEFORE:
        text = f"{version}; supported is {supported}"
        return Finding(Severity.ERROR, "Spark", text, "pip install 'fencepost[spark]'")
    return Finding(Severity.OK, "Spark", version)


def _java(*, needed: bool) -> Finding:
    try:
        java = find_java()
    except JavaNotFound as error:
        return Finding(
            Severity.ERROR if needed else Severity.NOTE, "Java", str(error), "pip install 'fencepost[spark]'"
        )
    return Finding(Severity.OK, "Java", f"{java.major} ({java.executable})")


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(word) for word in version.split(".")[:2] if word.isdecimal())
