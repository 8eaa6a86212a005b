"""What the sink has committed, transaction by transaction, for users and listeners.

Kept in the process that runs `foreachBatch`, per query: the last transactions in detail, and totals. With Spark Connect
that process belongs to the server, and the totals are also a setting of the session, for the program that started the
query.
"""

import json
import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self

from fencepost.spark.sessions import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

KEPT = 100


@dataclass(frozen=True, slots=True)
class TransactionProgress:
    """One committed transaction, or one batch that was already committed."""

    pipeline: str
    query_id: str
    batch_id: int
    was_skipped: bool = False
    producer_id: int = -1
    epoch: int = -1
    records: Mapping[str, int] = field(default_factory=dict)  #: by topic, without dead letters
    dead_letters: Mapping[str, int] = field(default_factory=dict)  #: by reason
    bytes: int = 0
    aborted: int = 0  #: aborted attempts at this batch
    write_ms: float = 0.0  #: from the first permit to the last acknowledgement
    commit_ms: float = 0.0  #: offsets, ledger and EndTxn

    @property
    def num_output_rows(self) -> int:
        """Rows that became records, changes of state among them, without dead letters."""
        return sum(self.records.values())

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "numOutputRows": self.num_output_rows}


@dataclass(slots=True)
class SinkProgress:
    """A query's totals in this process."""

    pipeline: str
    query_id: str
    committed: int = 0
    aborted: int = 0
    skipped: int = 0
    records: int = 0  #: without dead letters
    dead_letters: Counter[str] = field(default_factory=Counter)  #: by reason
    bytes: int = 0
    commit_ms: float = 0.0
    restore_ms: float = 0.0  #: tasks catching up with changelogs, added up; 0 with Spark Connect, which does not tell
    restored: int = 0  #: records of changelogs that they read
    recent: deque[TransactionProgress] = field(default_factory=lambda: deque(maxlen=KEPT))

    @property
    def last(self) -> TransactionProgress | None:
        return self.recent[-1] if self.recent else None

    def of_batch(self, batch_id: int) -> TransactionProgress | None:
        return next((found for found in reversed(self.recent) if found.batch_id == batch_id), None)

    @classmethod
    def from_dict(cls, query_id: str, given: Mapping[str, Any]) -> Self:
        """What `as_dict` gave, perhaps in another version of fencepost: a server of Spark Connect has its own."""
        sums = {name: given[name] for name in ("pipeline", "committed", "aborted", "skipped", "records", "bytes")}
        letters = Counter(given.get("deadLetters", {}))
        restored = {"restore_ms": given.get("restoreMs", 0.0), "restored": given.get("restored", 0)}
        found = cls(query_id=query_id, **sums, dead_letters=letters, commit_ms=given["commitMs"], **restored)
        if given["last"] is not None:
            known = {each.name for each in fields(TransactionProgress)}
            last = {name: value for name, value in given["last"].items() if name in known}
            found.recent.append(TransactionProgress(**last))
        return found

    def as_dict(self) -> dict[str, Any]:
        sums = {name: getattr(self, name) for name in ("committed", "aborted", "skipped", "records", "bytes")}
        last = self.last
        return {
            "pipeline": self.pipeline,
            **sums,
            "numOutputRows": self.records,
            "deadLetters": dict(self.dead_letters),
            "commitMs": self.commit_ms,
            "restoreMs": self.restore_ms,
            "restored": self.restored,
            "last": last and last.as_dict(),
        }


_lock = threading.Lock()
_by_query: dict[str, SinkProgress] = {}
_listeners: list[Callable[[TransactionProgress], None]] = []


def of_query(query_id: str) -> SinkProgress | None:
    with _lock:
        return _by_query.get(query_id)


def of_all_queries() -> list[SinkProgress]:
    with _lock:
        return list(_by_query.values())


def of_remote_query(session: "SparkSession", query_id: str) -> SinkProgress | None:
    """The same for a query of Spark Connect, whose sink runs in a process of the server. `recent` has the last one."""
    told = session.conf.get(_setting_of(query_id), None)
    return None if told is None else SinkProgress.from_dict(query_id, json.loads(told))


def _setting_of(query_id: str) -> str:
    return f"fencepost.progress.{query_id}"


def subscribe(listener: Callable[[TransactionProgress], None]) -> Callable[[], None]:
    """Call `listener` after every transaction, in the query's thread. Returns a function that ends this."""
    _listeners.append(listener)
    return lambda: _listeners.remove(listener)


def note_abort(pipeline: str, query_id: str) -> None:
    with _lock:
        _sums(pipeline, query_id).aborted += 1


def note_restored(pipeline: str, query_id: str, restore_ms: float, restored: int) -> None:
    """In addition to what was noted before."""
    with _lock:
        sums = _sums(pipeline, query_id)
        sums.restore_ms += restore_ms
        sums.restored += restored


def note(done: TransactionProgress, session: "SparkSession | None" = None) -> None:
    """`session` is the query's: if it is one of Spark Connect, the program that started the query reads it there."""
    with _lock:
        sums = _sums(done.pipeline, done.query_id)
        sums.recent.append(done)
        if done.was_skipped:
            sums.skipped += 1
        else:
            sums.committed += 1
            sums.records += done.num_output_rows
            sums.dead_letters.update(done.dead_letters)
            sums.bytes += done.bytes
            sums.commit_ms += done.commit_ms
    for listener in [*_listeners]:
        try:
            listener(done)
        except Exception:  # the batch is committed: what a listener meets is no failure of it
            logger.exception("%s: a listener failed after batch %d", done.pipeline, done.batch_id)
    if session is not None and is_connect(session):
        try:
            session.conf.set(_setting_of(done.query_id), json.dumps(sums.as_dict()))
        except Exception as error:  # likewise
            logger.warning("%s: the progress of batch %d is not shown: %s", done.pipeline, done.batch_id, error)


def _sums(pipeline: str, query_id: str) -> SinkProgress:
    return _by_query.setdefault(query_id, SinkProgress(pipeline, query_id))
