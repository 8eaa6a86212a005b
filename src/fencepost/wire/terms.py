"""Terms of Kafka's protocol that every layer uses: addresses, partitions, isolation levels, the internal topics."""

import enum
import functools
from typing import NamedTuple

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE})
#: Hosts that mean all addresses of a machine: one can listen there, and not connect.
EVERYWHERE = ("0.0.0.0", "::", "")


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Isolation(enum.IntEnum):
    """What a reader sees, numbered as on the wire."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1  #: up to the LSO, the first record of the oldest open transaction


@functools.lru_cache(maxsize=8192)
def coordinator_partition(key: str, count: int) -> int:
    """The partition of an internal topic that a group or transactional id belongs to: `abs(key.hashCode()) % count`."""
    digest = java_hash(key)
    return (0 if digest == -(2**31) else abs(digest)) % count


def java_hash(text: str) -> int:
    """Java's `String.hashCode`, which runs over UTF-16 code units."""
    digest = 0
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    for unit in units:
        digest = (digest * 31 + unit) & 0xFFFFFFFF
    return digest - 2**32 if digest & 0x80000000 else digest
