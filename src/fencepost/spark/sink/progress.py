"""What the sink has committed, transaction by transaction, for users and listeners.

Kept in the driver's process, per query: the last transactions in detail, and totals.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

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
    records: Mapping[str, int] = field(default_factory=dict)  #: by topic
    bytes: int = 0
    aborted: int = 0  #: aborted attempts at this batch
    write_ms: float = 0.0  #: from the first permit to the last acknowledgement
    commit_ms: float = 0.0  #: offsets, ledger and EndTxn

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(slots=True)
class SinkProgress:
    """A query's totals in this process."""

    pipeline: str
    query_id: str
    committed: int = 0
    aborted: int = 0
    skipped: int = 0
    records: int = 0
    bytes: int = 0
    commit_ms: float = 0.0
    recent: deque[TransactionProgress] = field(default_factory=lambda: deque(maxlen=KEPT))

    @property
    def last(self) -> TransactionProgress | None:
        return self.recent[-1] if self.recent else None

    def of_batch(self, batch_id: int) -> TransactionProgress | None:
        return next((found for found in reversed(self.recent) if found.batch_id == batch_id), None)

    def as_dict(self) -> dict[str, Any]:
        sums = {name: getattr(self, name) for name in ("committed", "aborted", "skipped", "records", "bytes")}
        last = self.last
        return {"pipeline": self.pipeline, **sums, "commitMs": self.commit_ms, "last": last and last.as_dict()}


_lock = threading.Lock()
_by_query: dict[str, SinkProgress] = {}
_listeners: list[Callable[[TransactionProgress], None]] = []


def of_query(query_id: str) -> SinkProgress | None:
    with _lock:
        return _by_query.get(query_id)


def subscribe(listener: Callable[[TransactionProgress], None]) -> Callable[[], None]:
    """Call `listener` after every transaction, in the query's thread. Returns a function that ends this."""
    _listeners.append(listener)
    return lambda: _listeners.remove(listener)


def note_abort(pipeline: str, query_id: str) -> None:
    with _lock:
        _sums(pipeline, query_id).aborted += 1


def note(done: TransactionProgress) -> None:
    with _lock:
        sums = _sums(done.pipeline, done.query_id)
        sums.recent.append(done)
        if done.was_skipped:
            sums.skipped += 1
        else:
            sums.committed += 1
            sums.records += sum(done.records.values())
            sums.bytes += done.bytes
            sums.commit_ms += done.commit_ms
    for listener in [*_listeners]:
        try:
            listener(done)
        except Exception:  # the batch is committed: what a listener meets is no failure of it
            logger.exception("%s: a listener failed after batch %d", done.pipeline, done.batch_id)


def _sums(pipeline: str, query_id: str) -> SinkProgress:
    return _by_query.setdefault(query_id, SinkProgress(pipeline, query_id))
