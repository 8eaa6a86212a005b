"""SPARK_HOME for a Spark on this machine: the installed package, without the zipped copy of its Python code.

Spark puts `python/lib/pyspark.zip` of its home first on the path of every Python process that it starts, and Python
keeps no compiled code of what it finds in a zip. So each of the seven processes that the start of a query takes would
compile PySpark anew, for most of a second. Without the zip they find the same code where it is installed, compiled.

Alone responsible for the layout of such a directory: links to the parts of the real one.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from fencepost.spark.user_cache import cache_directory

#: Not linked: where the zip is, and where executors that run on this machine write.
LEFT_OUT = frozenset({"python", "work"})


def spark_home(environment: Mapping[str, str] = os.environ) -> Path:
    """The machine's own SPARK_HOME where it has one; else a directory of ours, made at the first use."""
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
        return installed  # slower, that is all
    link_spark(draft)
    try:
        draft.rename(home)
    except OSError:  # somebody else was faster
        shutil.rmtree(draft, ignore_errors=True)
    return home


def link_spark(directory: Path) -> Path:
    """Make of `directory` a home of the Spark that this machine runs."""
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
