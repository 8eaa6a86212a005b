"""The ledger: one record per pipeline and transaction, in a compacted topic, written in that transaction.

A group's committed offsets say how far a pipeline has come, and Kafka forgets them after seven days without use; and a
batch that moved no offset leaves no trace in them. The ledger forgets nothing. Under the pipeline's name as key it
holds JSON::

    {"version": 1, "query": "…", "batch": 7, "time_ms": …,
     "offsets": {"purchases": {"0": 120}},          the next record of every partition that was read
     "changelogs": {"totals": 4}}                   how many partitions the state of each stateful step has

A reader that meets a higher version refuses to go on. Invariant: for any pipeline the last committed record is of its
last committed transaction.
"""

import json
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from fencepost.client.admin import NewTopic, create_topics
from fencepost.client.cluster import Cluster, TopicPartition
from fencepost.client.offsets import Isolation, earliest, latest
from fencepost.errors import Malformed, Unsupported
from fencepost.spark.offsets_json import parse, positions_as_dict
from fencepost.wire.codec import Buffer
from fencepost.wire.records import Record, encode_batch

TOPIC = "fencepost.ledger"
VERSION = 1
#: Pipelines that share a partition wait for each other's open transactions when they start; hence more than one.
PARTITIONS = 8
CONFIGS = {
    "cleanup.policy": "compact",
    # Starting means reading what is not compacted yet, so let that be little.
    "segment.bytes": str(16 << 20),
    "segment.ms": str(24 * 3600 * 1000),
    "min.cleanable.dirty.ratio": "0.1",
}


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    query_id: str
    batch_id: int
    offsets: Mapping[TopicPartition, int]  #: of every partition that the pipeline has read so far
    changelogs: Mapping[str, int] = field(default_factory=dict)  #: by step, the number of partitions

    def to_json(self) -> bytes:
        fields = {
            "version": VERSION,
            "query": self.query_id,
            "batch": self.batch_id,
            "offsets": positions_as_dict(self.offsets),
            "changelogs": dict(self.changelogs),
            "time_ms": time.time_ns() // 1_000_000,
        }
        return json.dumps(fields, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, text: bytes) -> "LedgerEntry":
        try:
            fields = json.loads(text)
            version = fields["version"]
            if version <= VERSION:
                offsets, changelogs = parse(fields["offsets"]).offsets, dict(fields["changelogs"])
                return cls(str(fields["query"]), int(fields["batch"]), offsets, changelogs)
        except (ValueError, KeyError, TypeError) as error:
            raise Malformed(f"topic {TOPIC!r} holds a record that is not the ledger's: {error!r}") from None
        raise Unsupported(f"topic {TOPIC!r} was written by a later fencepost (version {version}): upgrade this one")


def ensure(cluster: Cluster) -> None:
    """Make the topic if it is not there."""
    if not cluster.refresh([TOPIC], missing_ok=True):
        create_topics(cluster, {TOPIC: NewTopic(PARTITIONS, configs=CONFIGS)})


def place(pipeline: str) -> TopicPartition:
    """The partition of a pipeline. It stays the same when the topic is given more partitions."""
    return TopicPartition(TOPIC, zlib.crc32(pipeline.encode()) % PARTITIONS)


def read_entry(cluster: Cluster, pipeline: str) -> LedgerEntry | None:
    """The last committed entry of a pipeline. Waits for transactions that are open in its partition.

    Whoever must know the last one for certain fences the pipeline first.
    """
    from fencepost.client.reading import read_range

    if not cluster.refresh([TOPIC], missing_ok=True):
        return None
    where = place(pipeline)
    start = earliest(cluster, [where])[where]
    end = latest(cluster, [where], Isolation.READ_UNCOMMITTED)[where]
    key, found = pipeline.encode(), None
    for rows in read_range(cluster, where, start, end):
        for row_key, value in zip(rows.column("key").to_pylist(), rows.column("value").to_pylist(), strict=True):
            if row_key == key:
                found = value
    return None if found is None else LedgerEntry.from_json(found)


def blob(pipeline: str, entry: LedgerEntry) -> Buffer:
    """The entry as a finished record batch, for the partition that `place` names."""
    return encode_batch([Record(pipeline.encode(), entry.to_json(), time.time_ns() // 1_000_000)])
