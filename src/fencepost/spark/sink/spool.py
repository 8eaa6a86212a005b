"""Files that take record batches from encoders to writers on one machine, past Spark.

Spark's shuffle can reach other machines, and takes each blob through the JVM twice to do so. If all tasks are on the
driver's machine, a file does. An encoder appends its blobs to a file of its own, and what Spark shuffles is the place
of each blob. A writer maps the file into memory.

Invariants: a file is written by one attempt of one task, and only appended to, so what a place names does not change.
The files of a job are deleted when the job has ended. What a killed driver left behind is deleted by the next one that
finds it: a driver holds a lock in its directory while it lives.
"""

import contextlib
import fcntl
import mmap
import os
import shutil
import struct
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from fencepost.client.encode import Blob
from fencepost.errors import WriteFailed
from fencepost.spark.environment import is_one_process, is_worker
from fencepost.spark.sessions import is_connect, setting
from fencepost.wire.codec import Buffer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PREFIX = "fencepost-spool-"
LOCK = "lock"
_PLACE = struct.Struct(">qqq")


class Place(NamedTuple):
    """Where some bytes are."""

    number: int  #: of the file
    begin: int
    size: int


@dataclass(frozen=True, slots=True)
class Spool:
    """The files of one job, for its tasks."""

    directory: str

    def path(self, number: int) -> Path:
        return Path(self.directory) / str(number)


class SpoolWriter:
    """The file of one attempt of one task. `number` is that of the attempt."""

    def __init__(self, spool: Spool, number: int) -> None:
        self._path = spool.path(number)
        self._number = number
        self._size = 0
        self._file: IO[bytes] | None = None

    def add(self, blob: Blob) -> Blob:
        """The blob with its place instead of its bytes, which are in the file now."""
        return replace(blob, data=_PLACE.pack(*self.append(blob.data)))

    def append(self, data: Buffer) -> Place:
        """Where these bytes are now."""
        view = memoryview(data)
        place = Place(self._number, self._size, len(view))
        try:
            self._write(view)
        except OSError as error:
            raise WriteFailed(f"record batches cannot be kept in {self._path} (spark.local.dir): {error}") from None
        self._size += place.size
        return place

    def _write(self, view: memoryview) -> None:
        if self._file is None:
            self._file = self._path.open("xb", buffering=0)
        while len(view):  # one call may write less, for instance on a disk that is nearly full
            view = view[self._file.write(view) :]

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


@dataclass(slots=True)
class SpoolReader:
    """Finds the bytes of blobs. They stay valid, also after the files are deleted."""

    spool: Spool
    _files: dict[int, memoryview] = field(default_factory=dict)

    def find(self, blob: Blob) -> Blob:
        return replace(blob, data=self.read(Place._make(_PLACE.unpack(bytes(blob.data)))))

    def read(self, place: Place) -> memoryview:
        end = place.begin + place.size
        if len(self._files.get(place.number, b"")) < end:  # not mapped yet, or it has grown since
            self._files[place.number] = self._map(place.number)
        return self._files[place.number][place.begin : end]

    def _map(self, number: int) -> memoryview:
        path = self.spool.path(number)
        try:
            with path.open("rb") as file:
                return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except (OSError, ValueError) as error:
            raise WriteFailed(f"the record batches in {path} are gone: {error}") from None


class SpoolDirectory:
    """Where a driver's jobs have their files."""

    def __init__(self, parent: str) -> None:
        _sweep(Path(parent))
        self._path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        self._lock = (self._path / LOCK).open("wb")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._finalizer = weakref.finalize(self, _remove, self._path, self._lock)
        self._jobs = 0

    @contextlib.contextmanager
    def job(self) -> Iterator[Spool]:
        self._jobs += 1
        path = self._path / str(self._jobs)
        path.mkdir()
        try:
            yield Spool(str(path))
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def close(self) -> None:
        self._finalizer()


def directory_for(session: "SparkSession", environment: Mapping[str, str] = os.environ) -> SpoolDirectory | None:
    """A directory where Spark keeps its own files; None if tasks may run on other machines, or it cannot be used."""
    is_driver = not is_connect(session) or is_worker()
    if not is_driver or not is_one_process(setting(session, "spark.master") or ""):
        return None
    listed = environment.get("SPARK_LOCAL_DIRS") or setting(session, "spark.local.dir") or tempfile.gettempdir()
    try:
        return SpoolDirectory(listed.split(",")[0])
    except OSError:
        return None  # Spark's shuffle may have another directory


def _sweep(parent: Path) -> None:
    """Delete what killed drivers left."""
    for path in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError), (path / LOCK).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)


def _remove(path: Path, lock: IO[bytes]) -> None:
    shutil.rmtree(path, ignore_errors=True)
    lock.close()
