"""What is committed of one changelog partition, on a local disk: key to value, and the offset up to which it holds.

Invariant: it holds committed changelog records only, all of them before its offset, and nothing else ever writes it. So
it is never wrong, only behind; it may lie on any machine, be deleted at any time, and is brought up to date by reading
the tail of the changelog. Values are kept as they are in the topic.

A store of LMDB for each partition, in `<directory>/<topic id>/<partition>`. It is written without waiting for the disk,
which is safe when a process dies and is not when the machine does: so it is named by the machine's boot as well, and
begun anew after the next one. Layout version 1, part of the path; whoever changes the layout raises it.
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
#: Applied in one transaction; what is lost of a rebuild when it is interrupted.
RECORDS_PER_TRANSACTION = 100_000
#: LMDB takes keys of up to 511 bytes.
KEY_BYTES_MAX = 500

_POSITION = b"\0position"
_OFFSET = struct.Struct("<q")
#: Before every key, so that none can be the position's.
_KEY, _LONG_KEY = b"k", b"l"

_open: dict[str, "Cache"] = {}
_lock = threading.Lock()


def default_directory() -> str:
    return str(Path(tempfile.gettempdir()) / f"fencepost-state-{os.getuid()}")


def cache_for(directory: str, topic_id: str, partition: int) -> "Cache":
    """The process's cache of a partition: LMDB must not be opened twice in one."""
    boot = BOOT_ID.read_text().strip() if BOOT_ID.exists() else "unknown"
    base = Path(directory) / LAYOUT
    path = str(base / boot / topic_id / str(partition))
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
        """The offset before which all is applied; -1 when nothing is."""
        with self._environment.begin(buffers=True) as transaction:
            found = transaction.get(_POSITION)
            return -1 if found is None else int(_OFFSET.unpack(found)[0])

    def catch_up(self, cluster: Cluster, where: TopicPartition, end: int) -> int:
        """Apply what is committed before `end`, waiting for transactions being ended. Gives the number of records."""
        position, count = self.position, 0
        if position > end:  # the log has lost its end, as it may after an unclean election: so must we
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
        """Records of `start` to before `end`, in their order. Another process may have been faster: then it is done."""
        last = dict(zip(keys, values, strict=True))  # of several records of a key the last one counts
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
        """The value of each key, None where there is none."""
        names = [_name(key) for key in keys]
        with self._environment.begin() as transaction, transaction.cursor() as cursor:
            found = dict(cursor.getmulti(names))
        return [found.get(name) for name in names]

    def __len__(self) -> int:
        return max(0, int(self._environment.stat()["entries"]) - 1)


def _name(key: bytes) -> bytes:
    """Under which a key is kept: itself, or its digest if LMDB would not take it."""
    return _KEY + key if len(key) <= KEY_BYTES_MAX else _LONG_KEY + hashlib.sha256(key).digest()
