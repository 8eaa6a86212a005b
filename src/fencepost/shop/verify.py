"""The verification: reads the shop's topics with confluent-kafka, a client that is not ours, and checks the books.

It shares no code with the pipeline: it reads topics like any consumer (`read_committed`), and `expected` has the rules.
Owns the order of the reads, which makes the result correct while the pipeline is running:

1. the group's committed offsets, 2. the purchases, 3. invoices, shipments and dead letters, 4. the purchases that came
meanwhile, 5. the offsets again.

So everything found in 3 has its purchase in 2 or 4 and its offset in 5, and every purchase before an offset of 1 must
have its results in 3. A commit reaches partitions one after the other, within milliseconds, and no reader can look at
two partitions at the same instant. So an invoice without its shipment is checked again, and is a problem if it is still
alone after `patience_s`.
"""

import contextlib
import gc
import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from fencepost.errors import FencepostError
from fencepost.security.spellings import respelled
from fencepost.shop import CUSTOMERS, DEAD_LETTERS, INVOICES, PIPELINE, PRODUCTS, PURCHASES, SHIPMENTS
from fencepost.shop.books import PASSING, Books, Found, Problem, Where

REQUIRED = (PURCHASES, INVOICES, SHIPMENTS)
TOTALS = (CUSTOMERS, PRODUCTS)
OUTPUTS = (INVOICES, SHIPMENTS, DEAD_LETTERS, *TOTALS)
REQUEST_TIMEOUT_S = 10.0
#: How long a partition may stay silent before its end.
READ_TIMEOUT_S = 60.0
POLL_S = 0.05
MESSAGES_PER_POLL = 20_000
LOOK_AGAIN_S = 0.2
DEFAULT_PATIENCE_S = 10.0
#: Unprocessed purchases.
IDLE = frozenset({Problem.NO_INVOICE_AND_SHIPMENT, Problem.NO_DEAD_LETTER})

_silent = logging.getLogger("fencepost.shop.librdkafka")
_silent.addHandler(logging.NullHandler())
_silent.propagate = False


class CannotVerify(FencepostError):
    """The result could not be checked; it may be right or wrong."""


@dataclass(frozen=True, slots=True)
class Report:
    purchases: int
    bad_purchases: int
    invoices: int
    shipments: int
    dead_letters: int
    open: int  #: purchases that are not completely processed
    committed: dict[int, int]  #: the group's offsets in `purchases`, by partition
    ends: dict[int, int]  #: the ends of its partitions
    looks: int
    seconds: float
    problems: dict[str, Found] = field(default_factory=dict)

    @property
    def is_right(self) -> bool:
        return not self.problems

    def as_dict(self) -> dict[str, Any]:
        return {
            "right": self.is_right,
            "purchases": self.purchases,
            "badPurchases": self.bad_purchases,
            "invoices": self.invoices,
            "shipments": self.shipments,
            "deadLetters": self.dead_letters,
            "open": self.open,
            "committedOffsets": {str(partition): offset for partition, offset in sorted(self.committed.items())},
            "endOffsets": {str(partition): offset for partition, offset in sorted(self.ends.items())},
            "looks": self.looks,
            "seconds": round(self.seconds, 3),
            "problems": {
                name: {"count": found.count, "first": found.first} for name, found in sorted(self.problems.items())
            },
        }


class Verifier:
    """Checks a cluster, any number of times. Nothing is read twice.

    with Verifier({"bootstrap.servers": "localhost:9092"}) as verifier:
        report = verifier.look(is_final=True)
    """

    def __init__(self, kafka: Mapping[str, str], group: str = PIPELINE) -> None:
        """`kafka` are the settings of a client, by Kafka's names."""
        self._bootstrap = kafka["bootstrap.servers"]
        self._confluent = respelled(kafka, "confluent")
        self._group = group
        self._books = Books()
        self._looks = 0
        self._started_s = time.monotonic()
        self._readers: dict[tuple[str, ...], _Reader] = {}
        try:
            from confluent_kafka.admin import AdminClient
        except ImportError as error:
            raise CannotVerify(f"confluent-kafka is not installed ({error}): pip install 'fencepost[shop]'") from None
        self._admin = AdminClient({**self._confluent, "log_level": 0}, logger=_silent)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()

    def look(self, *, is_final: bool, patience_s: float = DEFAULT_PATIENCE_S) -> Report:
        """Read everything to its end, and again while a commit may still be on its way."""
        deadline_s = time.monotonic() + patience_s
        while True:
            with _without_collector():
                report, problems = self._look(is_final=is_final)
            # If only unprocessed purchases are left, there is nothing to wait for.
            is_passing = problems.keys() <= PASSING and not problems.keys() <= IDLE
            if not is_passing or time.monotonic() > deadline_s:
                return report
            time.sleep(LOOK_AGAIN_S)

    def _look(self, *, is_final: bool) -> tuple[Report, dict[Problem, Found]]:
        from confluent_kafka import KafkaException

        books = self._books
        try:
            partitions = self._partitions()
            before = self._committed(partitions[PURCHASES])
            self._read([PURCHASES], partitions)
            self._read(OUTPUTS, partitions)
            ends = {partition: end for (_, partition), end in self._read([PURCHASES], partitions).items()}
            after = self._committed(partitions[PURCHASES])
        except KafkaException as error:
            raise CannotVerify(f"{self._bootstrap}: {error.args[0].str()}") from None
        books.end_of_purchases()
        self._looks += 1
        problems = books.problems(before, after, ends, is_final=is_final)
        report = Report(
            purchases=books.counts[PURCHASES],
            bad_purchases=books.bad_count,
            invoices=books.counts[INVOICES],
            shipments=books.counts[SHIPMENTS],
            dead_letters=books.counts[DEAD_LETTERS],
            open=books.open_count,
            committed=after,
            ends=ends,
            looks=self._looks,
            seconds=time.monotonic() - self._started_s,
            problems={problem.value: found for problem, found in problems.items()},
        )
        return report, problems

    # -- the cluster -------------------------------------------------------------------------------------------------

    def _partitions(self) -> dict[str, list[int]]:
        topics = self._admin.list_topics(timeout=REQUEST_TIMEOUT_S).topics
        missing = [name for name in REQUIRED if name not in topics]
        if missing:
            raise CannotVerify(f"{self._bootstrap} has no topic {' or '.join(map(repr, missing))}")
        return {name: sorted(topics[name].partitions) for name in (PURCHASES, *OUTPUTS) if name in topics}

    def _committed(self, partitions: Iterable[int]) -> dict[int, int]:
        """If an open transaction has pending offsets, the offsets committed before it count."""
        found = self._group_offsets(partitions, require_stable=True)
        if pending := [entry.partition for entry in found if entry.error is not None]:
            found = [entry for entry in found if entry.error is None]
            found += self._group_offsets(pending, require_stable=False)
        return {entry.partition: entry.offset for entry in found if entry.offset >= 0}

    def _group_offsets(self, partitions: Iterable[int], *, require_stable: bool) -> list[Any]:
        from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

        wanted = [TopicPartition(PURCHASES, partition) for partition in partitions]
        asked = self._admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(self._group, wanted)],
            require_stable=require_stable,
            request_timeout=REQUEST_TIMEOUT_S,
        )
        return list(asked[self._group].result().topic_partitions)

    def _ends(self, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """The last stable offsets, where a `read_committed` reader stops."""
        from confluent_kafka import IsolationLevel, TopicPartition
        from confluent_kafka.admin import OffsetSpec

        latest: Any = OffsetSpec.latest  # has no types
        asked = self._admin.list_offsets(
            {TopicPartition(topic, partition): latest() for topic, partition in places},
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=REQUEST_TIMEOUT_S,
        )
        return {(place.topic, place.partition): future.result().offset for place, future in asked.items()}

    def _read(self, topics: Iterable[str], partitions: Mapping[str, list[int]]) -> dict[tuple[str, int], int]:
        """Read these topics to their current ends, and return those ends."""
        names = tuple(topics)
        places = [(name, partition) for name in names for partition in partitions.get(name, ())]
        reader = self._readers.get(names)
        if reader is None:
            reader = self._readers[names] = _Reader(self._confluent, self._books)
        reader.assign(places)
        ends = self._ends(places)
        reader.read_to(ends)
        return ends


class _Reader:
    """A consumer that reads topics from the beginning and enters the records into the books."""

    def __init__(self, settings: Mapping[str, Any], books: Books) -> None:
        from confluent_kafka import Consumer

        self._consumer = Consumer(
            {
                **settings,
                "group.id": "fencepost-verify",  # has to be there; nothing is joined or committed
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 50,  # by default it takes half a second to notice an end
                "auto.offset.reset": "earliest",
                "queued.min.messages": 200_000,
                "fetch.message.max.bytes": 4 << 20,
                "log_level": 0,
            },
            logger=_silent,
        )
        self._books = books
        self._positions: dict[tuple[str, int], int] = {}

    def close(self) -> None:
        self._consumer.close()

    def assign(self, places: Iterable[tuple[str, int]]) -> None:
        """Add partitions that are not assigned yet."""
        from confluent_kafka import OFFSET_BEGINNING, TopicPartition

        new = [place for place in places if place not in self._positions]
        if new:
            self._consumer.incremental_assign(
                [TopicPartition(topic, partition, OFFSET_BEGINNING) for topic, partition in new]
            )
            self._positions.update(dict.fromkeys(new, 0))

    def read_to(self, ends: Mapping[tuple[str, int], int]) -> None:
        from confluent_kafka import KafkaError, KafkaException

        deadline_s = time.monotonic() + READ_TIMEOUT_S
        while any(self._positions[place] < end for place, end in ends.items()):
            messages = self._consumer.consume(MESSAGES_PER_POLL, POLL_S)
            message: Any
            for message in messages:
                error = message.error()
                place = message.topic(), message.partition()
                if error is None:
                    self._enter(message, *place)
                    self._positions[place] = message.offset() + 1
                elif error.code() == KafkaError._PARTITION_EOF:  # past the markers, which are no messages
                    self._positions[place] = max(self._positions[place], message.offset())
                elif not error.retriable():
                    raise KafkaException(error)
            if messages:
                deadline_s = time.monotonic() + READ_TIMEOUT_S
            elif time.monotonic() > deadline_s:
                late = ", ".join(f"{t}-{p}" for (t, p), end in ends.items() if self._positions[t, p] < end)
                raise CannotVerify(f"{late}: could not be read to the end within {READ_TIMEOUT_S:.0f} s")

    def _enter(self, message: Any, topic: str, partition: int) -> None:
        if topic == PURCHASES:
            self._books.purchase(message.value(), (partition, message.offset()))
            return
        if topic in TOTALS:
            self._books.totals.output(topic, message.value())
            return
        headers = dict(message.headers() or ()) if topic == DEAD_LETTERS else None
        self._books.output(Where(topic, partition, message.offset()), message.value(), headers)


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """Books are millions of objects without cycles, which the garbage collector would scan again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
