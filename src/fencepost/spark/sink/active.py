"""What the pipelines of this process do: which query runs each of them, and which of its batches failed.

Kept per process, not per writer: a program may make a new writer for every batch, or run a notebook cell twice.
"""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from fencepost.errors import BatchRefused
from fencepost.spark.checkpoint import LocalFiles, local_path
from fencepost.spark.sessions import is_connect
from fencepost.spark.sink import queries
from fencepost.spark.sink.settings import SinkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_lock = threading.Lock()
_running: dict["_Key", tuple[str, str]] = {}  #: the ids of the query and of its run
_unwritten: dict["_Key", tuple[str, int]] = {}  #: run and number of the batch


class _Key(NamedTuple):
    pipeline: str
    servers: tuple[str, ...]


def _key(settings: SinkSettings) -> _Key:
    return _Key(settings.pipeline, tuple(sorted(map(str, settings.client.bootstrap))))


def begin(settings: SinkSettings, query_id: str, run_id: str, is_running: Callable[[str], bool]) -> None:
    """Called before a query takes over its pipeline. Raises BatchRefused if another running query uses it.

    Otherwise the other query would be fenced and stop.
    """
    with _lock:
        other, _ = _running.get(_key(settings), (query_id, run_id))
        if other != query_id and is_running(other):
            raise BatchRefused(in_use(settings, other))
        _running[_key(settings)] = (query_id, run_id)


def tell(session: "SparkSession", settings: SinkSettings, query_id: str, checkpoint: str | None) -> None:
    """Note in a session of Spark Connect which query runs a pipeline: `foreachBatch` runs in another process there."""
    if is_connect(session):
        session.conf.set(_note_of(settings), f"{query_id} {checkpoint or ''}")


def _note_of(settings: SinkSettings) -> str:
    key = _key(settings)
    return f"fencepost.query.{key.pipeline}@{','.join(key.servers)}"


def query_of(settings: SinkSettings) -> str | None:
    """The query that ran this pipeline last in this process."""
    with _lock:
        found = _running.get(_key(settings))
        return None if found is None else found[0]


def pipelines_of(run_id: str) -> set[str]:
    """The pipelines that a run of a query has written for: a function may write for several."""
    with _lock:
        return {key.pipeline for key, (_, run) in _running.items() if run == run_id}


def in_use(settings: SinkSettings, query_id: str) -> str:
    return (
        f"pipeline {settings.pipeline!r} is used by query {query_id}, which is running: two queries cannot share a "
        "pipeline. Nothing was written. Stop the other query first, or give each a pipeline name of its own"
    )


def failed(settings: SinkSettings, run_id: str, batch_id: int) -> None:
    with _lock:
        _unwritten[_key(settings)] = (run_id, batch_id)


def done(settings: SinkSettings) -> None:
    with _lock:
        _unwritten.pop(_key(settings), None)


def failed_before(settings: SinkSettings, run_id: str, batch_id: int) -> int | None:
    """An earlier batch of this run that failed."""
    with _lock:
        found = _unwritten.get(_key(settings))
        return found[1] if found is not None and found[0] == run_id and found[1] < batch_id else None


def refuse_running(session: "SparkSession", settings: SinkSettings, checkpoint: str, query_name: str | None) -> None:
    """Called before a query starts. Raises BatchRefused if it would stop a running query without taking its place.

    Spark refuses a second query of the same name. For a second query on the same checkpoint it stops the first one.
    The sessions of one Spark have query names of their own, but share pipelines.
    """
    for query in session.streams.active:
        if query_name and query.name == query_name:
            raise BatchRefused(f"a query named {query_name!r} is running (id {query.id}): stop it first")
    if is_connect(session):
        noted, _, its_checkpoint = (session.conf.get(_note_of(settings), None) or "").partition(" ")
        if noted and queries.is_active(session, noted) and its_checkpoint != checkpoint:
            raise BatchRefused(in_use(settings, noted))
        return
    other = query_of(settings)
    running = None if other is None else queries.find(session, other)
    if other is None or running is None or not running.is_active():
        return
    if not _has_checkpoint(running, checkpoint):
        raise BatchRefused(in_use(settings, other))


def _has_checkpoint(query: queries.RunningQuery, checkpoint: str) -> bool:
    """Whether a query uses this checkpoint. The two paths may be written differently."""
    files, path = query.checkpoint.files, local_path(checkpoint)
    if isinstance(files, LocalFiles) and path is not None:
        return files.root.absolute() == path.absolute()
    return getattr(files, "root", None) == checkpoint.rstrip("/")
