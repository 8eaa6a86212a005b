"""The committed records of one changelog partition, on a local disk: key to value, and the offset that it has reached.

Invariants:

- It holds only committed changelog records, all of those before its offset, and nothing else writes it. It may be
  deleted at any time, and catches up by reading the tail of the changelog. Values are stored as they are in the topic.
- It continues only if it was complete within the last hour. A key is removed by a tombstone, and compaction removes
  the tombstone, too, `delete.retention.ms` (a day by default) after the key's last value. A cache that was away for
  longer would keep the key. So it is rebuilt if it was last complete more than an hour ago, at an unknown time, or in
  the future. The changelog keeps tombstones for at least twice as long, so an hour is left for a batch to be scheduled
  and for the reading itself (a million records take seconds).

Each partition has an LMDB store in `<directory>/<version>/<boot>/<changelog>/<partition>`. Writes do not wait for the
disk. That is safe if a process dies, but not if the machine does. So the machine's boot id is part of the path, and the
next boot starts with an empty cache. Its clock is the time since that boot, which nobody can set. A change of the
layout needs a new version.
"""

import hashlib
import os
import shutil
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fencepost.client.cluster import Cluster
from fencepost.client.offsets import earliest, latest
from fencepost.client.reading import read_range
from fencepost.errors import ConfigError
from fencepost.wire.terms import Isolation, TopicPartition

LAYOUT = "v1"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
#: An address range, not memory and not disk.
MAP_BYTES_MAX = 1 << 38 if struct.calcsize("P") == 8 else 1 << 30
#: Applied in one LMDB transaction; an interrupted rebuild loses at most this many.
RECORDS_PER_TRANSACTION = 100_000
#: LMDB takes keys of up to 511 bytes.
KEY_BYTES_MAX = 500
#: A cache that was complete longer ago than this is rebuilt.
AGE_MAX_MS = 3600 * 1000
#: Of a changelog: `delete.retention.ms`.
DELETE_RETENTION_MS_MIN = 2 * AGE_MAX_MS

_POSITION = b"\0position"
_REACHED = struct.Struct("<qq")
#: Before every key, so that no key can be the position's.
_KEY, _LONG_KEY = b"k", b"l"

_open: dict[str, "Cache"] = {}
_lock = threading.Lock()


class Reached(NamedTuple):
    """How far a store is. Stores of older versions hold the offset only; that counts as NOTHING."""

    offset: int  #: all records before it are applied
    as_of_ms: int  #: when the store was last complete, by its clock


NOTHING = Reached(-1, 0)


def clock_ms() -> int:
    """Milliseconds since the machine was started, if it tells its boots apart; otherwise the time of day."""
    if BOOT_ID.exists() and hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
    return time.time_ns() // 1_000_000


def default_directory() -> str:
    return str(Path(tempfile.gettempdir()) / f"fencepost-state-{os.getuid()}")


def cache_for(directory: str, name: str, partition: int) -> "Cache":
    """This process's cache of a partition, by `Changelog.cache_name`. A process must not open an LMDB store twice."""
    boot = BOOT_ID.read_text().strip() if BOOT_ID.exists() else "unknown"
    base = Path(directory) / LAYOUT
    path = str(base / boot / name / str(partition))
    with _lock:
        if path not in _open:
            for other in base.glob("*"):
                if other.name != boot:
                    shutil.rmtree(other, ignore_errors=True)
            Path(path).mkdir(parents=True, exist_ok=True)
            _open[path] = Cache(path)
        return _open[path]


class Cache:
    def __init__(self, path: str, clock: Callable[[], int] = clock_ms) -> None:
        try:
            import lmdb
        except ImportError:
            raise ConfigError("stateful steps need the package lmdb: pip install 'fencepost[spark]'") from None
        self._environment: Any = lmdb.open(path, map_size=MAP_BYTES_MAX, sync=False, metasync=False, max_readers=512)
        self._clock = clock

    @property
    def position(self) -> int:
        """All records before this offset are applied; -1 if none are."""
        with self._environment.begin() as transaction:
            return _reached(transaction).offset

    def look_up(self, cluster: Cluster, where: TopicPartition, end: int, keys: Sequence[bytes]) -> list[bytes | None]:
        """The value of each key before `end`, or None."""
        while True:
            self.catch_up(cluster, where, end)
            with self._environment.begin() as transaction:
                # A task that is late, or a clock that differs, may have emptied the store in between.
                if _reached(transaction).offset >= end:
                    return _values(transaction, keys)

    def catch_up(self, cluster: Cluster, where: TopicPartition, end: int) -> int:
        """Apply the committed records before `end`; waits for transactions that are ending. Returns their number."""
        while True:
            now_ms, reached = self._clock(), self._valid(cluster, where, end)
            is_rebuilt = reached is NOTHING
            start = earliest(cluster, [where])[where] if is_rebuilt else reached.offset
            # What was removed is as uncertain as before, until all is applied.
            as_of_ms = now_ms if is_rebuilt else reached.as_of_ms
            count = 0
            for keys, values, next_offset in _pieces(cluster, where, start, end):
                piece = Reached(next_offset, now_ms if next_offset == end else as_of_ms)
                if not self._apply(None if is_rebuilt and not count else start, piece, keys, values):
                    break
                start, count = next_offset, count + len(keys)
            else:
                return count

    def _apply(
        self, start: int | None, reached: Reached, keys: Sequence[bytes], values: Sequence[bytes | None]
    ) -> bool:
        """Apply the records from `start` (None: from the first one) on, in order.

        Does nothing if another process has applied them. False if another process has emptied the store since.
        """
        last = dict(zip(keys, values, strict=True))  # the last record of a key counts
        with self._environment.begin(write=True) as transaction:
            found = _reached(transaction)
            if found >= reached:
                return True
            if start is not None and found.offset < start:
                return False
            with transaction.cursor() as cursor:
                cursor.putmulti(sorted((_name(key), value) for key, value in last.items() if value is not None))
            for key, value in last.items():
                if value is None:
                    transaction.delete(_name(key))
            transaction.put(_POSITION, _REACHED.pack(*reached))
            return True

    def _valid(self, cluster: Cluster, where: TopicPartition, end: int) -> Reached:
        """What is applied, if it may be continued; otherwise NOTHING, and then the store is empty."""
        beyond = self.position
        # Either this task is late, and others are ahead of it, or the log lost its last records.
        high = latest(cluster, [where], Isolation.READ_UNCOMMITTED)[where] if beyond > end else end
        with self._environment.begin(write=True) as transaction:
            found = _reached(transaction)
            if 0 <= found.offset <= max(end, high) and 0 <= self._clock() - found.as_of_ms <= AGE_MAX_MS:
                return found
            transaction.drop(self._environment.open_db(txn=transaction), delete=False)
            return NOTHING

    def get(self, keys: Iterable[bytes]) -> list[bytes | None]:
        """The value of each key, or None."""
        with self._environment.begin() as transaction:
            return _values(transaction, keys)

    def __len__(self) -> int:
        return max(0, int(self._environment.stat()["entries"]) - 1)


def _pieces(
    cluster: Cluster, where: TopicPartition, start: int, end: int
) -> Iterator[tuple[list[bytes], list[bytes | None], int]]:
    """Keys, values, and the offset that follows. The last piece, which may be empty, reaches `end`."""
    keys: list[bytes] = []
    values: list[bytes | None] = []
    for rows in read_range(cluster, where, start, end):
        keys += rows.column("key").to_pylist()
        values += rows.column("value").to_pylist()
        next_offset = int(rows.column("offset")[-1].as_py()) + 1
        if len(keys) >= RECORDS_PER_TRANSACTION and next_offset < end:
            yield keys, values, next_offset
            keys, values = [], []
    yield keys, values, end


def _reached(transaction: Any) -> Reached:
    found = transaction.get(_POSITION)
    return Reached(*_REACHED.unpack(found)) if found is not None and len(found) == _REACHED.size else NOTHING


def _values(transaction: Any, keys: Iterable[bytes]) -> list[bytes | None]:
    names = [_name(key) for key in keys]
    with transaction.cursor() as cursor:
        found = dict(cursor.getmulti(names))
    return [found.get(name) for name in names]


def _name(key: bytes) -> bytes:
    """The key in LMDB: the key itself, or its digest if it is too long for LMDB."""
    return _KEY + key if len(key) <= KEY_BYTES_MAX else _LONG_KEY + hashlib.sha256(key).digest()
