"""A producer that sends exactly what it is told: any identity, any sequence, one request at a time.

Scenarios show what a well-behaved client hides: an answer that nobody reads, a batch that is sent twice, a zombie. So a
request is repeated only if the broker asks for that, and an error code is a value, not an exception.

Invariant: `Brokers` shares no connection with anybody, like a separate process.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Self, TypeVar

from fencepost.client.cluster import Cluster, Coordinates
from fencepost.client.connection import Pending
from fencepost.client.identity import TransactionProtocol
from fencepost.client.raw import (
    END_TXN_V1,
    END_TXN_V2,
    PRODUCE_V1,
    PRODUCE_V2,
    TXN_OFFSET_COMMIT_V1,
    TXN_OFFSET_COMMIT_V2,
    Produced,
    RawClient,
    Session,
    patiently,
    produce_fields,
)
from fencepost.client.registration import END_TXN, PRODUCE
from fencepost.errors import ErrorCode
from fencepost.wire.codec import Message
from fencepost.wire.terms import Address, TopicPartition

#: By its version a request says which protocol its sender speaks (KIP-890).
PRODUCE_VERSION = {TransactionProtocol.V1: PRODUCE_V1, TransactionProtocol.V2: PRODUCE_V2}
END_TXN_VERSION = {TransactionProtocol.V1: END_TXN_V1, TransactionProtocol.V2: END_TXN_V2}
OFFSETS_VERSION = {TransactionProtocol.V1: TXN_OFFSET_COMMIT_V1, TransactionProtocol.V2: TXN_OFFSET_COMMIT_V2}

PATIENCE_S = 60.0
T = TypeVar("T")


class Brokers:
    """Raw clients of a cluster's brokers, found by what they lead or coordinate."""

    def __init__(self, cluster: Cluster, patience_s: float = PATIENCE_S) -> None:
        self._cluster = Cluster(cluster.settings)
        self._clients: dict[Address, RawClient] = {}
        self._patience_s = patience_s

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        self._cluster.close()

    def leader(self, where: TopicPartition, ask: Callable[[RawClient], T]) -> T:
        """Ask the partition's leader. If it is gone, look for the next one."""
        return patiently(
            lambda: ask(self.client(self._cluster.leader_address(*where))),
            self._patience_s,
            recover=lambda: self._cluster.forget_topic(where.topic),
        )

    def coordinator(self, kind: Coordinates, key: str, ask: Callable[[RawClient], T]) -> T:
        return patiently(
            lambda: ask(self.client(self._cluster.coordinator(kind, key).address)),
            self._patience_s,
            recover=lambda: self._cluster.forget_coordinator(kind, key),
        )

    def any(self, ask: Callable[[RawClient], T]) -> T:
        return patiently(lambda: ask(self.client(self._cluster.any().address)), self._patience_s, recover=lambda: None)

    def client(self, address: Address) -> RawClient:
        client = self._clients.get(address)
        if client is None or not client.is_usable():
            client = self._clients[address] = self.new_client(address)
        return client

    def new_client(self, address: Address) -> RawClient:
        """A connection that is not shared."""
        settings = self._cluster.settings
        timeout_s = settings.request_timeout_ms / 1000
        return RawClient(address, timeout_s=timeout_s, client_id=settings.client_id, security=settings.security)


class Sent:
    """A request on a connection of its own whose answer nobody has read."""

    def __init__(self, client: RawClient, pending: Pending) -> None:
        self._client = client
        self._pending = pending

    def receive(self) -> Message:
        return self._client.receive(self._pending)

    def hang_up(self) -> None:
        self._client.close()


class RawProducer:
    def __init__(
        self,
        cluster: Cluster,
        protocol: TransactionProtocol = TransactionProtocol.V2,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._brokers = Brokers(cluster, patience_s)
        self.protocol = protocol
        self.who = Session()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._brokers.close()

    def init(self, transactional_id: str | None = None, timeout_ms: int = 60_000) -> Session:
        """InitProducerId without a former identity, so that an earlier owner of the id is fenced."""

        def ask(client: RawClient) -> Session:
            return client.try_init(transactional_id, timeout_ms=timeout_ms, version=4)

        if transactional_id is None:
            self.who = self._brokers.any(ask)
        else:
            self.who = self._brokers.coordinator(Coordinates.TRANSACTION, transactional_id, ask)
        return self.who

    # -- records -----------------------------------------------------------------------------------------------------

    def produce(
        self,
        where: TopicPartition,
        values: Sequence[bytes | str],
        *,
        sequence: int | None = None,
        record_key: str | None = None,
    ) -> Produced:
        """One batch, with the next sequence unless one is given. Only a batch that was written uses up a sequence."""
        first = self.who.sequences.get(where, 0) if sequence is None else sequence
        batch = self.who.batch(*where, values, sequence=first, record_key=record_key)
        version, name = PRODUCE_VERSION[self.protocol], self.who.transactional_id
        result = self._brokers.leader(
            where, lambda client: client.produce(*where, batch, transactional_id=name, version=version)
        )
        if not result.error and sequence is None:
            self.who.sequences[where] = first + len(values)
        return result

    def send(self, where: TopicPartition, values: Sequence[bytes | str], sequence: int) -> Sent:
        """Send a batch without reading the answer."""
        batch = self.who.batch(*where, values, sequence=sequence)
        client = self._brokers.leader(where, lambda leader: self._brokers.new_client(leader.address))
        fields = produce_fields({where: batch}, self.who.transactional_id)
        return Sent(client, client.request(PRODUCE, PRODUCE_VERSION[self.protocol], fields))

    # -- the transaction ---------------------------------------------------------------------------------------------

    def add_partitions(self, partitions: Iterable[TopicPartition]) -> ErrorCode:
        """AddPartitionsToTxn, of the first protocol."""
        wanted = list(partitions)
        return self._ask_coordinator(lambda client: client.add_partitions(self.who, wanted))

    def add_offsets(self, group: str) -> ErrorCode:
        """AddOffsetsToTxn, of the first protocol."""
        return self._ask_coordinator(lambda client: client.add_offsets(self.who, group))

    def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> ErrorCode:
        """TxnOffsetCommit: the offsets wait for the end of the transaction."""
        version = OFFSETS_VERSION[self.protocol]

        def ask(client: RawClient) -> ErrorCode:
            return client.commit_offsets_in_transaction(self.who, group, offsets, version=version)

        return self._brokers.coordinator(Coordinates.GROUP, group, ask)

    def end(self, *, commit: bool) -> ErrorCode:
        """EndTxn. With the second protocol the answer has the next epoch, which is used from now on."""
        version = END_TXN_VERSION[self.protocol]
        return self._ask_coordinator(lambda client: client.end(self.who, commit=commit, version=version))

    def send_end(self, *, commit: bool) -> Sent:
        """Send EndTxn without reading the answer."""
        client = self._ask_coordinator(lambda coordinator: self._brokers.new_client(coordinator.address))
        fields = {**self.who.fields, "committed": commit}
        return Sent(client, client.request(END_TXN, END_TXN_VERSION[self.protocol], fields))

    def has_markers(self) -> bool:
        """Whether the last transaction is over in its partitions, too (DescribeTransactions)."""
        name = self.who.transactional_id or ""
        state = self._ask_coordinator(lambda client: client.describe_transaction(name)).transaction_state
        return not str(state).startswith(("Prepare", "Ongoing"))

    def prepare(self, partitions: Iterable[TopicPartition], group: str | None = None) -> ErrorCode:
        """Before the first write the first protocol registers partitions and group. The second has nothing to do."""
        if self.protocol is TransactionProtocol.V2:
            return ErrorCode.NONE
        code = self.add_partitions(partitions)
        return self.add_offsets(group) if not code and group is not None else code

    def _ask_coordinator(self, ask: Callable[[RawClient], T]) -> T:
        return self._brokers.coordinator(Coordinates.TRANSACTION, self.who.transactional_id or "", ask)
