"""What must be true of every history, once everything has healed and every timeout is over."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.simulation.clients import PARTITIONS
from tests.simulation.members import Ownership
from tests.simulation.reader import Reader
from tests.simulation.writers import Outcome, Plain, Producer, Written


@dataclass
class Remains:
    """What is there at the end."""

    reader: Reader  #: has read everything
    offsets: list[int]  #: committed in transactions, by partition
    plain_offset: int
    generations: dict[int, int]  #: in which the members' offsets were committed, by partition
    topics: list[str]


def violations(
    producers: Sequence[Producer], plain: Plain, ownership: Ownership, follower: Reader, remains: Remains
) -> list[str]:
    """Empty when all is well. `follower` has looked on from the beginning."""
    written = [transaction for producer in producers for transaction in producer.written]
    final = remains.reader
    visible = _visible(final)
    return [
        *_last_stable_offsets(final),
        *_outcomes(written, visible),
        *_owners(producers, final, visible),
        *_offsets(producers, visible, remains.offsets),
        *_plain(plain, remains),
        *ownership.violations(remains.generations),
        *_followed(follower, final),
    ]


def _visible(reader: Reader) -> dict[str, dict[int, list[bytes]]]:
    """The values by transaction and partition, in their order."""
    found: dict[str, dict[int, list[bytes]]] = {}
    for partition, seen in enumerate(reader.seen):
        for value in _transactional(seen):
            found.setdefault(_transaction_of(value), {}).setdefault(partition, []).append(value)
    return found


def _transactional(seen: list[tuple[int, bytes]]) -> list[bytes]:
    return [value for _, value in seen if value.startswith(b"p")]


def _transaction_of(value: bytes) -> str:
    return value.decode().rsplit("/", 2)[0]


def _last_stable_offsets(final: Reader) -> Iterator[str]:
    for partition in range(PARTITIONS):
        if final.stable[partition] < 0:
            yield f"partition {partition} is gone"
        elif final.stable[partition] != final.high_watermarks[partition]:
            yield (
                f"partition {partition}: the last stable offset stays at {final.stable[partition]}, "
                f"the high watermark is {final.high_watermarks[partition]}"
            )


def _outcomes(written: Sequence[Written], visible: dict[str, dict[int, list[bytes]]]) -> Iterator[str]:
    """A committed transaction is visible, whole and once; one without a commit never is; no other is torn."""
    for transaction in written:
        found = visible.get(transaction.name)
        match transaction.outcome:
            case Outcome.COMMITTED:
                if found != transaction.values:
                    yield f"{transaction.name} is committed: {transaction.values}, but visible is {found}"
            case Outcome.COMMITTING:
                if found is not None and found != transaction.values:
                    yield f"{transaction.name} is torn: {transaction.values}, but visible is {found}"
            case _:
                if found is not None:
                    yield f"{transaction.name} is {transaction.outcome.value}, but visible is {found}"
    for name in visible.keys() - {transaction.name for transaction in written}:
        yield f"{name} was never written"


def _owners(producers: Sequence[Producer], final: Reader, visible: dict[str, dict[int, list[bytes]]]) -> Iterator[str]:
    """Once a successor has been told its epoch, its predecessor commits nothing more."""
    for producer in producers:
        for other in producers:
            if other.transactional_id != producer.transactional_id or other.epoch <= producer.epoch:
                continue
            for transaction in producer.written:
                if transaction.commit_sent_ms > other.initialised_ms and transaction.name in visible:
                    yield f"{transaction.name} was committed after {other.transactional_id}/{other.incarnation} began"
    epochs = {f"{producer.transactional_id}/{producer.incarnation}": producer.epoch for producer in producers}
    for partition, seen in enumerate(final.seen):
        last: dict[str, tuple[object, ...]] = {}
        for value in _transactional(seen):
            transactional_id, incarnation, *rest = value.decode().split("/")
            order = (epochs.get(f"{transactional_id}/{incarnation}"), *map(int, rest))
            if transactional_id in last and order <= last[transactional_id]:
                yield f"partition {partition}: {value!r} comes after {last[transactional_id]}"
            last[transactional_id] = order


def _offsets(
    producers: Sequence[Producer], visible: dict[str, dict[int, list[bytes]]], committed: Sequence[int]
) -> Iterator[str]:
    """The group's offsets are those of the last transactions that are visible."""
    expected: dict[int, int] = {}
    for producer in sorted(producers, key=lambda producer: producer.epoch):
        for transaction in producer.written:
            if transaction.offset is not None and transaction.name in visible:
                expected[producer.index] = transaction.offset
    for index, offset in enumerate(committed):
        if offset != expected.get(index, -1):
            yield f"the offset of partition {index} is {offset}; the visible transactions say {expected.get(index)}"


def _plain(plain: Plain, remains: Remains) -> Iterator[str]:
    """What was acknowledged without a transaction is there, once, in order."""
    found = [value for _, value in remains.reader.seen[plain.PARTITION] if value.startswith(b"w")]
    if found != plain.values:
        yield f"acknowledged was {plain.values}, there is {found}"
    # A late repetition of an older commit may take the offset back: nothing in a plain commit could tell.
    if plain.offsets and remains.plain_offset not in plain.offsets:
        yield f"committed was {plain.offsets}, there is {remains.plain_offset}"
    if missing := [name for name in plain.topics if name not in remains.topics]:
        yield f"the topics {missing} are gone"


def _followed(follower: Reader, final: Reader) -> Iterator[str]:
    """What a reader was once shown stays so, whatever crashed since."""
    for partition in range(PARTITIONS):
        position = follower.positions[partition]
        expected = [entry for entry in final.seen[partition] if entry[0] < position]
        if follower.seen[partition] != expected:
            yield f"partition {partition}: shown was {follower.seen[partition]}, there is {expected}"
