"""Agreement: an offset holds the same record for every reader at every time, and it is the one the producer was told.

A record that was seen is there in the end: nothing is taken back. Readers of different libraries that drain a
partition see the same.
"""

from collections.abc import Iterator

from fencepost.lab.chaos.anomaly import Anomaly, Kind
from fencepost.lab.chaos.facts import READ_UNCOMMITTED, Drain, Facts, Place, Read


def check(facts: Facts) -> Iterator[Anomaly]:
    held: dict[Place, tuple[str, Read | Drain]] = {}
    for seen in facts.everything_seen():
        for offset, value in seen.records:
            place = Place(seen.partition, offset)
            other = held.setdefault(place, (value, seen))
            if other[0] != value:
                text = f"{place} holds {other[0]} for {other[1].op.client} and {value} for {seen.op.client}"
                yield Anomaly(Kind.INCONSISTENT_OFFSET, text, (other[1].op, seen.op))
            yield from _where_it_was_acknowledged(facts, place, value, seen)
    yield from _nothing_is_taken_back(facts)
    yield from _drains_agree(facts)


def _where_it_was_acknowledged(facts: Facts, place: Place, value: str, seen: Read | Drain) -> Iterator[Anomaly]:
    writer = facts.written.get(value)
    if writer is None:
        return
    offset = writer[0].writes[writer[1]].offset
    if offset is not None and offset != place.offset:
        text = f"{value} was acknowledged at offset {offset} and is at {place}"
        yield Anomaly(Kind.INCONSISTENT_OFFSET, text, (*writer[0].ops, seen.op))


def _nothing_is_taken_back(facts: Facts) -> Iterator[Anomaly]:
    final: dict[str, set[str]] = {}
    for isolation in {drain.isolation for drain in facts.drains}:
        views = facts.final(isolation)
        final[isolation] = {value for records in views.values() for _, value in records}
    for read in facts.reads:
        there = final.get(read.isolation)
        if there is None:
            continue
        for offset, value in read.records:
            if value not in there:
                text = f"{value} was seen by {read.client} at {read.partition}@{offset} and is not there in the end"
                yield Anomaly(Kind.VANISHED_READ, text, (read.op,))


def _drains_agree(facts: Facts) -> Iterator[Anomaly]:
    finals = {isolation: facts.final(isolation) for isolation in {drain.isolation for drain in facts.drains}}
    everything = finals.get(READ_UNCOMMITTED, {})
    superseded = facts.superseded()  # compaction may remove it between one drain and the next

    def lasting(records: list[tuple[int, str]]) -> list[tuple[int, str]]:
        return [record for record in records if record[1] not in superseded] if superseded else records

    for drain in facts.drains:
        first, records = lasting(finals[drain.isolation][drain.partition]), lasting(drain.records)
        if records != first:
            only = sorted(set(first) ^ set(records))[:5]
            text = f"two readers of {drain.partition} ({drain.isolation}) disagree in the end about {only}"
            yield Anomaly(Kind.INCONSISTENT_OFFSET, text)
        if drain.partition in everything:
            missing = sorted(set(records) - set(everything[drain.partition]))
            if missing:
                text = f"{drain.reader} finds {missing[:5]} in {drain.partition}, which read_uncommitted does not"
                yield Anomaly(Kind.INCONSISTENT_OFFSET, text)
