"""Writing finished record batches, mostly in a shared transaction: stamped, several partitions per request, five in
flight.

The rule: *a partition has one writer per epoch*. Sequences start at 0, so a broker takes a second writer's first batch
for a retry of the first one's and drops it silently. The process that made the identity decides who may write. Here a
batch keeps its sequence for ever, so sending it again after a lost answer is harmless. Every other doubt raises.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from fencepost.client.cluster import Cluster
from fencepost.client.connection import Connection, Pending
from fencepost.client.identity import ProducerIdentity, TransactionProtocol
from fencepost.client.produce_parts import ACKS_ALL, Records, produce_parts
from fencepost.client.registration import PRODUCE, fenced_message, produce_versions, register_partitions
from fencepost.client.retry import BUSY, COORDINATOR_MOVED, FENCED, LEADER_MOVED, Retry, describe, known_code
from fencepost.client.rights import Operation, is_denial, wanted
from fencepost.client.stamp import Stamped, following, stamp
from fencepost.errors import ConnectionLost, ErrorCode, Fenced, GaveUp, InvariantBroken, WriteFailed
from fencepost.wire.codec import NULL_UUID, Buffer, Message
from fencepost.wire.produce import FIRST_WITH_TOPIC_IDS
from fencepost.wire.terms import Address, TopicPartition

#: A broker remembers the last five batches of a producer in a partition. It could not recognise retries of older ones.
MAX_IN_FLIGHT = 5
MAX_REQUEST_BYTES = 4 << 20
#: A smaller request waits for more batches while another one is in flight.
WORTH_SENDING_BYTES = 256 << 10
MAX_BUFFERED_BYTES = 16 << 20

AGAIN = LEADER_MOVED | COORDINATOR_MOVED | BUSY
TOO_LARGE_HINT = (
    ": the topic's max.message.bytes is smaller than a batch. The right DescribeConfigs lets the writer see it; or set "
    "kafka.batch.size"
)
TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


@dataclass(slots=True)
class Acknowledged:
    """What a partition has acknowledged."""

    records: int = 0
    bytes: int = 0
    first_offset: int = -1
    last_offset: int = -1


@dataclass(slots=True)
class _Batch:
    stamped: Stamped
    times_sent: int = 0


@dataclass(slots=True)
class _Lane:
    """The unacknowledged batches of one partition, oldest first; the first `in_flight` have been sent."""

    where: TopicPartition
    batches: deque[_Batch] = field(default_factory=deque)
    in_flight: int = 0
    sequence: int = 0
    #: Later batches wait until the first is acknowledged: a broker that does not know the producer yet may accept a
    #: later batch although it refused the first. Then the first can never be written.
    in_flight_max: int = 1
    has_failed: bool = False
    #: Whether it is in line to be sent.
    is_queued: bool = False
    acknowledged: Acknowledged = field(default_factory=Acknowledged)

    @property
    def can_send(self) -> bool:
        return self.in_flight < min(len(self.batches), self.in_flight_max)


@dataclass(slots=True)
class _Leader:
    """The lanes that have a batch to send to one broker, first come first served."""

    address: Address
    lanes: deque[_Lane] = field(default_factory=deque)
    #: Of the next batch of each.
    bytes: int = 0

    def add(self, lane: _Lane) -> None:
        self.lanes.append(lane)
        self.bytes += lane.batches[lane.in_flight].stamped.size

    def take(self) -> list[_Lane]:
        """What goes into one request."""
        chosen: list[_Lane] = []
        size = 0
        while self.lanes:
            lane = self.lanes[0]
            batch_size = lane.batches[lane.in_flight].stamped.size
            if chosen and size + batch_size > MAX_REQUEST_BYTES:
                break
            size += batch_size
            lane.is_queued = False
            chosen.append(self.lanes.popleft())
        self.bytes -= size
        return chosen


class _Request(NamedTuple):
    pending: Pending
    connection: Connection
    lanes: dict[tuple[str | bytes, int], _Lane]


class TransactionWriter:
    """Writes in the transaction of `identity`, or idempotently if it has none. For one thread.

    `flush` and the end of `with` wait for all answers.

    with TransactionWriter(cluster, identity) as writer:
        writer.write(TopicPartition("invoices", 0), blob)
    """

    def __init__(
        self,
        cluster: Cluster,
        identity: ProducerIdentity,
        partitions: Iterable[TopicPartition] = (),
        *,
        acks: int = ACKS_ALL,
    ) -> None:
        """`partitions` are expected."""
        self._cluster = cluster
        self._identity = identity
        self._acks = acks
        self._lanes: dict[TopicPartition, _Lane] = {}
        self._connections: dict[Address, Connection] = {}
        #: Lanes in line to be sent: those whose leader has not been looked up yet, and the others by leader. So a write
        #: costs the same however many partitions there are.
        self._unplaced: list[_Lane] = []
        self._leaders: dict[Address, _Leader] = {}
        self._requests: deque[_Request] = deque()
        self._buffered_bytes = 0
        self._unregistered: set[TopicPartition] = set()
        self._retry: Retry | None = None
        self._is_broken = False
        self._is_cancelled = False
        self.expect(partitions)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: object, _traceback: object) -> None:
        try:
            if error is None:
                self.flush()
        finally:
            self.close()

    def close(self) -> None:
        """Give the connections back. What has not been flushed is not written."""
        for connection in self._connections.values():
            self._cluster.release(connection)
        self._connections.clear()
        self._is_broken = True

    @property
    def written(self) -> dict[TopicPartition, Acknowledged]:
        return {where: lane.acknowledged for where, lane in self._lanes.items()}

    def expect(self, partitions: Iterable[TopicPartition]) -> None:
        """These are written to next: with protocol 1 they are registered in one request."""
        for where in partitions:
            self._lane(where)

    def cancel(self) -> None:
        """From any thread: what waits for a broker now fails soon, and so does all that is called later."""
        self._is_cancelled = True
        for connection in [*self._connections.values()]:
            connection.interrupt()

    def write(self, where: TopicPartition, blob: Buffer) -> None:
        """Add one finished batch. Returns before it is written, but waits while the buffer is full."""
        lane = self._lane(where)
        stamped = stamp(blob, self._identity, lane.sequence)
        lane.sequence = following(lane.sequence, stamped.record_count)
        lane.batches.append(_Batch(stamped))
        self._buffered_bytes += stamped.size
        self._queue(lane)
        self._work(MAX_BUFFERED_BYTES)

    def flush(self) -> None:
        """Wait until everything is acknowledged."""
        self._work(0)

    def _lane(self, where: TopicPartition) -> _Lane:
        lane = self._lanes.get(where)
        if lane is None:
            lane = self._lanes[where] = _Lane(where)
            if self._identity.is_transactional and self._identity.protocol is TransactionProtocol.V1:
                self._unregistered.add(where)
        return lane

    # -- the loop ----------------------------------------------------------------------------------------------------

    def _work(self, buffered_max: int) -> None:
        """Send and receive until at most `buffered_max` bytes are unacknowledged."""
        if self._is_broken:
            raise InvariantBroken("the writer has failed or was closed")
        if self._is_cancelled:
            raise WriteFailed("writing was cancelled")
        try:
            with wanted(Operation.WRITE):
                self._register()
                self._send_ready(flush=buffered_max == 0)
                while self._buffered_bytes > buffered_max:
                    if self._requests:
                        self._receive()
                    self._send_ready(flush=True)
        except GaveUp as error:
            self._is_broken = True
            raise WriteFailed(str(error)) from None
        except BaseException:
            self._is_broken = True
            raise

    def _register(self) -> None:
        if self._unregistered:
            register_partitions(self._cluster, self._identity, sorted(self._unregistered))
            self._unregistered.clear()

    def _queue(self, lane: _Lane) -> None:
        if lane.can_send and not lane.is_queued:
            lane.is_queued = True
            self._unplaced.append(lane)

    def _send_ready(self, *, flush: bool) -> None:
        """Send as much as possible to every leader."""
        while True:
            try:
                for lane in self._unplaced:
                    address = self._cluster.leader_address(*lane.where)
                    leader = self._leaders.get(address)
                    if leader is None:
                        leader = self._leaders[address] = _Leader(address)
                    leader.add(lane)
                self._unplaced.clear()
                sent = [self._send(leader, flush=flush) for leader in self._leaders.values() if leader.lanes]
            except ConnectionLost as error:
                self._start_over(error)
                continue
            if not any(sent):
                return

    def _send(self, leader: _Leader, *, flush: bool) -> bool:
        """Send one request, if the leader may have another one in flight and it is large enough."""
        connection = self._connections.get(leader.address)
        if connection is None:
            connection = self._connections[leader.address] = self._cluster.borrow(leader.address)
        if connection.in_flight >= MAX_IN_FLIGHT:
            return False
        if leader.bytes < WORTH_SENDING_BYTES and connection.in_flight and not flush:
            return False
        chosen = leader.take()
        self._requests.append(self._send_batches(connection, chosen))
        for lane in chosen:
            self._queue(lane)
        return True

    def _send_batches(self, connection: Connection, lanes: list[_Lane]) -> _Request:
        lowest, highest = produce_versions(self._identity)
        ids = {lane.where.topic: self._cluster.topic(lane.where.topic).id for lane in lanes}
        if NULL_UUID in ids.values():
            highest = min(highest, FIRST_WITH_TOPIC_IDS - 1)
        version = connection.version(PRODUCE, lowest, highest)
        topics: dict[str | bytes, list[Records]] = {}
        by_name: dict[tuple[str | bytes, int], _Lane] = {}
        for lane in lanes:
            batch = lane.batches[lane.in_flight]
            name = ids[lane.where.topic] if version >= FIRST_WITH_TOPIC_IDS else lane.where.topic
            pieces = (batch.stamped.header, batch.stamped.records)
            topics.setdefault(name, []).append(Records(lane.where.partition, pieces))
            by_name[name, lane.where.partition] = lane
            batch.times_sent += 1
            lane.in_flight += 1
        timeout_ms = self._cluster.settings.request_timeout_ms
        parts = produce_parts(version, self._identity.transactional_id or None, timeout_ms, topics, self._acks)
        return _Request(connection.send_parts(PRODUCE, version, parts), connection, by_name)

    # -- answers -----------------------------------------------------------------------------------------------------

    def _receive(self) -> None:
        """Receive the answer to the oldest request. After a failure receive the others, and send again."""
        failure: object
        try:
            failure = self._receive_one()
        except ConnectionLost as error:
            failure = error
        if failure is None:
            self._retry = None
        else:
            self._start_over(failure)

    def _receive_one(self) -> ErrorCode | None:
        """Handle one answer. Returns the first code that calls for a retry."""
        request = self._requests.popleft()
        answer = request.connection.receive(request.pending)
        failure = None
        waiting = dict(request.lanes)
        for topic in answer.responses:
            name = topic.topic_id if request.pending.version >= FIRST_WITH_TOPIC_IDS else topic.name
            for result in topic.partition_responses:
                lane = waiting.pop((name, result.index), None)
                if lane is not None and self._settle(lane, result) is not None:
                    failure = failure or known_code(result.error_code)
        if waiting:
            request.connection.close()
            raise ConnectionLost(f"{request.connection.address} did not answer for every partition")
        return failure

    def _settle(self, lane: _Lane, result: Message) -> ErrorCode | None:
        """Handle the result of a lane's oldest batch in flight. Returns a code if it must be sent again."""
        code = known_code(result.error_code)
        if lane.has_failed:  # later batches are out of order, and refused
            if code is not ErrorCode.NONE:
                return code
            raise WriteFailed(f"{lane.where}: a batch was accepted although the one before it was not")
        batch = lane.batches[0]
        if code is ErrorCode.NONE or (code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER and batch.times_sent > 1):
            self._acknowledge(lane, batch.stamped, result.base_offset)
            return None
        if code in AGAIN:
            lane.has_failed = True
            return code
        if code in FENCED or code is ErrorCode.INVALID_PRODUCER_ID_MAPPING:
            raise Fenced(f"{lane.where}: {fenced_message(self._identity, code)}")
        if is_denial(code):
            on_id = code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            name = self._identity.transactional_id if on_id else lane.where.topic
            raise self._cluster.refusal(PRODUCE, code, name, str(lane.where))
        hint = TOO_LARGE_HINT if code in TOO_LARGE else ""
        raise WriteFailed(f"{lane.where}: {code.name} {result.error_message or ''}".rstrip() + hint)

    def _acknowledge(self, lane: _Lane, stamped: Stamped, base_offset: int) -> None:
        lane.batches.popleft()
        lane.in_flight -= 1
        lane.in_flight_max = MAX_IN_FLIGHT
        self._queue(lane)
        self._buffered_bytes -= stamped.size
        written = lane.acknowledged
        written.records += stamped.record_count
        written.bytes += stamped.size
        if base_offset >= 0:
            if base_offset <= written.last_offset:
                raise WriteFailed(f"{lane.where}: the broker gave offset {base_offset} twice; is there another writer?")
            written.first_offset = base_offset if written.first_offset < 0 else written.first_offset
            written.last_offset = base_offset + stamped.record_count - 1

    def _start_over(self, reason: object) -> None:
        """Receive the other answers, then prepare to send again from the first unacknowledged batch of each lane."""
        if self._is_cancelled:
            raise WriteFailed("writing was cancelled")
        while self._requests:
            try:
                self._receive_one()
            except ConnectionLost:
                pass  # so are all later ones on that connection
        for address, connection in [*self._connections.items()]:
            if not connection.is_usable():
                del self._connections[address]
        self._leaders.clear()
        self._unplaced.clear()
        for lane in self._lanes.values():
            lane.is_queued = False
            if lane.batches:  # also if none was sent: its leader may have moved, and take no connection any more
                self._cluster.forget_topic(lane.where.topic)
            if lane.has_failed or lane.in_flight:
                lane.has_failed, lane.in_flight, lane.in_flight_max = False, 0, 1
            self._queue(lane)
        if self._retry is None:
            self._retry = Retry(f"writing in {self._identity}", self._cluster.settings)
        self._retry.wait(describe(reason))
