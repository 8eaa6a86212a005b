"""The facts of a history: transactions and their outcomes, who saw what and when, and what was there in the end.

The checkers use nothing but `Facts`. This module decides what a client may conclude:

- *committed*: the client was told so.
- *aborted*: the client was told so, or it never sent a commit. Nobody else can commit for it.
- *unknown*: a commit was sent and not answered. Either outcome is right, if it is whole.
"""

import enum
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fencepost.lab.chaos.history import Function, Op, Status

READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"


class Partition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Place(NamedTuple):
    partition: Partition
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}@{self.offset}"


Rank = tuple[int, int, int]


class Outcome(enum.Enum):
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class Kind(enum.Enum):
    TRANSACTION = "transaction"
    SENDS = "sends"  #: single records: each is acknowledged, or unknown, on its own


@dataclass(frozen=True, slots=True)
class Write:
    value: str
    partition: Partition
    offset: int | None = None  #: as acknowledged
    key: str | None = None  #: used by one process only, on a compacted topic


@dataclass(frozen=True, slots=True)
class Input:
    """A record that a loop consumed in a transaction."""

    place: Place
    value: str


@dataclass(frozen=True, slots=True)
class Transaction:
    process: str
    incarnation: int
    number: int
    kind: Kind
    writes: tuple[Write, ...]
    outcome: Outcome
    invoked_ns: int
    commit_invoked_ns: int | None
    group: str | None
    offsets: Mapping[Partition, int]
    inputs: tuple[Input, ...]
    ops: tuple[Op, ...]

    def __str__(self) -> str:
        return f"{self.outcome.value} {self.kind.value} {self.process}.{self.incarnation}/{self.number}"

    def outcome_of(self, write: Write) -> Outcome:
        if self.kind is Kind.TRANSACTION:
            return self.outcome
        return Outcome.UNKNOWN if write.offset is None else Outcome.COMMITTED


@dataclass(frozen=True, slots=True)
class Read:
    """Records of one partition that a client got at once."""

    client: str
    isolation: str
    time_ns: int
    partition: Partition
    records: list[tuple[int, str]]
    op: Op


@dataclass(slots=True)
class Session:
    """One reader's way through one partition, from a position on, without a seek."""

    client: str
    isolation: str
    partition: Partition
    position: int
    reads: list[Read] = field(default_factory=list)


@dataclass(slots=True)
class Drain:
    """A whole partition, after everything was over."""

    reader: str
    isolation: str
    partition: Partition
    records: list[tuple[int, str]]
    op: Op


@dataclass(frozen=True, slots=True)
class Observation:
    """A group's committed offsets, as answered between two points in time."""

    group: str
    began_ns: int
    time_ns: int
    offsets: Mapping[Partition, int]
    op: Op


@dataclass(slots=True)
class Facts:
    transactions: list[Transaction] = field(default_factory=list)
    written: dict[str, tuple[Transaction, int]] = field(default_factory=dict)  #: value → who wrote it, as which write
    reads: list[Read] = field(default_factory=list)  #: of live readers and loops
    sessions: list[Session] = field(default_factory=list)
    drains: list[Drain] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    complaints: list[Op] = field(default_factory=list)  #: what was stuck or surprising

    def final(self, isolation: str) -> dict[Partition, list[tuple[int, str]]]:
        """What is there in the end for this isolation, as the first reader that drained it saw it."""
        found: dict[Partition, list[tuple[int, str]]] = {}
        for drain in self.drains:
            if drain.isolation == isolation:
                found.setdefault(drain.partition, drain.records)
        return found

    def visible(self) -> dict[str, Place]:
        """Every value that a read_committed reader finds in the end."""
        return {
            value: Place(partition, offset)
            for partition, records in self.final(READ_COMMITTED).items()
            for offset, value in records
        }

    def superseded(self) -> set[str]:
        """What compaction may have removed, because a later value of the same key is there in the end."""
        rank, visible = self.ranks(), self.visible()
        written: dict[tuple[str, Partition, str], list[tuple[Rank, str]]] = defaultdict(list)
        for transaction in self.transactions:
            for index, write in enumerate(transaction.writes):
                if write.key is not None:
                    place = transaction.process, write.partition, write.key
                    written[place].append((rank(transaction, index), write.value))
        found: set[str] = set()
        for values in written.values():
            last = max((entry for entry in values if entry[1] in visible), default=None)
            found.update(value for ranked, value in values if last is not None and ranked < last[0])
        return found

    def ranks(self) -> Callable[[Transaction, int], Rank]:
        """The order in which a process sent its writes, through all of its incarnations.

        Incarnations do not always fence each other in the order of their starts: one that was paused before
        `init_transactions` fences its successor when it wakes up. The order is that of their first transactions. An
        incarnation with a committed record began that transaction before the next fencing, and the next incarnation
        could begin only after it.
        """
        began_ns: dict[tuple[str, int], int] = {}
        for each in self.transactions:
            if each.kind is Kind.TRANSACTION:
                who = each.process, each.incarnation
                began_ns[who] = min(each.invoked_ns, began_ns.get(who, each.invoked_ns))

        def rank(transaction: Transaction, index: int) -> Rank:
            return began_ns.get((transaction.process, transaction.incarnation), 0), transaction.number, index

        return rank

    def everything_seen(self, isolation: str | None = None) -> Iterator[Read | Drain]:
        """All that anybody saw at any time, with this isolation or with any."""
        for read in self.reads:
            if isolation in (None, read.isolation):
                yield read
        for drain in self.drains:
            if isolation in (None, drain.isolation):
                yield drain

    def final_offsets(self) -> dict[str, Observation]:
        """The last observation of each group."""
        return {observation.group: observation for observation in self.observations}


def read_history(ops: Iterable[Op]) -> Facts:
    """`ops` in order of time."""
    facts = Facts()
    transactions: dict[tuple[str, int, str, int], list[Op]] = defaultdict(list)
    sessions: dict[tuple[str, int, Partition], Session] = {}
    drains: dict[tuple[str, str, Partition], Drain] = {}
    for op in ops:
        match op.function:
            case Function.TXN | Function.END | Function.SENDS:
                kind = Kind.SENDS if op.function is Function.SENDS else Kind.TRANSACTION
                transactions[op.process, op.incarnation, kind.name, op.data["number"]].append(op)
            case Function.SESSION:
                for topic, partition, offset in op.data["positions"]:
                    session = Session(op.client, op.data["isolation"], Partition(topic, partition), offset)
                    sessions[op.client, op.data["number"], session.partition] = session
                    facts.sessions.append(session)
            case Function.POLL:
                _add_poll(facts, sessions, op)
            case Function.COMMITTED:
                offsets = {Partition(topic, partition): offset for topic, partition, offset in op.data["offsets"]}
                facts.observations.append(Observation(op.data["group"], op.data["began"], op.time_ns, offsets, op))
            case Function.DRAIN:
                _add_drain(facts, drains, op)
            case Function.STUCK | Function.SURPRISE:
                facts.complaints.append(op)
            case Function.FAULT | Function.CHURN:
                pass
    for of_one in transactions.values():
        _add_transaction(facts, of_one)
    return facts


def _add_poll(facts: Facts, sessions: dict[tuple[str, int, Partition], Session], op: Op) -> None:
    for topic, partition, records in op.data["records"]:
        session = sessions[op.client, op.data["session"], Partition(topic, partition)]
        pairs = [(offset, value) for offset, value in records]
        read = Read(op.client, session.isolation, op.time_ns, session.partition, pairs, op)
        session.reads.append(read)
        facts.reads.append(read)


def _add_drain(facts: Facts, drains: dict[tuple[str, str, Partition], Drain], op: Op) -> None:
    partition = Partition(op.data["topic"], op.data["partition"])
    key = op.data["reader"], op.data["isolation"], partition
    if key not in drains:
        drains[key] = Drain(*key, [], op)
        facts.drains.append(drains[key])
    drains[key].records += [(offset, value) for offset, value in op.data["records"]]


def _add_transaction(facts: Facts, ops: list[Op]) -> None:
    invoked = next((op for op in ops if op.function is not Function.END and op.status is Status.INVOKE), None)
    if invoked is None:
        return
    data = invoked.data
    ended = next((op for op in ops if op.function is not Function.END and op.status is not Status.INVOKE), None)
    commit = next((op for op in ops if op.function is Function.END and op.data["how"] == "commit"), None)
    kind = Kind.SENDS if invoked.function is Function.SENDS else Kind.TRANSACTION
    keys: Sequence[str | None] = data.get("keys") or [None] * len(data["writes"])
    acked: Mapping[str, int] = ended.data.get("acked", {}) if ended else {}
    transaction = Transaction(
        process=invoked.process,
        incarnation=invoked.incarnation,
        number=data["number"],
        kind=kind,
        writes=tuple(
            Write(value, Partition(topic, where), acked.get(value), key)
            for (topic, where, value), key in zip(data["writes"], keys, strict=True)
        ),
        outcome=_outcome(kind, ended, commit),
        invoked_ns=invoked.time_ns,
        commit_invoked_ns=commit.time_ns if commit else None,
        group=data.get("group"),
        offsets={Partition(topic, where): offset for topic, where, offset in data.get("offsets", ())},
        inputs=tuple(_inputs(data.get("inputs", ()))),
        ops=tuple(ops),
    )
    facts.transactions.append(transaction)
    for index, write in enumerate(transaction.writes):
        facts.written[write.value] = transaction, index
    for entry in transaction.inputs:
        records = [(entry.place.offset, entry.value)]
        where = entry.place.partition
        facts.reads.append(Read(invoked.client, READ_COMMITTED, invoked.time_ns, where, records, invoked))


def _inputs(entries: Iterable[Any]) -> Iterator[Input]:
    for topic, partition, offset, value in entries:
        yield Input(Place(Partition(topic, partition), offset), value)


def _outcome(kind: Kind, ended: Op | None, commit: Op | None) -> Outcome:
    if kind is Kind.SENDS:
        return Outcome.UNKNOWN
    if ended is not None and ended.status is Status.OK:
        return Outcome.COMMITTED
    if commit is None or (ended is not None and ended.status is Status.FAIL):
        return Outcome.ABORTED
    return Outcome.UNKNOWN
