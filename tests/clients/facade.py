"""What tests ask of any Kafka client. `confluent.py`, `kafka_python.py` and `aio.py` adapt three of them.

An error that the broker (or the client on its behalf) gives is raised as `Refused` with Kafka's name for the code, so
that a test says `refused("MESSAGE_TOO_LARGE")` and means the same for every client.
"""

import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import pytest

from fencepost.lab.kit.servers import Server
from tests.conftest import wait_until

EARLIEST, LATEST = "earliest", "latest"
COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
CREATE_TIME, APPEND_TIME = 0, 1

POLL_S = 0.05
FENCED = ("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "_FENCED")


class Spot(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Message:
    """What is produced, and what is read back."""

    topic: str
    value: bytes | None = b""
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None
    timestamp: int | None = None
    timestamp_type: int | None = None
    offset: int | None = None

    @property
    def spot(self) -> Spot:
        return Spot(self.topic, self.partition or 0)


class Sent(NamedTuple):
    partition: int
    offset: int
    timestamp: int | None


class Refused(Exception):
    """The client reported an error; `code` is Kafka's name for it, or librdkafka's for its own (`_FENCED`)."""

    def __init__(self, code: str, message: str = "") -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


@contextlib.contextmanager
def refused(*codes: str) -> Iterator[None]:
    with pytest.raises(Refused) as caught:
        yield
    assert caught.value.code in codes


class Native:
    """An object of a client library. `wrap` turns each of its methods into one that waits and raises `Refused`."""

    def __init__(self, target: Any, wrap: Callable[[Any], Any]) -> None:
        self.unwrapped = target
        self._wrap = wrap

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.unwrapped, name)
        return self._wrap(found) if callable(found) else found


class Producer(ABC):
    """Opened by `Client.producer`; a transactional one has already initialised its transactions."""

    def __init__(self, native: Native) -> None:
        self.native = native

    @abstractmethod
    def deliver(self, *messages: Message) -> list[Sent]:
        """Send all and wait until each is acknowledged; the first refusal is raised."""

    def put(self, topic: str, *values: bytes, partition: int | None = None) -> list[Sent]:
        return self.deliver(*(Message(topic, value, partition=partition) for value in values))

    def begin(self) -> None:
        self.native.begin_transaction()

    def commit(self) -> None:
        self.native.commit_transaction()

    def abort(self) -> None:
        self.native.abort_transaction()

    def transact(self, topic: str, *values: bytes, commit: bool = True) -> None:
        """One transaction from its beginning to its end."""
        self.begin()
        self.put(topic, *values)
        self.end(commit=commit)

    def end(self, *, commit: bool) -> None:
        if commit:
            self.commit()
        else:
            self.abort()

    def send_offsets(self, offsets: Mapping[Spot, int], membership: Any) -> None:
        """Into the transaction, for the group that `Consumer.membership` tells of."""
        self.native.send_offsets_to_transaction(self.positions(offsets), membership)

    @staticmethod
    @abstractmethod
    def positions(offsets: Mapping[Spot, int]) -> Any:
        """Offsets by partition in the client's own form."""

    @abstractmethod
    def close(self) -> None: ...


class Consumer(ABC):
    """A consumer, in a group or alone."""

    def __init__(self, native: Native, group: str | None) -> None:
        self.native = native
        self.group = group

    @abstractmethod
    def poll(self, timeout_s: float = POLL_S) -> list[Message]: ...

    @abstractmethod
    def assign(self, spots: Iterable[Spot]) -> None: ...

    @abstractmethod
    def assignment(self) -> set[Spot]: ...

    @abstractmethod
    def seek(self, spot: Spot, offset: int) -> None: ...

    @abstractmethod
    def position(self, spot: Spot) -> int: ...

    @abstractmethod
    def commit(self, offsets: Mapping[Spot, int] | None = None) -> None:
        """Wait until these offsets, or those of what has been polled, are committed."""

    @abstractmethod
    def committed(self, spot: Spot) -> int | None: ...

    @abstractmethod
    def membership(self) -> Any:
        """What the client knows at this moment of its place in the group, in its own form."""

    @abstractmethod
    def offsets_for_times(self, times: Mapping[Spot, int]) -> dict[Spot, int | None]:
        """The first offset with that timestamp or a later one; None where there is none."""

    @abstractmethod
    def bounds(self, spot: Spot) -> tuple[int, int]:
        """First offset and end: the last stable offset for a read_committed consumer."""

    def close(self) -> None:
        self.native.close()

    def read(self, count: int) -> list[Message]:
        """Poll until there are `count` messages. The last poll may bring more."""
        found: list[Message] = []
        wait_until(lambda: found.extend(self.poll()) or len(found) >= count, f"{count} messages are read")
        return found

    def until_assigned(self, spots: Iterable[Spot]) -> None:
        """Poll until exactly these are assigned. What is read is dropped."""
        wanted = set(spots)

        def is_assigned() -> bool:
            self.poll()
            return self.assignment() == wanted

        wait_until(is_assigned, f"{wanted} are assigned")


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    compression: str = "none"
    acks: str = "all"
    idempotent: bool = False
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000
    max_bytes: int = 1_000_000
    metadata_max_age_ms: int = 300_000
    patience_ms: int = 20_000


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    topics: tuple[str, ...] = ()
    group: str | None = None
    isolation: str = COMMITTED
    reset: str = EARLIEST
    auto_commit: bool = False
    assignor: str = "range"
    instance_id: str | None = None
    session_timeout_ms: int = 6_000
    heartbeat_ms: int = 50
    metadata_max_age_ms: int = 300_000
    pattern: str | None = None


Opened = TypeVar("Opened", Producer, Consumer)


@dataclass
class Client(ABC):
    """One client library, connected to one Kafka. Everything that it opened is closed with it."""

    server: Server
    _open: list[Any] = field(default_factory=list)

    name = ""
    #: Whether it can produce header values that are null, and records with neither key nor value.
    writes_null_headers = True
    writes_empty_records = True
    #: How it calls the error INVALID_RECORD.
    invalid_record = "INVALID_RECORD"
    #: Whether offsets in a transaction carry the generation of the consumer (KIP-447).
    fences_by_generation = True
    #: What a consumer says whose place in the group another has taken.
    replaced: ClassVar[tuple[str, ...]] = ("FENCED_INSTANCE_ID",)
    #: What a producer says of a topic that is not there.
    no_such_topic: ClassVar[tuple[str, ...]] = ("UNKNOWN_TOPIC_OR_PARTITION",)
    assignors: ClassVar[tuple[str, ...]] = ("range",)

    @property
    def address(self) -> dict[str, Any]:
        """Where the server is and what it asks for, as this client names them."""
        return self.server.client_config(self.name)

    def another(self) -> Self:
        """A second one, for another thread."""
        return type(self)(self.server)

    @abstractmethod
    def _open_producer(self, options: ProducerOptions) -> Producer: ...

    @abstractmethod
    def _open_consumer(self, options: ConsumerOptions) -> Consumer: ...

    def producer(self, **options: Any) -> Producer:
        """`options` as in `ProducerOptions`."""
        return self._keep(self._open_producer(ProducerOptions(**options)))

    def consumer(self, *topics: str, **options: Any) -> Consumer:
        """A consumer that subscribes to the topics, or to a pattern; with neither it waits for `assign`."""
        return self._keep(self._open_consumer(ConsumerOptions(topics, **options)))

    def read_all(self, *topics: str, isolation: str = COMMITTED, partitions: int = 1) -> list[Message]:
        """Everything that such a reader can see now, partition by partition. It never waits for more."""
        consumer = self.consumer(isolation=isolation)
        spots = [Spot(topic, partition) for topic in topics for partition in range(partitions)]
        consumer.assign(spots)
        ends = {spot: consumer.bounds(spot)[1] for spot in spots}
        found: list[Message] = []

        def is_read() -> bool:
            found.extend(consumer.poll())
            return all(consumer.position(spot) >= end for spot, end in ends.items())

        wait_until(is_read, f"{topics} are read to the end {ends}")
        self.close_one(consumer)
        return sorted(found, key=lambda message: (message.topic, message.partition, message.offset))

    def values(self, *topics: str, isolation: str = COMMITTED, partitions: int = 1) -> list[bytes | None]:
        return [message.value for message in self.read_all(*topics, isolation=isolation, partitions=partitions)]

    def close_one(self, opened: Producer | Consumer) -> None:
        self._open.remove(opened)
        opened.close()

    def close(self) -> None:
        while self._open:
            self._open.pop().close()

    def _keep(self, opened: Opened) -> Opened:
        self._open.append(opened)
        return opened


def settle(consumers: Sequence[Consumer], is_settled: Callable[[], bool], what: str) -> None:
    """Poll all of them at once, each in a thread of its own, until `is_settled`. What they read is dropped."""
    over = threading.Event()

    def keep_polling(consumer: Consumer) -> None:
        while not over.is_set():
            consumer.poll(0.1)

    with ThreadPoolExecutor(len(consumers)) as pool:
        polling = [pool.submit(keep_polling, consumer) for consumer in consumers]
        try:
            wait_until(lambda: is_settled() or any(each.done() for each in polling), what)
        finally:
            over.set()
    for each in polling:
        each.result()
