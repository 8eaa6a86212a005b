"""A query's checkpoint, as Spark writes it: the query's id, and the offsets of each batch. Only read, never written.

::

    metadata       {"id": "…"}, the query's id; it survives restarts
    offsets/N      written before batch N runs: the version, the batch's settings, the end of each source
    commits/N      written when batch N is done
    sources/I/0    where source I began, in the manner of Spark's own Kafka source
    state/         of Spark's stateful operators; only if the query has some

A line of `offsets/N` is a source's end as JSON, or `-` if the source has not given one yet. Version 1 has a line for
each source in their order. Version 2 (Spark 4.2, on request) has lines `<source>:<offset>` in any order. A batch begins
where the one before it ended. Spark keeps the last hundred batches.

This is the only place that tells a batch's offsets in every version of Spark and with Spark Connect.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fencepost.errors import Malformed, Unsupported

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VERSIONS = ("v1", "v2")
NOTHING = "-"
STATE = "state"
NOT_FOUND = "PATH_NOT_FOUND"
#: Files that `SparkFiles` has read.
REMEMBERED = 8
_read_by_spark: dict[tuple[str, str], str] = {}
#: What Spark's own Kafka source writes before the version, for readers of Spark 2.1.
OLD_PREFIX = "\0"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")

#: A source's end as JSON text, by the source's number or name. Sources without an end are missing.
Ends = Mapping[str, str]


class CheckpointFiles(Protocol):
    """The files of a checkpoint, on whatever file system it is."""

    def read(self, name: str) -> str | None:
        """A file's content; None if there is no such file."""

    def has(self, name: str) -> bool:
        """Whether there is such a file or directory."""

    def names(self, directory: str) -> list[str]:
        """The files in a directory; none if there is no such directory."""


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """On a file system that this process can read."""

    root: Path

    def read(self, name: str) -> str | None:
        try:
            return (self.root / name).read_text()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def has(self, name: str) -> bool:
        return (self.root / name).exists()

    def names(self, directory: str) -> list[str]:
        try:
            return [path.name for path in (self.root / directory).iterdir()]
        except (FileNotFoundError, NotADirectoryError):
            return []


@dataclass(frozen=True, slots=True)
class HadoopFiles:
    """On any file system that the driver's JVM knows. For a session in this process."""

    root: str
    session: "SparkSession"

    def read(self, name: str) -> str | None:
        system, path = self._at(name)
        if not system.exists(path):
            return None
        stream = system.open(path)
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def has(self, name: str) -> bool:
        system, path = self._at(name)
        return bool(system.exists(path))

    def names(self, directory: str) -> list[str]:
        system, path = self._at(directory)
        return [str(each.getPath().getName()) for each in system.listStatus(path)] if system.exists(path) else []

    def _at(self, name: str) -> tuple[Any, Any]:
        context: Any = self.session.sparkContext
        path = context._jvm.org.apache.hadoop.fs.Path(f"{self.root}/{name}")
        return path.getFileSystem(context._jsc.hadoopConfiguration()), path


@dataclass(frozen=True, slots=True)
class SparkFiles:
    """On any file system that Spark knows, read with Spark's own reader. For a session of Spark Connect.

    Reading a file is a job, so the last offsets are remembered: a batch's end is the next one's beginning.
    """

    root: str
    session: "SparkSession"

    def read(self, name: str) -> str | None:
        found = _read_by_spark.get((self.root, name))
        if found is None:
            try:
                rows = self._text(name).collect()
            except Exception as error:
                if NOT_FOUND in str(error):
                    return None
                raise
            found = str(rows[0][0]) if rows else ""
            if name.startswith("offsets/"):
                _read_by_spark[self.root, name] = found
                while len(_read_by_spark) > REMEMBERED:
                    del _read_by_spark[next(iter(_read_by_spark))]
        return found

    def has(self, name: str) -> bool:
        try:
            return bool(self._text(name).schema)
        except Exception as error:
            if NOT_FOUND in str(error):
                return False
            raise

    def names(self, directory: str) -> list[str]:
        try:
            return [path.rpartition("/")[2] for path in self._text(directory).inputFiles()]
        except Exception as error:
            if NOT_FOUND in str(error):
                return []
            raise

    def _text(self, name: str) -> Any:
        return self.session.read.text(f"{self.root}/{name}", wholetext=True, recursiveFileLookup=True)


@dataclass(frozen=True, slots=True)
class ArrowFiles:
    """On a file system that Arrow can open, such as an object store. For a process without a session."""

    system: Any  #: a `pyarrow.fs.FileSystem`
    root: str

    def read(self, name: str) -> str | None:
        if not self.has(name):
            return None
        with self.system.open_input_stream(f"{self.root}/{name}") as stream:
            return bytes(stream.read()).decode()

    def has(self, name: str) -> bool:
        from pyarrow.fs import FileType  # type: ignore[import-untyped]

        return bool(self.system.get_file_info(f"{self.root}/{name}").type != FileType.NotFound)

    def names(self, directory: str) -> list[str]:
        from pyarrow.fs import FileSelector

        found = self.system.get_file_info(FileSelector(f"{self.root}/{directory}", allow_not_found=True))
        return [str(info.base_name) for info in found]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    files: CheckpointFiles

    @property
    def query_id(self) -> str | None:
        """None before the query's first start. Raises Malformed if the file has no id."""
        text = self.files.read("metadata")
        if text is None:
            return None
        try:
            return str(json.loads(text)["id"])
        except (ValueError, KeyError, TypeError):
            raise Malformed(f"the checkpoint's file 'metadata' has no query id: {text[:100]!r}") from None

    def ends(self, batch_id: int) -> Ends | None:
        """Where the sources end in this batch; None if Spark has not planned it, or has dropped it long since."""
        text = None if batch_id < 0 else self.files.read(f"offsets/{batch_id}")
        return None if text is None else parse_ends(text, f"offsets/{batch_id}")

    @property
    def last_batch(self) -> int | None:
        """The last batch that Spark has planned; None if there is none."""
        return max((int(name) for name in self.files.names("offsets") if name.isdecimal()), default=None)

    def is_done(self, batch_id: int) -> bool:
        return self.files.has(f"commits/{batch_id}")

    def beginning(self, source: str) -> str | None:
        """Where a source began, as JSON text. Only Spark's own Kafka source tells."""
        text = self.files.read(f"sources/{source}/0")
        if text is None:
            return None
        _version, _, offsets = text.removeprefix(OLD_PREFIX).partition("\n")
        return offsets.strip() or None

    @property
    def has_state(self) -> bool:
        """Whether stateful operators of Spark have written state here."""
        return self.files.has(STATE)


def parse_ends(text: str, name: str) -> Ends:
    """The content of a file of `offsets`. Raises Malformed or Unsupported."""
    version, *lines = text.split("\n")
    if version.strip() not in VERSIONS:
        if version.startswith("v"):
            raise Unsupported(f"the checkpoint's file {name!r} has version {version!r}: upgrade fencepost")
        raise Malformed(f"the checkpoint's file {name!r} does not begin with a version: it is not Spark's, or is cut")
    if not lines:
        raise Malformed(f"the checkpoint's file {name!r} is cut after its version")
    found = lines[1:]
    if version.strip() == "v1":
        pairs = [(str(number), line) for number, line in enumerate(found)]
    else:
        if odd := [line for line in found if ":" not in line]:
            raise Malformed(f"the checkpoint's file {name!r} has a line without a source: {odd[0][:100]!r}")
        pairs = [(source, offset) for source, _, offset in (line.partition(":") for line in found)]
    return {source: offset for source, offset in pairs if offset != NOTHING}


def local_path(root: str) -> Path | None:
    """The directory, if the text names one on a local file system. Without a scheme it may also name another one.

    Hadoop does not escape characters in a path, so nothing is decoded.
    """
    scheme = _SCHEME.match(root)
    if scheme is None:
        return Path(root)
    return Path("/" + root[scheme.end() :].lstrip("/")) if scheme[0] == "file:" else None


def local(root: str | os.PathLike[str]) -> Checkpoint:
    """A checkpoint on a file system that this process can read. Raises Unsupported for any other."""
    path = local_path(os.fspath(root))
    if path is None:
        raise Unsupported(f"the checkpoint {root} is not on a local file system")
    return Checkpoint(LocalFiles(path))
