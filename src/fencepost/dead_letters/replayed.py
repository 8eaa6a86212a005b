"""Which dead letters were replayed: a compacted topic, written in the transaction of the replay itself.

A record is about 10,000 offsets of one partition of a topic for dead letters. Its key is `topic/partition/number`, its
value is JSON::

    {"version": 1, "topic": "9vNo6AXT…",        the id of the topic, in hexadecimal digits; empty if it has none
     "offsets": [[0, 5], [7, 7]]}               from the first to the last, both included

Records about a topic that was deleted and created again are ignored. A reader refuses a higher version. Invariant: the
records are read after older replays of the topic were fenced. So nobody else can add to them.
"""

import json
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator

from fencepost.client import replication
from fencepost.client.cluster import Cluster
from fencepost.client.offsets import earliest, latest
from fencepost.client.replication import Models
from fencepost.client.rights import Operation, wanted
from fencepost.client.scanning import read_records
from fencepost.dead_letters.letter import Letter
from fencepost.errors import Malformed, Unsupported
from fencepost.wire.records import Record
from fencepost.wire.terms import Isolation, TopicPartition

TOPIC = "fencepost.replayed"
VERSION = 1
PARTITIONS = 8
CONFIGS = {"cleanup.policy": "compact", "segment.bytes": str(16 << 20), "min.cleanable.dirty.ratio": "0.1"}
#: Offsets of one record. If every other one was replayed, the record has 60 kB.
OFFSETS_PER_RECORD = 10_000


class Replayed:
    """The offsets of one topic's letters that were replayed."""

    def __init__(self, topic: str, topic_id: bytes) -> None:
        self._topic = topic
        self._id = topic_id.hex() if any(topic_id) else ""
        self._offsets: defaultdict[tuple[int, int], set[int]] = defaultdict(set)  #: by partition and number of record

    def __contains__(self, letter: Letter) -> bool:
        return letter.offset in self._offsets.get(_slot(letter), ())

    def add(self, letters: Iterable[Letter], time_ms: int) -> list[Record]:
        """Note these as replayed. Returns the records that say so."""
        changed = set()
        for letter in letters:
            self._offsets[_slot(letter)].add(letter.offset)
            changed.add(_slot(letter))
        return [Record(self._key(*slot), self._value(slot), time_ms) for slot in sorted(changed)]

    def learn(self, key: bytes, value: bytes) -> None:
        """From a record of the topic. Records about other topics are ignored."""
        try:
            topic, partition, number = key.decode().split("/")
            fields = json.loads(value)
            if int(fields["version"]) > VERSION:
                raise Unsupported(f"topic {TOPIC!r} was written by a newer fencepost: upgrade this one")
            if topic == self._topic and fields["topic"] == self._id:
                offsets = {at for first, last in fields["offsets"] for at in range(first, last + 1)}
                self._offsets[int(partition), int(number)] = offsets
        except (ValueError, KeyError, TypeError) as error:
            raise Malformed(f"topic {TOPIC!r} holds a record that fencepost did not write: {error!r}") from None

    def _key(self, partition: int, number: int) -> bytes:
        return f"{self._topic}/{partition}/{number}".encode()

    def _value(self, slot: tuple[int, int]) -> bytes:
        fields = {"version": VERSION, "topic": self._id, "offsets": list(_runs(sorted(self._offsets[slot])))}
        return json.dumps(fields, separators=(",", ":")).encode()


@wanted(Operation.READ, Operation.WRITE)
def ensure(cluster: Cluster, letters: str) -> None:
    """Create the topic unless it exists, replicated like the topic of the letters."""
    models = Models([letters])
    if not cluster.refresh([TOPIC], missing_ok=True):
        replication.create(cluster, TOPIC, PARTITIONS, CONFIGS, models)
    replication.report_single(cluster, TOPIC, models, "the note of what was replayed")


def place(topic: str) -> TopicPartition:
    """The partition of all records about a topic."""
    return TopicPartition(TOPIC, zlib.crc32(topic.encode()) % PARTITIONS)


@wanted(Operation.READ)
def read(cluster: Cluster, topic: str) -> Replayed:
    """Waits for transactions that are open in the topic's partition."""
    found = Replayed(topic, cluster.topic(topic).id)
    if not cluster.refresh([TOPIC], missing_ok=True):
        return found
    where = place(topic)
    end = latest(cluster, [where], Isolation.READ_UNCOMMITTED)[where]
    for record in read_records(cluster, where, earliest(cluster, [where])[where], end):
        if record.key is not None and record.value is not None:
            found.learn(record.key, record.value)
    return found


def _slot(letter: Letter) -> tuple[int, int]:
    return letter.where.partition, letter.offset // OFFSETS_PER_RECORD


def _runs(offsets: list[int]) -> Iterator[tuple[int, int]]:
    """Runs of consecutive numbers, by their first and last."""
    first = 0
    for index, offset in enumerate(offsets):
        if index + 1 == len(offsets) or offsets[index + 1] != offset + 1:
            yield offsets[first], offset
            first = index + 1
