"""Writing dead letters again, each once: in transactions that also note what was replayed (`replayed`).

A replay that dies leaves whole transactions. The next one fences it, reads what was replayed, and continues. One that
waits for the outcome of its commit in vain says so; the next one finds out.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from fencepost.client.cluster import Cluster
from fencepost.client.shapes import TopicShape, shapes_of
from fencepost.client.transaction import SharedTransaction
from fencepost.client.writing import TransactionWriter
from fencepost.dead_letters import reading, replayed
from fencepost.dead_letters.judge import Obstacle, Ready, judge
from fencepost.dead_letters.letter import Letter
from fencepost.dead_letters.reading import Selection
from fencepost.dead_letters.replayed import Replayed
from fencepost.errors import ConfigError, Fenced, FencepostError, OutcomeUnknown
from fencepost.wire.compression import Compression
from fencepost.wire.records import encode_batch
from fencepost.wire.terms import TopicPartition

#: With the name of the topic: the transactional id.
ID_PREFIX = "fencepost-replay-"
#: One transaction has at most so many letters and bytes, more or less.
LETTERS_MAX, BYTES_MAX = 1000, 4 << 20


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be replayed."""

    topic: str  #: of the dead letters
    to: str | None = None  #: a topic for all of them, instead of their own
    selection: Selection = field(default_factory=Selection)
    again: bool = False  #: also what was replayed before


@dataclass(slots=True)
class Outcome:
    """How many letters went where, and what became of the others."""

    written: Counter[str] = field(default_factory=Counter)  #: by topic
    before: int = 0  #: replayed before
    left: Counter[Obstacle] = field(default_factory=Counter)  #: cannot be written again
    transactions: int = 0


def preview(cluster: Cluster, order: Order) -> Outcome:
    """What a replay would do now. Writes nothing and disturbs nobody."""
    outcome = Outcome()
    for ready in _ready(cluster, order, replayed.read(cluster, order.topic), outcome):
        outcome.written[ready.where.topic] += 1
    return outcome


def replay(cluster: Cluster, order: Order, committed: Callable[[Outcome], None] = lambda outcome: None) -> Outcome:
    """`committed` is called after every transaction. A replay of the same topic elsewhere is fenced."""
    if order.to == order.topic:
        raise ConfigError(f"--to {order.to}: these letters are in that topic. Name the one that they should go to")
    reading.ranges(cluster, order.topic)  # raises if it does not exist
    replayed.ensure(cluster, order.topic)
    transaction = SharedTransaction(cluster, ID_PREFIX + order.topic)
    transaction.init()
    noted, outcome = replayed.read(cluster, order.topic), Outcome()
    for some in _transactions(_ready(cluster, order, noted, outcome)):
        _write(cluster, transaction, order.topic, noted, some)
        outcome.written.update(ready.where.topic for ready in some)
        outcome.transactions += 1
        committed(outcome)
    return outcome


def _ready(cluster: Cluster, order: Order, noted: Replayed, outcome: Outcome) -> Iterator[Ready]:
    """The letters to be written, as records; the others are counted."""
    shapes: dict[str, TopicShape] = {}
    asked: set[str] = set()
    for letter in reading.letters(cluster, order.topic, order.selection):
        if letter in noted and not order.again:
            outcome.before += 1
            continue
        topic = order.to or letter.topic
        if topic is not None and topic not in asked:
            asked.add(topic)
            shapes |= shapes_of(cluster, [topic])
        found = judge(letter, order.to, shapes, _now_ms())
        if isinstance(found, Obstacle):
            outcome.left[found] += 1
        else:
            yield found


def _transactions(found: Iterable[Ready]) -> Iterator[list[Ready]]:
    some: list[Ready] = []
    size = 0
    for ready in found:
        if some and (len(some) >= LETTERS_MAX or size + ready.size > BYTES_MAX):
            yield some
            some, size = [], 0
        some.append(ready)
        size += ready.size
    if some:
        yield some


def _write(cluster: Cluster, transaction: SharedTransaction, topic: str, noted: Replayed, some: list[Ready]) -> None:
    identity = transaction.begin()
    try:
        with TransactionWriter(cluster, identity) as writer:
            for where, batch in _batches(some):
                writer.write(where, batch)
            for record in noted.add(_letters(some), _now_ms()):
                writer.write(replayed.place(topic), encode_batch([record]))
        transaction.commit()
    except OutcomeUnknown as error:
        raise OutcomeUnknown(f"{error}. Run the same replay again: it finds out, and writes nothing twice") from None
    except Fenced:
        raise Fenced(f"another replay of topic {topic!r} has taken over. Let it end, then look again") from None
    except FencepostError:
        if transaction.is_open:
            transaction.abort()
        raise


def _letters(some: Iterable[Ready]) -> list[Letter]:
    return [ready.letter for ready in some]


def _batches(some: Iterable[Ready]) -> Iterator[tuple[TopicPartition, bytearray]]:
    """In the order of letters within each partition."""
    by_place: dict[TopicPartition, list[Ready]] = {}
    for ready in some:
        by_place.setdefault(ready.where, []).append(ready)
    for where, here in by_place.items():
        for batch in _cut(here):
            yield where, encode_batch([ready.record for ready in batch], compression=batch[0].compression)


def _cut(here: Iterable[Ready]) -> Iterator[list[Ready]]:
    """Batches of one partition. A record that has to be compressed to be small enough stays alone."""
    batch: list[Ready] = []
    size = 0  # as batches of their own; together they are smaller
    for ready in here:
        is_alone = Compression.NONE is not ready.compression or (batch and batch[0].compression is not Compression.NONE)
        if batch and (is_alone or size + ready.size > ready.batch_bytes_max):
            yield batch
            batch, size = [], 0
        batch.append(ready)
        size += ready.size
    if batch:
        yield batch


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
