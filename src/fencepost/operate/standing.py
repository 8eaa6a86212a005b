"""How far a pipeline has come, as Kafka holds it, for people who look at it.

Invariant: reading changes nothing and waits for no transaction, so it can be done while the pipeline runs. Then group
and ledger may be read a commit apart. Who wants to act on it fences the pipeline first.
"""

import enum
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fencepost.client.cluster import Cluster
from fencepost.client.groups import CommittedOffset, Pending, committed_offsets
from fencepost.client.identity import MADE_UP_IDS
from fencepost.client.transaction_state import describe_producers, describe_transaction, list_transactional_ids
from fencepost.errors import ClientError, FencepostError, NotAuthorized, UnknownPipeline, Unsupported
from fencepost.operate.activity import Activity, Owner, judge, words
from fencepost.spark import ledger
from fencepost.spark.ledger import LedgerEntry, Reached
from fencepost.spark.naming import PREFIX, transactional_id_of
from fencepost.spark.topic_identity import Identity, identities, is_other
from fencepost.wire.terms import TopicPartition


class Topic(enum.StrEnum):
    """A topic that the pipeline reads, as this cluster has it."""

    HERE = "here"
    MISSING = "missing"  #: deleted, or on another cluster
    REPLACED = "replaced"  #: deleted and created again: the pipeline's offsets mean nothing in it


@dataclass(frozen=True, slots=True)
class Standing:
    name: str
    now_ms: int
    owner: Owner
    entry: LedgerEntry | None = None
    group: Mapping[TopicPartition, CommittedOffset] = field(default_factory=dict)
    topics: Mapping[str, Topic] = field(default_factory=dict)  #: those that it reads
    identities: Mapping[str, Identity] = field(default_factory=dict)  #: of those that are here

    @property
    def entry_ms(self) -> int | None:
        return self.entry.time_ms or None if self.entry is not None else None

    @property
    def is_resting(self) -> bool:
        """Whether its last transaction was a reset, after which nobody has taken the id: then it does not run."""
        found = self.owner.transaction
        return (
            self.entry is not None
            and self.entry.reset is not None
            and found is not None
            and found.state == "CompleteCommit"
        )

    @property
    def activity(self) -> Activity:
        if self.is_resting:
            return Activity.QUIET
        return judge(self.owner, self.entry_ms, self.now_ms)

    @property
    def activity_words(self) -> str:
        if self.is_resting:
            return "no: it was reset, and has not been started since"
        return words(self.activity, self.owner, self.entry_ms, self.now_ms)

    @property
    def committed(self) -> dict[TopicPartition, Reached]:
        """As the sink sees it: the group's offsets override the ledger's, because a user may have set them."""
        found = {} if self.entry is None else dict(self.entry.reached)
        for where, each in self.group.items():
            if where not in found or min(found[where]) != each.offset:
                found[where] = frozenset({each.offset})
        return found

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The next offset to read; the lowest, if several sources read a partition."""
        return {where: min(reached) for where, reached in sorted(self.committed.items())}

    @property
    def set_by_hand(self) -> list[TopicPartition]:
        """Partitions whose group offset no sink has committed: somebody has set it with another tool."""
        if self.entry is None:
            return []
        return sorted(
            where
            for where, each in self.group.items()
            if not ledger.is_note(each.metadata) and self.entry.offsets.get(where) != each.offset
        )


def read(cluster: Cluster, name: str, pending: Pending = Pending.IGNORE) -> Standing:
    """Raises UnknownPipeline if the cluster has nothing of it."""
    entry = ledger.read_entries(cluster).get(name) if pending is Pending.IGNORE else ledger.read_entry(cluster, name)
    if isinstance(entry, FencepostError):
        raise entry
    group = committed_offsets(cluster, name, None, pending)
    owner = read_owner(cluster, name)
    is_ours = any(ledger.is_note(each.metadata) for each in group.values())
    has_begun = owner.transaction is not None and is_begun(owner.transaction.state)
    if entry is None and not has_begun and not is_ours:
        known = ", ".join(sorted(names(cluster))) or "none"
        raise UnknownPipeline(f"no pipeline {name!r} has written to this cluster; known are: {known}")
    return standing_of(cluster, name, owner, entry, group)


def standing_of(
    cluster: Cluster,
    name: str,
    owner: Owner,
    entry: LedgerEntry | None,
    group: Mapping[TopicPartition, CommittedOffset],
) -> Standing:
    was = {} if entry is None else entry.topics
    reads = {where.topic for where in group} | {where.topic for where in (entry.offsets if entry is not None else ())}
    now = identities(cluster, reads, hidden_ok=True)
    return Standing(
        name=name,
        now_ms=time.time_ns() // 1_000_000,
        owner=owner,
        entry=entry,
        group=group,
        topics={topic: _place(was.get(topic), now.get(topic)) for topic in sorted(reads)},
        identities=now,
    )


def names(cluster: Cluster, entries: Iterable[str] | None = None) -> set[str]:
    """All pipelines that the ledger or a transaction coordinator knows."""
    found = set(ledger.read_entries(cluster) if entries is None else entries)
    try:
        ids = list_transactional_ids(cluster)
    except Unsupported:
        ids = {}
    # Others are of batch queries, or of pipelines that were deleted.
    begun = {each for each, state in ids.items() if is_begun(state) and not each.startswith(MADE_UP_IDS)}
    return found | {each.removeprefix(PREFIX) for each in begun if each.startswith(PREFIX)}


def is_begun(state: str) -> bool:
    """Whether a pipeline without a ledger entry has begun, and was not deleted.

    It has not committed yet. Deleting one is a transaction that it has committed.
    """
    return state not in ("PrepareCommit", "CompleteCommit", "Dead")


def read_owner(cluster: Cluster, name: str) -> Owner:
    transactional_id = transactional_id_of(name)
    try:
        found = describe_transaction(cluster, transactional_id)
    except (NotAuthorized, Unsupported) as error:
        return Owner(transactional_id, hidden_because=str(error))
    last_ms = None
    if found is not None and cluster.refresh([ledger.TOPIC], missing_ok=True, hidden_ok=True):
        where = ledger.place(name)
        try:
            producers = describe_producers(cluster, [where])[where]
            last_ms = max(
                (each.last_write_ms or 0 for each in producers if each.producer_id == found.producer_id), default=0
            )
        except ClientError:  # the ledger's own time must do
            pass
    return Owner(transactional_id, found, last_write_ms=last_ms or None)


def _place(was: Identity | None, now: Identity | None) -> Topic:
    if now is None:
        return Topic.MISSING
    return Topic.REPLACED if is_other(was, now) else Topic.HERE
