"""What clients did and were told, and the judgement over it. Knows only what was seen from outside.

Workers write a `History` while the broker is being killed. When it is healed and drained, `Final` is what is really
there, and `anomalies` compares the two. The names of the anomalies are those of Jepsen's tests of Kafka where it has
one: lost write, duplicate, aborted read, precommitted read, torn transaction, inconsistent offset, non-monotonic poll,
skipped poll, reordered, unexpected value, wrong committed offset, not copied exactly once.

Every value is written once by one writer, so a value names its write. A writer's values are numbered: `NAME:NUMBER`.
"""

import enum
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

Partition = tuple[str, int]


class Outcome(enum.Enum):
    """What the client was told about its transaction."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Write:
    value: str
    partition: Partition
    offset: int | None = None  #: where the broker said that it put it


@dataclass(frozen=True, slots=True)
class Transaction:
    writer: str
    writes: tuple[Write, ...]
    outcome: Outcome
    group: str | None = None  #: a group of this writer alone, whose offset ...
    group_offset: int = -1  #: ... is raised by every transaction


@dataclass(frozen=True, slots=True)
class Copier:
    """A group that copies every record of a topic to another one, offsets inside the transactions."""

    group: str
    source: str
    target: str
    prefix: str = "copy of "


@dataclass(frozen=True, slots=True)
class Seen:
    """One read_committed reader's sequence of records on one partition, from one position on without a jump."""

    reader: str
    partition: Partition
    records: list[tuple[int, str]]


@dataclass(slots=True)
class History:
    transactions: list[Transaction] = field(default_factory=list)
    acknowledged: list[Write] = field(default_factory=list)  #: outside of transactions
    unacknowledged: list[Write] = field(default_factory=list)  #: the same, without an answer: may be there once or not
    copiers: list[Copier] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    surprises: list[str] = field(default_factory=list)  #: answers that no client may get
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def ended(self, transaction: Transaction) -> None:
        with self._lock:
            self.transactions.append(transaction)

    def surprise(self, text: str) -> None:
        with self._lock:
            self.surprises.append(text)


@dataclass(frozen=True, slots=True)
class Final:
    """What is there in the end: (offset, value) per partition for both kinds of reader, and committed offsets."""

    committed: Mapping[Partition, list[tuple[int, str]]]
    uncommitted: Mapping[Partition, list[tuple[int, str]]]
    group_offsets: Mapping[tuple[str, Partition], int]


def anomalies(history: History, final: Final) -> list[str]:
    """Everything that must not be, in words; empty when all is well."""
    visible = {value: (where, offset) for where, records in final.committed.items() for offset, value in records}
    return [
        *(f"surprise: {text}" for text in history.surprises),
        *_duplicates(final),
        *_unexpected_values(history, final),
        *_plain_writes(history, final, visible),
        *_transactions(history, visible),
        *_order(final),
        *_group_offsets(history, final, visible),
        *_readers(history, final),
        *_copies(history, final),
    ]


def _duplicates(final: Final) -> Iterator[str]:
    for kind, view in (("read_committed", final.committed), ("read_uncommitted", final.uncommitted)):
        counts = Counter(value for records in view.values() for _, value in records)
        for value, count in counts.items():
            # A copy that was aborted is made again: only committed ones must be single.
            if count > 1 and not (kind == "read_uncommitted" and value.startswith("copy of ")):
                yield f"duplicate: {value} is there {count} times for a {kind} reader"


def _unexpected_values(history: History, final: Final) -> Iterator[str]:
    known = {write.value: write.partition for write in _all_writes(history)}
    copied_to = {copier.target for copier in history.copiers}
    for where, records in final.uncommitted.items():
        if where[0] in copied_to:
            continue
        for offset, value in records:
            if known.get(value) != where:
                yield f"unexpected value: {value} at {_place(where, offset)} was never written there"


def _plain_writes(history: History, final: Final, visible: Mapping[str, tuple[Partition, int]]) -> Iterator[str]:
    for write in history.acknowledged:
        found = visible.get(write.value)
        if found is None:
            yield f"lost write: {write.value} was acknowledged at {_place(write.partition, write.offset)} and is gone"
        elif write.offset is not None and found[1] != write.offset:
            yield f"inconsistent offset: {write.value} was acknowledged at {write.offset} and is at {found[1]}"


def _transactions(history: History, visible: Mapping[str, tuple[Partition, int]]) -> Iterator[str]:
    for transaction in history.transactions:
        there = [write for write in transaction.writes if write.value in visible]
        count = f"{len(there)} of {len(transaction.writes)}"
        name = f"{transaction.writer} {[write.value for write in transaction.writes]}"
        if transaction.outcome is Outcome.COMMITTED and len(there) < len(transaction.writes):
            yield f"lost write: {count} writes are left of committed transaction {name}"
        elif transaction.outcome is Outcome.ABORTED and there:
            yield f"aborted read: {count} writes are visible of aborted transaction {name}"
        elif there and len(there) < len(transaction.writes):
            yield f"torn transaction: {count} writes are visible of {name}"
        for write in there:
            if write.offset is not None and visible[write.value][1] != write.offset:
                yield (
                    f"inconsistent offset: {write.value} was acknowledged at {write.offset} "
                    f"and is at {visible[write.value][1]}"
                )


def _order(final: Final) -> Iterator[str]:
    for where, records in final.committed.items():
        last: dict[str, int] = {}
        last_offset = -1
        for offset, value in records:
            if offset <= last_offset:
                yield f"inconsistent offset: {offset} follows {last_offset} in {where}"
            last_offset = offset
            writer, _, number = value.rpartition(":")
            if number.isdigit():
                if int(number) <= last.get(writer, -1) and not writer.startswith("copy of "):
                    yield f"reordered: {value} comes after number {last[writer]} in {where}"
                last[writer] = int(number)


def _group_offsets(history: History, final: Final, visible: Mapping[str, tuple[Partition, int]]) -> Iterator[str]:
    """The offset must be that of the writer's last transaction that took effect: records and offsets are one."""
    last: dict[str, int] = {}
    for transaction in history.transactions:
        if transaction.group is None:
            continue
        took_effect = transaction.outcome is Outcome.COMMITTED or any(w.value in visible for w in transaction.writes)
        last.setdefault(transaction.group, -1)
        if took_effect:
            last[transaction.group] = transaction.group_offset
    for (group, where), offset in final.group_offsets.items():
        if group in last and offset != last[group]:
            yield f"wrong committed offset: {group} has {offset} for {where}, its last transaction says {last[group]}"


def _readers(history: History, final: Final) -> Iterator[str]:
    for seen in history.seen:
        there = dict(final.committed[seen.partition])
        last = None
        for offset, value in seen.records:
            if last is not None and offset <= last:
                yield f"non-monotonic poll: {seen.reader} got {_place(seen.partition, offset)} after {last}"
            last = offset
            if offset not in there:
                yield f"precommitted read: {seen.reader} got {value} at {_place(seen.partition, offset)}, not there now"
            elif there[offset] != value:
                yield (
                    f"inconsistent offset: {seen.reader} got {value} at {_place(seen.partition, offset)}, "
                    f"where {there[offset]} is"
                )
        if seen.records:
            first = seen.records[0][0]
            got = {offset for offset, _ in seen.records}
            missed = [o for o in there if first <= o <= (last or first) and o not in got]
            if missed:
                yield f"skipped poll: {seen.reader} missed {len(missed)} from {_place(seen.partition, missed[0])} on"


def _copies(history: History, final: Final) -> Iterator[str]:
    for copier in history.copiers:
        copied = Counter(
            value.removeprefix(copier.prefix)
            for (topic, _), records in final.committed.items()
            if topic == copier.target
            for _, value in records
        )
        for where, records in final.committed.items():
            if where[0] != copier.source:
                continue
            position = final.group_offsets.get((copier.group, where), -1)
            for offset, value in records:
                wanted = 1 if offset < position else 0
                if copied[value] != wanted:
                    yield (
                        f"not copied exactly once: {value} at {_place(where, offset)} has {copied[value]} copies, "
                        f"{copier.group} is at {position}"
                    )


def _all_writes(history: History) -> Iterator[Write]:
    yield from history.acknowledged
    yield from history.unacknowledged
    for transaction in history.transactions:
        yield from transaction.writes


def _place(where: Partition, offset: int | None) -> str:
    return f"{where[0]}-{where[1]}@{offset}"
