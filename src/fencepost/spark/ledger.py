"""The ledger: one record per pipeline and transaction, in a compacted topic, written in that transaction.

A group's committed offsets say how far a pipeline has come. But Kafka drops them after seven days without use. They do
not say which batch of which query moved them, nor which topics they belong to. A batch that moves no offset leaves no
trace in them. The ledger keeps all of this. Its key is the pipeline's name, its value is JSON::

    {"version": 2, "query": "…", "run": "…", "batch": 7, "time_ms": …,
     "offsets": {"purchases": {"0": 120}},          the next offset of every partition that was read
     "ahead": {"purchases": {"0": [120, 140]}},     all positions, for partitions that several sources read differently
     "topics": {"purchases": "9vNo6AXTTDaBjM2…"},   the identities of those topics
     "changelogs": {"totals": {"partitions": 4, "topic": "…", "reset": "…"}},
     "in_checkpoint": ["state"],                    what the query keeps only in Spark's checkpoint
     "writes": 1, "unfinished": true,               number of committed writes of the batch; others are missing
     "failed": {"query": "…", "batch": 8},          this later batch was tried and failed
     "reset": {"query": "…", "batch": 7, "to": "…"}}  not a batch: `fencepost pipeline reset` moved the offsets

An entry of a reset has a query id of its own, batch -1, and under `reset` the batch that was committed last before it.
A reset that changes state also gives each changelog its id: caches from before it are not used any more, because
compaction may remove its tombstones before they catch up.

Version 1 had no run, topics or in_checkpoint, and only the number of partitions of a changelog. A reader refuses a
higher version, and ignores fields that it does not know. Invariant: a pipeline's last committed record is of its last
committed transaction.
"""

import enum
import json
import re
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fencepost.client import replication
from fencepost.client.cluster import Cluster
from fencepost.client.offsets import earliest, latest
from fencepost.client.replication import NO_MODELS, Models
from fencepost.client.rights import Operation, wanted
from fencepost.client.scanning import Content, read_records, scan_batches
from fencepost.errors import FencepostError, Malformed, Unsupported
from fencepost.spark.offsets_json import parse, positions_as_dict
from fencepost.spark.topic_identity import Identity, identities_as_dict, parse_identities
from fencepost.wire.codec import Buffer
from fencepost.wire.records import Record, encode_batch
from fencepost.wire.terms import Isolation, TopicPartition

TOPIC = "fencepost.ledger"
VERSION = 2
#: When a pipeline starts, it waits for open transactions in its partition. So the topic has more than one.
PARTITIONS = 8
CONFIGS = {
    "cleanup.policy": "compact",
    # A start reads everything that is not compacted yet, so that should be little.
    "segment.bytes": str(16 << 20),
    "segment.ms": str(24 * 3600 * 1000),
    "min.cleanable.dirty.ratio": "0.1",
}
#: How many offsets are read first, and by how much the next piece is larger.
TAIL_OFFSETS = 256
TAIL_GROWTH = 8
_NOTE = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/\d+")

#: The positions of a query's sources in one partition: several, if several sources read it to different ends.
Reached = frozenset[int]


class InCheckpoint(enum.Enum):
    """What Spark keeps only in its checkpoint."""

    STATE = "state"  #: of Spark's own stateful operators
    POSITIONS = "positions"  #: of sources other than Kafka


@dataclass(frozen=True, slots=True)
class ChangelogEntry:
    """A changelog as it was when the pipeline last used it."""

    partitions: int
    topic: Identity | None = None  #: None in entries of version 1
    reset_id: str = ""  #: of the last reset that changed it


@dataclass(frozen=True, slots=True)
class Reset:
    """The entry is of a reset, not of a batch."""

    query_id: str  #: of the last batch before it, like `batch_id`
    batch_id: int
    to: str  #: as the user said it


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    query_id: str
    batch_id: int
    offsets: Mapping[TopicPartition, int]  #: of every partition that was ever read; the lowest of several
    changelogs: Mapping[str, ChangelogEntry] = field(default_factory=dict)  #: by step
    run_id: str = ""  #: of the run that wrote it
    ahead: Mapping[TopicPartition, Reached] = field(default_factory=dict)  #: partitions with several positions
    topics: Mapping[str, Identity] = field(default_factory=dict)
    in_checkpoint: frozenset[InCheckpoint] | None = frozenset()  #: None in entries of version 1: unknown
    writes: int = 1  #: how many writes of the batch are committed
    is_unfinished: bool = False  #: others are missing
    failed: tuple[str, int] | None = None  #: query and number of a later batch that failed
    reset: Reset | None = None
    time_ms: int = field(default=0, compare=False)  #: when it was written, by its writer's clock; `to_json` sets it

    @property
    def reached(self) -> dict[TopicPartition, Reached]:
        return {where: self.ahead.get(where, frozenset({offset})) for where, offset in self.offsets.items()}

    def to_json(self) -> bytes:
        fields: dict[str, Any] = {
            "version": VERSION,
            "query": self.query_id,
            "run": self.run_id,
            "batch": self.batch_id,
            "writes": self.writes,
            "offsets": positions_as_dict(self.offsets),
            "topics": identities_as_dict(self.topics),
            "changelogs": {name: _changelog_as_dict(each) for name, each in self.changelogs.items()},
            "time_ms": time.time_ns() // 1_000_000,
        }
        if self.in_checkpoint is not None:
            fields["in_checkpoint"] = sorted(kind.value for kind in self.in_checkpoint)
        if self.ahead:
            fields["ahead"] = positions_as_dict({where: sorted(reached) for where, reached in self.ahead.items()})
        if self.is_unfinished:
            fields["unfinished"] = True
        if self.failed is not None:
            fields["failed"] = dict(zip(("query", "batch"), self.failed, strict=True))
        if self.reset is not None:
            reset = self.reset
            fields["reset"] = {"query": reset.query_id, "batch": reset.batch_id, "to": reset.to}
        return json.dumps(fields, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, text: bytes) -> "LedgerEntry":
        try:
            fields = json.loads(text)
            version = fields["version"]
            if version <= VERSION:
                kinds = fields.get("in_checkpoint")
                return cls(
                    query_id=str(fields["query"]),
                    batch_id=int(fields["batch"]),
                    offsets=parse(fields["offsets"]).offsets,
                    changelogs={name: _changelog(each) for name, each in fields["changelogs"].items()},
                    run_id=str(fields.get("run", "")),
                    ahead=_parse_ahead(fields.get("ahead", {})),
                    topics=parse_identities(fields.get("topics", {})),
                    in_checkpoint=None if kinds is None else frozenset(InCheckpoint(kind) for kind in kinds),
                    writes=int(fields.get("writes", 1)),
                    is_unfinished=bool(fields.get("unfinished", False)),
                    failed=_failed(fields.get("failed")),
                    reset=_reset(fields.get("reset")),
                    time_ms=int(fields.get("time_ms", 0)),
                )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Malformed(f"topic {TOPIC!r} holds a record that is not a ledger entry: {error!r}") from None
        raise Unsupported(f"topic {TOPIC!r} was written by a newer fencepost (version {version}): upgrade this one")


def _failed(given: Any) -> tuple[str, int] | None:
    return None if given is None else (str(given["query"]), int(given["batch"]))


def _reset(given: Any) -> Reset | None:
    return None if given is None else Reset(str(given["query"]), int(given["batch"]), str(given["to"]))


def _changelog(given: Any) -> ChangelogEntry:
    if isinstance(given, int):  # version 1
        return ChangelogEntry(given)
    named = {"topic": given["topic"]} if "topic" in given else {}
    return ChangelogEntry(int(given["partitions"]), parse_identities(named).get("topic"), str(given.get("reset", "")))


def _changelog_as_dict(entry: ChangelogEntry) -> dict[str, Any]:
    found: dict[str, Any] = {"partitions": entry.partitions}
    if entry.topic:
        found |= identities_as_dict({"topic": entry.topic})
    if entry.reset_id:
        found["reset"] = entry.reset_id
    return found


def _parse_ahead(given: Any) -> dict[TopicPartition, Reached]:
    return {
        TopicPartition(topic, int(partition)): frozenset(int(offset) for offset in reached)
        for topic, partitions in given.items()
        for partition, reached in partitions.items()
    }


def note(query_id: str, batch_id: int) -> str:
    """The metadata of the group's offsets."""
    return f"{query_id}/{batch_id}"


def is_note(metadata: str) -> bool:
    """Whether a sink committed this offset. If not, a user has set it."""
    return _NOTE.fullmatch(metadata) is not None


@wanted(Operation.READ, Operation.WRITE)
def ensure(cluster: Cluster, models: Models = NO_MODELS) -> None:
    """Create the topic unless it exists, replicated like its `models`."""
    if not cluster.refresh([TOPIC], missing_ok=True):
        replication.create(cluster, TOPIC, PARTITIONS, CONFIGS, models)
    replication.report_single(cluster, TOPIC, models, "what all pipelines have committed")


def place(pipeline: str) -> TopicPartition:
    """The partition of a pipeline. It stays the same when the topic gets more partitions."""
    return TopicPartition(TOPIC, zlib.crc32(pipeline.encode()) % PARTITIONS)


@wanted(Operation.READ)
def read_entry(cluster: Cluster, pipeline: str) -> LedgerEntry | None:
    """The last committed entry of a pipeline. Waits for transactions that are open in its partition.

    Fence the pipeline first if nobody may add an entry afterwards.
    """
    if not cluster.refresh([TOPIC], missing_ok=True):
        return None
    where, key = place(pipeline), pipeline.encode()
    end = latest(cluster, [where], Isolation.READ_UNCOMMITTED)[where]
    begin = earliest(cluster, [where])[where]
    # From the end backwards, because a sink may ask before every batch, and the last entry is near the end.
    count = TAIL_OFFSETS
    while begin < end:
        start = max(begin, end - count)
        found = _values(cluster, where, start, end)
        if key in found:
            value = found[key]
            return None if value is None else LedgerEntry.from_json(value)
        end, count = start, TAIL_GROWTH * count
    return None


@wanted(Operation.READ)
def pipelines_of(cluster: Cluster, query_id: str, batch_id: int) -> set[str]:
    """The pipelines whose last committed batch this is. Reads the whole ledger."""
    found = read_entries(cluster)
    return {
        name
        for name, entry in found.items()
        if isinstance(entry, LedgerEntry) and (entry.query_id, entry.batch_id) == (query_id, batch_id)
    }


@wanted(Operation.READ)
def read_entries(cluster: Cluster) -> dict[str, LedgerEntry | FencepostError]:
    """The last committed entry of every pipeline, or why it cannot be read. Waits for no transaction."""
    if not cluster.refresh([TOPIC], missing_ok=True):
        return {}
    places = [TopicPartition(TOPIC, index) for index in cluster.topic(TOPIC).partitions]
    found: dict[str, LedgerEntry | FencepostError] = {}
    for where, end in latest(cluster, places, Isolation.READ_COMMITTED).items():
        for key, value in _values(cluster, where, earliest(cluster, [where])[where], end).items():
            if value is None:
                continue
            try:
                found[key.decode(errors="replace")] = LedgerEntry.from_json(value)
            except (Malformed, Unsupported) as error:
                found[key.decode(errors="replace")] = error
    return found


class Noted(NamedTuple):
    """An entry of the past, and the transaction that wrote it."""

    entry: LedgerEntry
    producer_id: int  #: with the epoch it identifies the transaction: an epoch is used for one
    epoch: int


@wanted(Operation.READ)
def read_history(cluster: Cluster, pipeline: str) -> list[Noted]:
    """The committed entries that compaction has left, oldest first. Waits for no transaction.

    Compaction keeps the last entry before some offset and all after it: if an entry is there, so are all later ones.
    """
    if not cluster.refresh([TOPIC], missing_ok=True):
        return []
    where, key = place(pipeline), pipeline.encode()
    start, end = earliest(cluster, [where])[where], latest(cluster, [where])[where]
    found: list[Noted] = []
    for batch in scan_batches(cluster, where, start, end):
        if batch.content is not Content.RECORDS:
            continue
        for record in batch.records():
            if record.key == key and record.value is None:
                found.clear()  # the pipeline was deleted
            elif record.key == key and record.value is not None:
                entry = LedgerEntry.from_json(record.value)
                found.append(Noted(entry, batch.header.producer_id, batch.header.producer_epoch))
    return found


def _values(cluster: Cluster, where: TopicPartition, start: int, end: int) -> dict[bytes, bytes | None]:
    """The last value of each key from `start` to `end`; None if it was deleted there."""
    found: dict[bytes, bytes | None] = {}
    for record in read_records(cluster, where, start, end):
        if record.key is not None:
            found[record.key] = record.value
    return found


def blob(pipeline: str, entry: LedgerEntry | None) -> Buffer:
    """The entry as a finished record batch, for the partition that `place` names. None removes the pipeline's."""
    value = None if entry is None else entry.to_json()
    return encode_batch([Record(pipeline.encode(), value, time.time_ns() // 1_000_000)])
