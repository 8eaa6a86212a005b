"""What another client sees of a pipeline: its committed records, its group, and whether a transaction is still open."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from confluent_kafka import Consumer, IsolationLevel, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.conftest import wait_until
from tests.spark.checker import partitions_of, read_records

TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Seen:
    """A record. Two of them are the same wherever they are in their topic."""

    label: str  #: of the topic
    key: str | None
    value: str | None
    headers: tuple[str, ...] = ()
    partition: int | None = None  #: if the query chose it
    time_ms: int | None = None  #: if the query chose it


@dataclass(frozen=True)
class Outside:
    _bootstrap: str
    _pipeline: str
    _outputs: Mapping[str, str]

    def records(self, *, chosen: bool = False) -> list[Seen]:
        """All that is committed, in the order of each partition, once no transaction is open.

        `chosen`: the query chose partitions and timestamps.
        """
        self.wait_until_settled()
        return [
            Seen(
                label,
                _text(record.key()),
                _text(record.value()),
                tuple(f"{name}={_text(value)}" for name, value in _headers(record) if _is_told(name)),
                *((record.partition(), record.timestamp()[1]) if chosen else ()),
            )
            for label, topic in self._outputs.items()
            for record in read_records(self._bootstrap, topic)
        ]

    def wait_until_settled(self) -> None:
        wait_until(self._is_settled, f"no transaction is open in {[*self._outputs.values()]}", TIMEOUT_S)

    def _is_settled(self) -> bool:
        topics = self._outputs.values()
        return self.ends(topics, IsolationLevel.READ_COMMITTED) == self.ends(topics, IsolationLevel.READ_UNCOMMITTED)

    def ends(
        self, topics: Iterable[str], isolation: IsolationLevel = IsolationLevel.READ_COMMITTED
    ) -> dict[tuple[str, int], int]:
        admin = AdminClient({"bootstrap.servers": self._bootstrap})  # one that was kept would not know new partitions
        asked = {where: OffsetSpec.latest() for where in _places(admin, topics)}
        if not asked:
            return {}
        found = admin.list_offsets(asked, isolation_level=isolation, request_timeout=TIMEOUT_S)
        return {(w.topic, w.partition): result.result(TIMEOUT_S).offset for w, result in found.items()}

    def written(self) -> dict[tuple[str, int], int]:
        """How far the outputs reach, committed or not."""
        return self.ends(self._outputs.values(), IsolationLevel.READ_UNCOMMITTED)

    def committed(self, topics: Iterable[str]) -> dict[tuple[str, int], int]:
        """The group's offsets; 0 where it has none."""
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": self._pipeline})
        places = _places(consumer, topics)
        found = consumer.committed(places, timeout=TIMEOUT_S) if places else []
        consumer.close()
        return {(each.topic, each.partition): max(0, each.offset) for each in found}


def _places(client: AdminClient | Consumer, topics: Iterable[str]) -> list[TopicPartition]:
    return [TopicPartition(topic, each) for topic in topics for each in partitions_of(client, topic)]


def _headers(record: Message) -> list[tuple[str, bytes | None]]:
    return list(record.headers() or ())  # type: ignore[arg-type]


def _is_told(header: str) -> bool:
    """Of a dead letter's headers only the reason is the same in every run."""
    return not header.startswith("fencepost.") or header == "fencepost.error.reason"


def _text(given: bytes | str | None) -> str | None:
    return given.decode() if isinstance(given, bytes) else given
