"""Moving a pipeline: fence it, then set group, ledger and state in one transaction.

Invariants: nothing is changed before the pipeline's transactional id was taken from its owner, so nobody can commit in
between. Offsets, ledger entry and changes of state are committed together or not at all. A live pipeline is refused its
next write. The old checkpoint is refused by `spark.sink.decide`, because the ledger entry says that it was a reset.
"""

import contextlib
import enum
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from fencepost.client.cluster import Cluster
from fencepost.client.groups import CommittedOffset, Pending
from fencepost.client.offsets import earliest, latest
from fencepost.client.transaction import SharedTransaction
from fencepost.client.writing import TransactionWriter
from fencepost.errors import ChangeRefused, ErrorCode, Fenced, FencepostError, OutcomeUnknown, Refused
from fencepost.observe.counting import BYTES_MAX, Counter
from fencepost.operate import rewinding
from fencepost.operate.rewinding import Changes
from fencepost.operate.standing import Standing, Topic, read
from fencepost.operate.target import Target, ToBatch, index_of, resolve
from fencepost.spark import ledger
from fencepost.spark.ledger import ChangelogEntry, LedgerEntry, Noted, Reset
from fencepost.spark.naming import changelog_name, transactional_id_of
from fencepost.spark.topic_identity import identity_of, is_other
from fencepost.wire.records import encode_batch
from fencepost.wire.terms import Isolation, TopicPartition

#: The transaction is open only while it is written. A cluster may allow less (`transaction.max.timeout.ms`).
TIMEOUTS_MS = (900_000, 60_000)


class StateChoice(enum.StrEnum):
    KEEP = "keep"  #: right only if no record is read twice
    DROP = "drop"
    RESTORE = "restore"


@dataclass(frozen=True, slots=True)
class Move:
    where: TopicPartition
    was: int | None  #: None if the pipeline has no valid offset there
    to: int
    records: int = 0  #: that are read again, or never
    is_exact: bool = True  #: else an upper bound
    is_back: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    standing: Standing
    to: str  #: as the user wrote it
    moves: Sequence[Move]
    state: StateChoice | None  #: None without state
    restored: Noted | None = None  #: the entry whose state is restored
    later: frozenset[rewinding.Writer] = frozenset()  #: the transactions after it
    changes: Mapping[TopicPartition, Changes] = field(default_factory=dict)

    @property
    def keys_changed(self) -> int:
        return sum(len(each) for each in self.changes.values())


def make_plan(cluster: Cluster, standing: Standing, to: str, target: Target, state: StateChoice | None) -> Plan:
    """What a reset would do. Changes nothing. Raises ChangeRefused if it would do harm."""
    history = ledger.read_history(cluster, standing.name)
    offsets = resolve(cluster, target, standing, history)
    moves = _moves(cluster, standing, offsets)
    chosen = choose_state(standing.entry, moves, state)
    plan = Plan(standing, to, moves, chosen)
    if chosen is StateChoice.RESTORE:
        candidates = range(len(history))
        if isinstance(target, ToBatch):
            candidates = range(index := index_of(target.batch_id, history, standing.name), index + 1)
        found = find_boundary(history, candidates, {**standing.positions, **offsets}, standing)
        later = frozenset((each.producer_id, each.epoch) for each in history[found + 1 :])
        plan = replace(plan, restored=history[found], later=later)
    return plan


def with_changes(cluster: Cluster, plan: Plan, isolation: Isolation) -> Plan:
    """The plan with the records for the changelogs, which are all read for it. Raises ChangeRefused."""
    changes: dict[TopicPartition, Changes] = {}
    changelogs = {} if plan.standing.entry is None else plan.standing.entry.changelogs
    for step, remembered in sorted(changelogs.items()):
        topic = changelog_name(plan.standing.name, step)
        found = cluster.refresh([topic], missing_ok=True).get(topic)
        if plan.state is StateChoice.DROP and found is not None:
            changes |= rewinding.drop(cluster, topic, isolation)
        elif plan.state is StateChoice.RESTORE:
            same = found is not None and len(found.partitions) == remembered.partitions
            if found is None or not same or is_other(remembered.topic, identity_of(found)):
                raise ChangeRefused(f"topic {topic!r} held the state and is gone or changed. Nothing was changed")
            changes |= rewinding.restore(cluster, topic, isolation, plan.later)
    return replace(plan, changes=changes)


def reset(
    cluster: Cluster, name: str, to: str, target: Target, state: StateChoice | None, *, even_if_alive: bool
) -> Plan:
    """Returns what was done. Raises ChangeRefused, and then nothing was changed."""
    standing = read(cluster, name)
    refuse_alive(standing, even_if_alive=even_if_alive)
    checked = make_plan(cluster, standing, to, target, state)
    if checked.state is StateChoice.RESTORE:
        with_changes(cluster, checked, Isolation.READ_COMMITTED)  # may refuse: better before it is fenced
    transaction = take_over(cluster, name)
    standing = read(cluster, name, Pending.AWAIT)
    plan = with_changes(cluster, make_plan(cluster, standing, to, target, state), Isolation.READ_UNCOMMITTED)
    entry = entry_of(cluster, plan, str(uuid.uuid4()))
    _commit(cluster, transaction, plan, entry)
    return plan


def refuse_alive(standing: Standing, *, even_if_alive: bool) -> None:
    if standing.activity.is_alive and not even_if_alive:
        raise ChangeRefused(
            f"pipeline {standing.name!r} seems to run: {standing.activity_words}. Stop it and wait half a minute; or "
            "use --force, which fences it: its next write is refused, and its query ends with an error. Nothing was "
            "changed"
        )


def take_over(cluster: Cluster, name: str) -> SharedTransaction:
    """Fence the pipeline."""
    for timeout_ms in TIMEOUTS_MS:
        transaction = SharedTransaction(cluster, transactional_id_of(name), timeout_ms=timeout_ms)
        try:
            transaction.init()
            break
        except Refused as error:
            if error.code is not ErrorCode.INVALID_TRANSACTION_TIMEOUT or timeout_ms == TIMEOUTS_MS[-1]:
                raise
    return transaction


def _moves(cluster: Cluster, standing: Standing, offsets: Mapping[TopicPartition, int]) -> list[Move]:
    counter = Counter(cluster, BYTES_MAX)
    begins, ends = earliest(cluster, offsets), latest(cluster, offsets)
    moves: list[Move] = []
    for where, to in sorted(offsets.items()):
        reached = standing.committed.get(where)
        if reached is None or standing.topics.get(where.topic) is Topic.REPLACED:
            moves.append(Move(where, None, to))
            continue
        was, furthest = min(reached), max(reached)
        first, last = max(begins[where], min(was, to)), min(ends[where], max(was, to))
        count = counter.count(where, first, last)
        moves.append(Move(where, was, to, count.records, count.is_exact, is_back=to < furthest))
    return moves


def choose_state(entry: LedgerEntry | None, moves: Sequence[Move], wanted: StateChoice | None) -> StateChoice | None:
    """Pure. Raises ChangeRefused if state and offsets would not fit."""
    if entry is None or not entry.changelogs:
        return None
    is_back = any(move.is_back for move in moves)
    if wanted is StateChoice.KEEP or (wanted is None and not is_back):
        if is_back:
            raise ChangeRefused(
                "the pipeline has state, and records that it has counted would be counted again: --state keep is only "
                "possible if no partition moves back. Nothing was changed"
            )
        return StateChoice.KEEP
    if wanted is None:
        raise ChangeRefused(
            f"the pipeline has state ({', '.join(sorted(entry.changelogs))}), which holds the records that would be "
            "read again: its totals would count them twice. Say what becomes of it: --state drop empties it, and it is "
            "built again from the new start; --state restore sets it back to what it was there, if that is the end of "
            "a batch that the ledger still has (--to batch:N). Nothing was changed"
        )
    return wanted


def find_boundary(
    history: Sequence[Noted], candidates: range, offsets: Mapping[TopicPartition, int], standing: Standing
) -> int:
    """The last of the candidates that stands at these offsets, as an index into `history`. Pure.

    Raises ChangeRefused if there is none, or if it does not stand for one state.
    """
    for index in reversed(candidates):
        entry = history[index].entry
        same_topics = not any(is_other(entry.topics.get(name), now) for name, now in standing.identities.items())
        if dict(entry.offsets) == dict(offsets) and same_topics:
            if entry.ahead or entry.is_unfinished:
                raise ChangeRefused(
                    f"after batch {entry.batch_id} several sources stood at different offsets, or a part of the batch "
                    "was missing: its state does not belong to one position. Nothing was changed"
                )
            return index
    kept = ", ".join(dict.fromkeys(str(each.entry.batch_id) for each in history if each.entry.reset is None))
    raise ChangeRefused(
        "state can be restored only as it was after a batch, and no batch that the ledger still has ended at these "
        f"offsets. It has batches {kept or '(none)'}: use --to batch:N; `fencepost pipeline describe "
        f"{standing.name} --history` shows their times and offsets. Nothing was changed"
    )


def entry_of(cluster: Cluster, plan: Plan, reset_id: str) -> LedgerEntry:
    """The ledger entry of a reset."""
    standing, was = plan.standing, plan.standing.entry
    before = Reset("", -1, plan.to)
    if was is not None:
        done = was.reset or Reset(was.query_id, was.batch_id, plan.to)
        before = replace(done, to=plan.to)
    return LedgerEntry(
        query_id=reset_id,
        batch_id=-1,
        offsets={**standing.positions, **{move.where: move.to for move in plan.moves}},
        changelogs=_changelogs(cluster, plan, reset_id),
        topics={**(was.topics if was is not None else {}), **standing.identities},
        in_checkpoint=frozenset() if was is None else was.in_checkpoint,
        reset=before,
    )


def _changelogs(cluster: Cluster, plan: Plan, reset_id: str) -> dict[str, ChangelogEntry]:
    """A changelog that is gone is forgotten if its state is dropped: the next start makes a new one."""
    found: dict[str, ChangelogEntry] = {}
    was = {} if plan.standing.entry is None else plan.standing.entry.changelogs
    for step, remembered in was.items():
        now = cluster.refresh([topic := changelog_name(plan.standing.name, step)], missing_ok=True).get(topic)
        if plan.state is StateChoice.KEEP:
            found[step] = remembered
        elif now is not None:
            found[step] = ChangelogEntry(len(now.partitions), identity_of(now), reset_id)
    return found


def _commit(cluster: Cluster, transaction: SharedTransaction, plan: Plan, entry: LedgerEntry) -> None:
    name = plan.standing.name
    note = ledger.note(entry.query_id, 0)
    here = {name for name, topic in plan.standing.topics.items() if topic is not Topic.MISSING}
    offsets = {where: CommittedOffset(offset, note) for where, offset in entry.offsets.items() if where.topic in here}
    try:
        identity = transaction.begin()
        now_ms = time.time_ns() // 1_000_000
        with TransactionWriter(cluster, identity) as writer:
            for where, changes in plan.changes.items():
                for records in rewinding.in_batches(changes, now_ms):
                    writer.write(where, encode_batch(records))
            writer.flush()
            writer.write(ledger.place(name), ledger.blob(name, entry))  # last: other pipelines wait for it
        transaction.add_offsets(name, offsets)
        commit(cluster, transaction, name, entry)
    except Fenced:
        if transaction.is_overdue:
            raise ChangeRefused(
                f"writing the state took {transaction.open_for_s:.0f} s, longer than the cluster lets a transaction be "
                "open. Nothing was changed. Raise the broker's transaction.max.timeout.ms, to 15 minutes at most"
            ) from None
        raise ChangeRefused(
            f"pipeline {name!r} runs, and has taken its transactional id back. Nothing was changed. Stop it first"
        ) from None
    finally:
        if transaction.is_open:
            with contextlib.suppress(FencepostError):  # then its timeout ends it, or the pipeline's next start
                transaction.abort()


def commit(cluster: Cluster, transaction: SharedTransaction, name: str, entry: LedgerEntry | None) -> None:
    """Commit, and find out the outcome if it is unknown: then the last ledger entry is this one, or not."""
    try:
        transaction.commit()
    except OutcomeUnknown as unknown:
        try:
            transaction.reclaim()
            found = ledger.read_entry(cluster, name)
        except FencepostError as error:
            raise OutcomeUnknown(f"{unknown}; then {error}. Look at the pipeline before you try again") from None
        if found != entry:
            raise ChangeRefused(f"the commit failed, and pipeline {name!r} is as it was. Try again") from None
