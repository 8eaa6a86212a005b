"""SPARK_HOME for a Spark on this machine: the installed package, without the zipped copy of its Python code.

Spark puts `python/lib/pyspark.zip` of its home first on the path of every Python process that it starts, and Python
does not cache compiled code from a zip. So each of the seven processes at the start of a query would compile PySpark
again, which takes most of a second. Without the zip they import the installed package, which is compiled.

Owns the layout of such a directory: links to the parts of the real one.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from fencepost.spark.user_cache import cache_directory

#: Not linked: the zip's directory, and the one that executors on this machine write to.
LEFT_OUT = frozenset({"python", "work"})


def spark_home(environment: Mapping[str, str] = os.environ) -> Path:
    """The machine's SPARK_HOME if it has one; else a directory of ours, made at the first use."""
    if given := environment.get("SPARK_HOME"):
        return Path(given)
    installed = installed_spark()
    home = cache_directory(environment) / "spark" / hashlib.sha256(str(installed).encode()).hexdigest()[:16]
    if (home / "bin" / "spark-submit").exists():
        return home
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(dir=home.parent, prefix=".draft-"))
    except OSError:
        return installed  # only slower
    link_spark(draft)
    try:
        draft.rename(home)
    except OSError:  # another process was faster
        shutil.rmtree(draft, ignore_errors=True)
    return home


def link_spark(directory: Path) -> Path:
    """Make `directory` a home of this machine's Spark."""
    directory.mkdir(parents=True, exist_ok=True)
    given = os.environ.get("SPARK_HOME")
    for entry in (Path(given) if given else installed_spark()).iterdir():
        if entry.name not in LEFT_OUT and not (directory / entry.name).exists():
            (directory / entry.name).symlink_to(entry.resolve())
    return directory


def installed_spark() -> Path:
    """The package `pyspark`, which contains all of Spark."""
    import pyspark

    return Path(pyspark.__path__[0])
