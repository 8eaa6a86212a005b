"""Fetching a range of one partition, answer by answer, with the next fetch under way while one is decoded.

All of the range is fetched, or an error is raised: a caller that commits `end` afterwards skips nothing. So if a
partition ends before `end`, the reader waits: a new leader may not know its high watermark yet. If the last offsets of
the range have no records (markers, compaction), the fetch finds nothing up to an end beyond the range, and the range is
done.

Knows nothing of records: `reading` makes Arrow columns of the bytes, `scanning` batches.
"""

import enum
import logging

from fencepost.client.cluster import Cluster
from fencepost.client.connection import Connection, Pending
from fencepost.client.offsets import earliest, earliest_local, latest
from fencepost.client.retry import BUSY, LEADER_MOVED, Retry, known_code
from fencepost.client.rights import Operation, wanted
from fencepost.errors import ConnectionLost, ErrorCode, Malformed, OffsetsOutOfRange
from fencepost.wire.codec import NULL_UUID, Message
from fencepost.wire.fetch import API_KEY as FETCH
from fencepost.wire.fetch import FIRST_WITH_TOPIC_IDS, VERSIONS, Aborted
from fencepost.wire.terms import Isolation, TopicPartition

logger = logging.getLogger(__name__)

DEFAULT_FETCH_BYTES = 8 << 20
MAX_WAIT_MS = 500
#: A fetch does not ask for much more than what is left of the range, as far as that can be guessed.
MIN_FETCH_BYTES = 64 << 10
GUESSED_RECORD_BYTES = 1 << 10


class OnDataLoss(enum.Enum):
    """What to do when records of the range have been deleted."""

    FAIL = enum.auto()
    SKIP = enum.auto()  #: continue with what is left, and log it


def aborted_in(answer: Message) -> list[Aborted]:
    """The aborted transactions that have records in an answer."""
    return [Aborted(entry.producer_id, entry.first_offset) for entry in answer.aborted_transactions or ()]


class RangeReader:
    """Fetches one answer after the other. `receive` gives the answer that `advance` then accounts for."""

    def __init__(
        self,
        cluster: Cluster,
        where: TopicPartition,
        start: int,
        end: int,
        isolation: Isolation,
        on_data_loss: OnDataLoss,
        fetch_bytes: int,
    ) -> None:
        self._cluster = cluster
        self._where = where
        self.position = start
        self._end = end
        self._isolation = isolation
        self._on_data_loss = on_data_loss
        self._fetch_bytes = fetch_bytes
        self._record_bytes = float(GUESSED_RECORD_BYTES)
        self._topic_id = cluster.topic(where.topic).id
        self._leader_epoch = -1  #: of the last fetch
        self._connection: Connection | None = None
        self._pending: Pending | None = None
        self._retry: Retry | None = None
        self._buffer = bytearray()

    def close(self) -> None:
        if self._connection is not None:
            self._cluster.release(self._connection)
            self._connection = None

    @wanted(Operation.READ)
    def receive(self) -> Message | None:
        """The next answer without an error; None at the end of the range. Valid until the next call."""
        while self.position < self._end:
            reason: object
            try:
                if self._pending is None:
                    self._send()
                answer = self._receive()
                code = answer if isinstance(answer, ErrorCode) else known_code(answer.error_code)
                if code is ErrorCode.NONE and isinstance(answer, Message):
                    return answer
                if code is ErrorCode.OFFSET_OUT_OF_RANGE and self._skip_what_is_lost():
                    continue
                if code not in LEADER_MOVED | BUSY | {ErrorCode.OFFSET_OUT_OF_RANGE}:
                    text = f"reading {self._where} at offset {self.position}"
                    raise self._cluster.refusal(FETCH, code, self._where.topic, text)
                reason = code
            except ConnectionLost as error:
                reason = error
            self._start_over()
            self._wait(reason)
        return None

    def advance(self, answer: Message, next_offset: int) -> None:
        """Account for an answer whose whole batches end at `next_offset`, and ask for what follows."""
        size = len(answer.records or b"")
        if next_offset > self.position:
            self._record_bytes = size / (next_offset - self.position)
            self.position = next_offset
            self._retry = None
        elif size:
            raise Malformed(f"{self._where}: {size} bytes at offset {self.position} contain no complete batch")
        else:
            visible = answer.high_watermark
            if self._isolation is Isolation.READ_COMMITTED:
                visible = answer.last_stable_offset
            if visible < self._end:
                self._wait(f"it is to be read up to offset {self._end}, but what can be read ends at {visible}")
            elif self._is_local():  # at least one batch is returned if there is one, so there is none up to `visible`
                self.position = self._end
                return
            else:
                self._wait(f"nothing was found from offset {self.position} on, in time or at all")
        if self.position < self._end:
            try:
                self._send()
            except ConnectionLost:
                self._start_over()

    # -- inside ------------------------------------------------------------------------------------------------------

    def _send(self) -> None:
        topic, partition = self._where
        if self._connection is None:
            self._connection = self._cluster.borrow(self._cluster.leader_address(topic, partition))
        known = self._cluster.topic(topic)
        if known.id != self._topic_id:
            raise OffsetsOutOfRange(f"topic {topic!r} was deleted and created again while {self._where} was read")
        left_bytes = int(1.25 * self._record_bytes * (self._end - self.position)) + MIN_FETCH_BYTES
        limit = min(self._fetch_bytes, left_bytes)
        entry = {"partition": partition, "fetch_offset": self.position, "partition_max_bytes": limit}
        entry["current_leader_epoch"] = self._leader_epoch = known.partitions[partition].leader_epoch
        fields = {
            "max_wait_ms": MAX_WAIT_MS,
            "min_bytes": 1,
            "max_bytes": limit,
            "isolation_level": self._isolation,
            "topics": [{"topic": topic, "topic_id": known.id, "partitions": [entry]}],
        }
        newest = VERSIONS[1] if known.id != NULL_UUID else FIRST_WITH_TOPIC_IDS - 1
        self._pending = self._connection.send(FETCH, fields, highest=newest)

    def _receive(self) -> Message | ErrorCode:
        """The partition's part of the answer, or what the whole answer says instead."""
        if self._connection is None or self._pending is None:
            raise ConnectionLost("nothing was asked")
        pending, self._pending = self._pending, None
        answer = self._connection.receive(pending, allocate=self._allocate)
        if answer.error_code:
            return known_code(answer.error_code)
        if not answer.responses:  # how a broker answers a client that is over its quota
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        partition: Message = answer.responses[0].partitions[0]
        return partition

    def _allocate(self, size: int) -> memoryview:
        """One buffer for all answers: each is decoded before the next is received."""
        if len(self._buffer) < size:
            self._buffer = bytearray(max(size, self._fetch_bytes + MIN_FETCH_BYTES))
        return memoryview(self._buffer)[:size]

    def _is_local(self) -> bool:
        """Whether what comes next lies with the leader: tiered storage answers with nothing when it is slow.

        That is what the leader of the last fetch says. Another one may hold more of the partition.
        """
        topic, partition = self._where
        is_local = earliest_local(self._cluster, self._where) <= self.position
        return is_local and self._cluster.topic(topic).partitions[partition].leader_epoch == self._leader_epoch

    def _start_over(self) -> None:
        """The leader has changed, or the connection broke."""
        self.close()
        self._pending = None
        self._cluster.forget_topic(self._where.topic)

    def _wait(self, reason: object) -> None:
        if self._retry is None:
            self._retry = Retry(f"reading {self._where}", self._cluster.settings)
        self._retry.wait(reason)

    def _skip_what_is_lost(self) -> bool:
        """False if the position will be in range as soon as the leader has caught up."""
        begin = earliest(self._cluster, [self._where])[self._where]
        visible_end = latest(self._cluster, [self._where], Isolation.READ_UNCOMMITTED)[self._where]
        if begin <= self.position <= visible_end:
            return False
        lost = (
            f"{self._where}: records from offset {self.position} on are gone, deleted by retention or with their "
            f"topic; the partition now holds offsets {begin} to {visible_end}"
        )
        if self._on_data_loss is OnDataLoss.FAIL:
            raise OffsetsOutOfRange(lost)
        logger.warning("%s; they are skipped", lost)
        self.position = begin if begin > self.position else self._end
        return True
