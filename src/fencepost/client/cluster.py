"""A cluster as a client sees it: its brokers, who leads a partition, who coordinates a group or a transaction.

Knows nothing of what is asked. It finds the right broker, keeps one connection to each, notices when the cluster has
changed, and repeats a request where its caller says that this is harmless. For one thread; pickled, and after a fork,
it is only its settings and connects again.
"""

import enum
import itertools
import os
import random
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from fencepost.client import rights
from fencepost.client.connection import Connection
from fencepost.client.outages import outages_of
from fencepost.client.retry import BUSY, COORDINATOR_MOVED, Retry, known_code
from fencepost.client.settings import ClientSettings
from fencepost.errors import BootstrapFailed, ClientError, ConnectionLost, ErrorCode, TopicNotFound
from fencepost.wire.codec import ALWAYS, NULL_UUID, Message
from fencepost.wire.terms import Address

METADATA, FIND_COORDINATOR = 3, 10
FIRST_METADATA_WITH_IDS = 10
FIRST_WITH_MANY_COORDINATORS = 4

NO_LEADER = -1

T = TypeVar("T")


class Coordinates(enum.IntEnum):
    """What a coordinator is asked for; the numbers are FindCoordinator's."""

    GROUP = 0
    TRANSACTION = 1


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    leader: int  #: a broker's id, NO_LEADER while there is none
    leader_epoch: int
    replicas: tuple[int, ...] = ()  #: ids of brokers
    in_sync: tuple[int, ...] = ()  #: those of them that have everything


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    name: str
    id: bytes  #: NULL_UUID on clusters that have none
    is_internal: bool
    partitions: dict[int, PartitionMetadata]

    @property
    def replication_factor(self) -> int:
        """That of the partition with the fewest replicas."""
        return min((len(partition.replicas) for partition in self.partitions.values()), default=0)


def _error_code(answer: Message) -> int:
    return int(answer.error_code)


class Cluster:
    """`Cluster("host:9092")`, or a dictionary of Kafka's settings."""

    def __init__(self, settings: ClientSettings | Mapping[str, object] | str) -> None:
        self.settings = settings if isinstance(settings, ClientSettings) else ClientSettings.parse(settings)
        self._forget_everything()

    def __reduce__(self) -> tuple[type[Self], tuple[ClientSettings]]:
        return type(self), (self.settings,)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._process == os.getpid():
            for connection in [*self._connections.values(), *itertools.chain(*self._spare.values())]:
                connection.close()
        self._forget_everything()

    def _forget_everything(self) -> None:
        self._process = os.getpid()
        self._connections: dict[Address, Connection] = {}
        self._spare: dict[Address, list[Connection]] = {}  #: lent and given back
        self._brokers: dict[int, Address] = {}
        self._controller = NO_LEADER
        self._topics: dict[str, TopicMetadata] = {}
        self._coordinators: dict[tuple[Coordinates, str], Address] = {}
        self._has_connected = False

    # -- connections -------------------------------------------------------------------------------------------------

    def connect(self, address: Address) -> Connection:
        """The shared connection to this broker."""
        if self._process != os.getpid():  # after a fork the sockets are the parent's
            self._forget_everything()
        connection = self._connections.get(address)
        if connection is None or not connection.is_usable():
            connection = self._connections[address] = self._open(address)
        return connection

    def _open(self, address: Address) -> Connection:
        with outages_of(self.settings).connecting(address):
            connection = Connection(address, self.settings)
        self._has_connected = True
        return connection

    def any(self) -> Connection:
        """Any broker. If the cluster never answered, the address is wrong; if it did, it may come back."""
        patience = Retry("bootstrap", self.settings, self.settings.bootstrap_patience_ms / 1000)
        while True:
            try:
                return self._connect_any()
            except BootstrapFailed as error:
                if self._has_connected:
                    raise ConnectionLost(str(error)) from None
                if patience.left_s <= 0:
                    raise
                patience.wait(error)

    def _connect_any(self) -> Connection:
        open_ones = [address for address, connection in self._connections.items() if connection.is_usable()]
        known = random.sample(sorted(self._brokers.values()), len(self._brokers))
        reasons: dict[str, str] = {}
        for address in dict.fromkeys([*open_ones, *known, *self.settings.bootstrap]):
            try:
                return self.connect(address)
            except ConnectionLost as error:
                reasons[str(address)] = str(error).removeprefix(f"{address}: ")
        raise BootstrapFailed(reasons)

    def broker(self, node_id: int) -> Address:
        address = self._brokers.get(node_id)
        if address is None:
            raise ConnectionLost(f"the address of broker {node_id} is not known")
        return address

    def brokers(self) -> list[Address]:
        """As of the last metadata."""
        return sorted(self._brokers.values())

    def nodes(self) -> dict[int, Address]:
        """The same by their ids."""
        return dict(sorted(self._brokers.items()))

    def borrow(self, address: Address) -> Connection:
        """A connection for one user, who pipelines requests or keeps it waiting. Give it back with `release`."""
        if self._process != os.getpid():
            self._forget_everything()
        spare = self._spare.setdefault(address, [])
        while spare:
            connection = spare.pop()
            if connection.is_usable():
                return connection
        return self._open(address)

    def release(self, connection: Connection) -> None:
        """Keep it for the next borrower, unless answers are outstanding."""
        if connection.in_flight or not connection.is_usable():
            connection.close()
        else:
            self._spare.setdefault(connection.address, []).append(connection)

    # -- asking ------------------------------------------------------------------------------------------------------

    def call(
        self, what: str, api_key: int, fields: Mapping[str, Any], *, lowest: int = 0, highest: int = ALWAYS.last
    ) -> Message:
        """Ask any broker. Repeated if the connection breaks, so only for requests that may be carried out twice."""
        return self._retrying(what, lambda: self.any().call(api_key, fields, lowest=lowest, highest=highest))

    def call_coordinator(
        self,
        kind: Coordinates,
        key: str,
        api_key: int,
        fields: Mapping[str, Any],
        *,
        what: str,
        code_of: Callable[[Message], int] = _error_code,
        lowest: int = 0,
        highest: int = ALWAYS.last,
        again: AbstractSet[ErrorCode] = COORDINATOR_MOVED | BUSY,
    ) -> tuple[Message, ErrorCode]:
        """Ask the coordinator until its code is none of `again`. Returns the answer and its code.

        Only for requests that may be carried out twice.
        """
        retry = Retry(what, self.settings)
        while True:
            reason: object
            try:
                answer = self.coordinator(kind, key).call(api_key, fields, lowest=lowest, highest=highest)
                reason = code = known_code(code_of(answer))
                if code not in again:
                    return answer, code
            except ConnectionLost as error:
                reason = error
            if not isinstance(reason, ErrorCode) or reason in COORDINATOR_MOVED:
                self.forget_coordinator(kind, key)
            retry.wait(reason)

    def refusal(self, api_key: int, code: ErrorCode, name: str, otherwise: str) -> ClientError:
        """The error for a request that was refused; see `rights.refusal`."""
        return rights.refusal(self.settings, api_key, code, name, otherwise)

    # -- who is who --------------------------------------------------------------------------------------------------

    @property
    def features(self) -> dict[str, int]:
        return self._retrying("features", lambda: self.any().features)

    def coordinator(self, kind: Coordinates, key: str) -> Connection:
        """The connection to the coordinator of a group or transactional id. ConnectionLost while there is none."""
        address = self._coordinators.get((kind, key))
        if address is None:
            address = self._coordinators[kind, key] = self._find_coordinator(kind, key)
        return self.connect(address)

    def forget_coordinator(self, kind: Coordinates, key: str) -> None:
        self._coordinators.pop((kind, key), None)

    def _find_coordinator(self, kind: Coordinates, key: str) -> Address:
        connection = self.any()
        version = connection.version(FIND_COORDINATOR)
        if version >= FIRST_WITH_MANY_COORDINATORS:
            found = connection.call(FIND_COORDINATOR, {"key_type": kind, "coordinator_keys": [key]}).coordinators[0]
        else:
            found = connection.call(FIND_COORDINATOR, {"key_type": kind, "key": key})
        code = known_code(found.error_code)
        if code in COORDINATOR_MOVED or code in BUSY:
            raise ConnectionLost(f"{key!r} has no coordinator yet: {code.name}")
        if code:
            text = f"{kind.name.lower()} {key!r}: {found.error_message or 'no coordinator'}"
            raise self.refusal(FIND_COORDINATOR, code, key, text)
        return Address(found.host, found.port)

    def controller(self) -> Connection:
        """The broker that changes topics; any broker, if the cluster's brokers forward such requests."""
        if self._controller in self._brokers:
            return self.connect(self._brokers[self._controller])
        return self.any()

    # -- topics ------------------------------------------------------------------------------------------------------

    def topic(self, name: str) -> TopicMetadata:
        """A topic's metadata, read if not known yet. Raises TopicNotFound."""
        return self._topics.get(name) or self.refresh([name])[name]

    def known_topics(self) -> Mapping[str, TopicMetadata]:
        """As of the last metadata of each."""
        return self._topics

    def refresh(
        self, names: Iterable[str] | None = None, *, missing_ok: bool = False, hidden_ok: bool = False
    ) -> dict[str, TopicMetadata]:
        """Read metadata of these topics, or of all.

        A topic that does not exist raises TopicNotFound or is left out, one that we may not see NotAuthorized.
        """
        wanted = None if names is None else sorted(set(names))
        return self._retrying("metadata", lambda: self._read_metadata(wanted, missing_ok, hidden_ok))

    def leader_address(self, topic: str, partition: int) -> Address:
        """Raises ConnectionLost while there is no leader; the next call reads the metadata again."""
        found = self.topic(topic).partitions.get(partition)
        if found is None or found.leader not in self._brokers:
            found = self.refresh([topic])[topic].partitions.get(partition)
        if found is None:
            raise TopicNotFound(f"topic {topic!r} has no partition {partition}")
        if found.leader not in self._brokers:
            self.forget_topic(topic)
            raise ConnectionLost(f"{topic}-{partition} has no leader at the moment")
        return self._brokers[found.leader]

    def forget_topic(self, name: str) -> None:
        """Its metadata turned out to be stale."""
        self._topics.pop(name, None)

    def _read_metadata(self, names: list[str] | None, missing_ok: bool, hidden_ok: bool) -> dict[str, TopicMetadata]:
        connection = self.any()
        entries = None if names is None else [{"name": name} for name in names]
        version = connection.version(METADATA, lowest=1)
        fields = {"topics": entries, "allow_auto_topic_creation": False}
        answer = connection.call(METADATA, fields, lowest=1)
        self._brokers = {broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers}
        self._controller = answer.controller_id
        found = {}
        for entry in answer.topics:
            code = known_code(entry.error_code)
            if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                self.forget_topic(entry.name)
                if missing_ok:
                    continue
                raise TopicNotFound.named(entry.name)
            if code in (ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_SERVER_ERROR):  # it is being made
                raise ConnectionLost(f"topic {entry.name!r}: {code.name}")
            if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED and hidden_ok:
                continue
            if code:
                raise self.refusal(METADATA, code, entry.name, f"topic {entry.name!r}")
            topic_id = entry.topic_id if version >= FIRST_METADATA_WITH_IDS else NULL_UUID
            partitions = {
                each.partition_index: PartitionMetadata(
                    each.leader_id, each.leader_epoch, tuple(each.replica_nodes), tuple(each.isr_nodes)
                )
                for each in entry.partitions
            }
            found[entry.name] = TopicMetadata(entry.name, topic_id, entry.is_internal, dict(sorted(partitions.items())))
        self._topics.update(found)
        return found

    def _retrying(self, what: str, attempt: Callable[[], T]) -> T:
        retry = Retry(what, self.settings)
        while True:
            try:
                return attempt()
            except ConnectionLost as error:
                retry.wait(error)
