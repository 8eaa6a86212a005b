"""The newest offset of every key in a stretch of log, in bounded memory.

Keys longer than a digest are kept as their digest: two different keys with one digest would lose the older one's
record, and at 136 bits that does not happen. Invariant: every record up to `latest_offset` has been taken into account.
"""

from hashlib import blake2b

DIGEST_BYTES = 17
#: A dictionary entry with a short key and an offset, as measured, rounded up.
ENTRY_BYTES = 160
NOT_FOUND = -1


class OffsetMap:
    def __init__(self, buffer_bytes: int) -> None:
        self._offsets: dict[bytes, int] = {}
        self._limit = max(buffer_bytes // ENTRY_BYTES, 1)
        self.latest_offset = -1

    def put(self, key: bytes, offset: int) -> bool:
        """Note a record's offset; False when the map has no room for another key."""
        key = _short(key)
        if len(self._offsets) >= self._limit and key not in self._offsets:
            return False
        self._offsets[key] = offset
        return True

    def get(self, key: bytes) -> int:
        return self._offsets.get(_short(key), NOT_FOUND)


def _short(key: bytes) -> bytes:
    # Digests are longer than any key that is kept as it is, so the two cannot be confused.
    return key if len(key) < DIGEST_BYTES else blake2b(key, digest_size=DIGEST_BYTES).digest()
