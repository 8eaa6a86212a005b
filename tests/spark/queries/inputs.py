"""Rows into topics and files, by other clients than ours.

Invariant: rows of one key go to one partition, in their order, whatever the way they are written.
"""

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from tests.conftest import topic_maker, unique, wait_until
from tests.spark.checker import partitions_of, read_records
from tests.spark.queries.case import DAY_S, SENTINEL, SENTINEL_S, Kind, Row, Source, Subscribed, Wave, Written
from tests.spark.queries.given import Place

TIMEOUT_S = 30.0
#: So small that every record has a segment of its own and all but the last can be compacted at once.
COMPACTED_CONFIG = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1 << 20),
    "segment.ms": "50",
    "min.cleanable.dirty.ratio": "0.01",
}
KEYS = "abcd"
#: A watermark is 1970 before it is anything: rows of that time would be late.
FIRST_S = 1_767_225_600


def wave(source: int, number: int, count: int = 12) -> Wave:
    """Rows within ten minutes of one day, which is the wave's own; their times are in no order."""
    first = 1000 * source + 100 * number
    return tuple(
        Row(KEYS[(3 * i + i // 4 + source) % 4], first + i, FIRST_S + DAY_S * number + (i * 53 + 7 * source) % 600)
        for i in range(count)
    )


def waves(source: int = 0, count: int = 2, rows: int = 12) -> tuple[Wave, ...]:
    return tuple(wave(source, number, rows) for number in range(count))


def sentinel(source: int, number: int) -> Wave:
    return (Row(SENTINEL, -1 - 10 * source - number, SENTINEL_S + DAY_S * number),)


class Inputs:
    """Writes the waves of a case's sources."""

    def __init__(self, place: Place, sources: dict[str, Source], wave_count: int) -> None:
        self._place = place
        self._sources = sources
        self._wave_count = wave_count
        self._partitions = {name: source.partitions for name, source in sources.items()}
        self._numbers: dict[str, int] = {name: index for index, name in enumerate(sources)}
        self._producer = self._new_producer()

    def _new_producer(self) -> Producer:
        return Producer({"bootstrap.servers": self._place.sources_bootstrap, "linger.ms": 0})

    def write(self, number: int) -> None:
        for name, source in self._sources.items():
            if source.kind in (Kind.RATE, Kind.RATE_BY_BATCH) or source.same_as is not None:
                continue
            if number >= self._wave_count:
                rows = sentinel(self._numbers[name], number - self._wave_count)
            else:
                rows = source.waves[number] if number < len(source.waves) else ()
            if rows:
                self._write(name, source, rows, number)

    def grow(self, name: str) -> None:
        """See `Grow`. Keys move to other partitions by it."""
        admin = AdminClient({"bootstrap.servers": self._place.sources_bootstrap})
        topics = self._place.topics[name]
        if self._sources[name].subscribed is Subscribed.BY_PATTERN:
            new = topics[0].rsplit("-", 1)[0] + f"-{len(topics)}"
            topic_maker(admin)(self._partitions[name], name=new)
            self._place.topics[name] = (*topics, new)
            return
        self._partitions[name] *= 2
        for topic in topics:
            admin.create_partitions([NewPartitions(topic, self._partitions[name])])[topic].result(TIMEOUT_S)
        wait_until(lambda: self._is_grown(admin, name), f"{topics} have more partitions")
        self._producer = self._new_producer()  # the old one knows the old number for minutes

    def _is_grown(self, admin: AdminClient, name: str) -> bool:
        found = [len(partitions_of(admin, topic)) for topic in self._place.topics[name]]
        return set(found) == {self._partitions[name]}

    def _write(self, name: str, source: Source, rows: Wave, number: int) -> None:
        if source.kind is Kind.FILES:
            self._write_files(name, rows, number)
        elif source.written is Written.WITH_ABORTS:
            self._write_transactions(name, source, rows)
        elif source.written is Written.COMPACTED and number == 0:
            self._write_compacted(name, source, rows)
        else:
            self._produce(self._producer, self._placed(name, rows))

    def _placed(self, name: str, rows: Iterable[Row]) -> Iterator[tuple[str, int, Row]]:
        for row in rows:
            topics, partitions = self._place.topics[name], self._partitions[name]
            where = zlib.crc32(row.k.encode()) % (len(topics) * partitions)
            yield topics[where // partitions], where % partitions, row

    def _produce(self, producer: Producer, placed: Iterable[tuple[str, int, Row]]) -> None:
        for topic, partition, row in placed:
            producer.produce(topic, as_json(row), row.k, partition, headers={"n": str(row.n)})
        assert producer.flush(TIMEOUT_S) == 0

    def _write_transactions(self, name: str, source: Source, rows: Wave) -> None:
        """Halves of the wave, and before each the same rows with other numbers, which are aborted."""
        producer = Producer(
            {"bootstrap.servers": self._place.sources_bootstrap, "transactional.id": unique("writer"), "linger.ms": 0}
        )
        producer.init_transactions(TIMEOUT_S)
        for part in (rows[: len(rows) // 2], rows[len(rows) // 2 :]):
            for is_meant in (False, True):
                producer.begin_transaction()
                written = part if is_meant else [Row(row.k, row.n + 500_000, row.s) for row in part]
                self._produce(producer, self._placed(name, written))
                if is_meant:
                    producer.commit_transaction(TIMEOUT_S)
                else:
                    producer.abort_transaction(TIMEOUT_S)

    def _write_compacted(self, name: str, source: Source, rows: Wave) -> None:
        """Each row after three others under the same record key, which are gone when this returns."""
        placed = list(self._placed(name, rows))
        for round_number in range(4):
            for topic, partition, row in placed:
                number = row.n + (500_000 * (3 - round_number))
                value = as_json(Row(row.k, number, row.s))
                self._producer.produce(topic, key=str(row.n), value=value, partition=partition)
            assert self._producer.flush(TIMEOUT_S) == 0
        topics = self._place.topics[name]
        wait_until(lambda: self._is_compacted(topics, source.partitions), f"{topics} are compacted", 2 * TIMEOUT_S)

    def _is_compacted(self, topics: Sequence[str], partitions: int) -> bool:
        for topic in topics:
            keys = [
                record.key()
                for record in read_records(self._place.sources_bootstrap, topic)
                if record.value() is not None
            ]
            if len(keys) != len(set(keys)):
                for partition in range(partitions):  # no row: it closes the segment before it when that is old enough
                    self._producer.produce(topic, key="roll", value=None, partition=partition)
                assert self._producer.flush(TIMEOUT_S) == 0
                return False
        return True

    def _write_files(self, name: str, rows: Wave, number: int) -> None:
        """Two files, each there at once."""
        directory = self._place.files(name)
        for part, some in enumerate((rows[: len(rows) // 2], rows[len(rows) // 2 :])):
            draft = self._place.home / f"draft-{name}"
            draft.write_text("".join(as_json(row) + "\n" for row in some))
            draft.rename(directory / f"{number:03}-{part}.json")


def as_json(row: Row) -> str:
    return json.dumps({"k": row.k, "n": row.n, "s": row.s})
