"""The committed records of one changelog partition, on a local disk: key to value, and the offset that it has reached.

Invariant: it holds only committed changelog records, all of those before its offset, and nothing else writes it. So it
is never wrong, only behind. It may be deleted at any time, and catches up by reading the tail of the changelog. Values
are stored as they are in the topic.

Each partition has an LMDB store in `<directory>/<version>/<boot>/<changelog>/<partition>`. Writes do not wait for the
disk. That is safe if a process dies, but not if the machine does. So the machine's boot id is part of the path, and the
next boot starts with an empty cache. A change of the layout needs a new version.
"""

import hashlib
import os
import shutil
import struct
import tempfile
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from fencepost.client.cluster import Cluster
from fencepost.client.offsets import earliest
from fencepost.client.reading import read_range
from fencepost.errors import ConfigError
from fencepost.wire.terms import TopicPartition

LAYOUT = "v1"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
#: An address range, not memory and not disk.
MAP_BYTES_MAX = 1 << 38 if struct.calcsize("P") == 8 else 1 << 30
#: Applied in one LMDB transaction; an interrupted rebuild loses at most this many.
RECORDS_PER_TRANSACTION = 100_000
#: LMDB takes keys of up to 511 bytes.
KEY_BYTES_MAX = 500

_POSITION = b"\0position"
_OFFSET = struct.Struct("<q")
#: Before every key, so that no key can be the position's.
_KEY, _LONG_KEY = b"k", b"l"

_open: dict[str, "Cache"] = {}
_lock = threading.Lock()


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
    def __init__(self, path: str) -> None:
        try:
            import lmdb
        except ImportError:
            raise ConfigError("stateful steps need the package lmdb: pip install 'fencepost[spark]'") from None
        self._environment: Any = lmdb.open(path, map_size=MAP_BYTES_MAX, sync=False, metasync=False, max_readers=512)

    @property
    def position(self) -> int:
        """All records before this offset are applied; -1 if none are."""
        with self._environment.begin(buffers=True) as transaction:
            found = transaction.get(_POSITION)
            return -1 if found is None else int(_OFFSET.unpack(found)[0])

    def catch_up(self, cluster: Cluster, where: TopicPartition, end: int) -> int:
        """Apply the committed records before `end`; waits for transactions that are ending. Returns their number."""
        position, count = self.position, 0
        if position > end:  # the log lost its last records, in an unclean leader election for instance
            self._clear()
            position = -1
        if position < 0:
            position = earliest(cluster, [where])[where]
        if position >= end:
            return 0
        keys: list[bytes] = []
        values: list[bytes | None] = []
        for rows in read_range(cluster, where, position, end):
            keys += rows.column("key").to_pylist()
            values += rows.column("value").to_pylist()
            if len(keys) >= RECORDS_PER_TRANSACTION:
                reached = int(rows.column("offset")[-1].as_py()) + 1
                self._apply(position, reached, keys, values)
                count, position = count + len(keys), reached
                keys, values = [], []
        self._apply(position, end, keys, values)
        return count + len(keys)

    def _apply(self, start: int, end: int, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Records from `start` to before `end`, in order. Does nothing if another process has applied them."""
        last = dict(zip(keys, values, strict=True))  # the last record of a key counts
        with self._environment.begin(write=True) as transaction:
            found = transaction.get(_POSITION)
            if found is not None and _OFFSET.unpack(found)[0] >= end:
                return
            with transaction.cursor() as cursor:
                cursor.putmulti(sorted((_name(key), value) for key, value in last.items() if value is not None))
            for key, value in last.items():
                if value is None:
                    transaction.delete(_name(key))
            transaction.put(_POSITION, _OFFSET.pack(end))

    def _clear(self) -> None:
        with self._environment.begin(write=True) as transaction:
            transaction.drop(self._environment.open_db(txn=transaction), delete=False)

    def get(self, keys: Iterable[bytes]) -> list[bytes | None]:
        """The value of each key, or None."""
        names = [_name(key) for key in keys]
        with self._environment.begin() as transaction, transaction.cursor() as cursor:
            found = dict(cursor.getmulti(names))
        return [found.get(name) for name in names]

    def __len__(self) -> int:
        return max(0, int(self._environment.stat()["entries"]) - 1)


def _name(key: bytes) -> bytes:
    """The key in LMDB: the key itself, or its digest if it is too long for LMDB."""
    return _KEY + key if len(key) <= KEY_BYTES_MAX else _LONG_KEY + hashlib.sha256(key).digest()
