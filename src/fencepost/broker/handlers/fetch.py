"""Fetch (1): stored batches from an offset on. Waits until there are `min_bytes`, at most `max_wait_ms`.

read_committed ends at the LSO and names the aborted transactions of the range. From version 13 on topics are named by
id. Sessions (version 7) are in `fetch_sessions`. At least one batch is returned even when it is larger than every
limit (KIP-74).
"""

from collections.abc import Iterable
from typing import Any

from fencepost.broker.acl import Operation, Resource, refusal
from fencepost.broker.dispatch import Call, Parts, RawAnswer, Waiting, raw_handler
from fencepost.broker.fetch_sessions import Session, Wanted
from fencepost.broker.leadership import check_leader_epoch
from fencepost.broker.topic_rights import may_topic
from fencepost.clock import Handle
from fencepost.errors import ErrorCode, KafkaError
from fencepost.log.partition import PartitionLog
from fencepost.wire import fetch as wire
from fencepost.wire import messages
from fencepost.wire.fetch import PartitionAnswer
from fencepost.wire.frame import new_tuple
from fencepost.wire.terms import Isolation

FIRST_WITH_REPLICA_STATE = 15
#: A poll of more partitions than this rests after one of them has moved, before it answers. Its answer, and the request
#: that follows, take time in proportion to all of its partitions: answering for each that moves would be quadratic.
AT_ONCE_PARTITIONS = 200
REST_MS_PER_PARTITION = 0.005
_UNREAD = PartitionAnswer("", -1, ErrorCode.UNKNOWN_SERVER_ERROR)


@raw_handler(wire.API_KEY, versions=wire.VERSIONS)
def fetch(call: Call, frame: memoryview, body: int) -> RawAnswer:
    request = messages.api(wire.API_KEY).request.decode(call.version, frame, body)
    try:
        wanted, session, incremental = call.broker.fetch_sessions.resolve(request)
    except KafkaError as error:
        call.note_errors([error.code])
        return wire.encode_response(call.version, call.correlation_id, [], error_code=error.code)
    poll = Poll(call, request, wanted, session, incremental=incremental)
    return poll.answer_now() or poll.wait()


class Poll:
    """One fetch, from its arrival to its answer."""

    def __init__(
        self, call: Call, request: Any, wanted: list[Wanted], session: Session | None, *, incremental: bool
    ) -> None:
        self._call = call
        self._wanted = wanted
        self._session = session
        self._incremental = incremental
        self._max_wait_ms: int = request.max_wait_ms
        self._min_bytes: int = request.min_bytes
        self._max_bytes = min(request.max_bytes, call.broker.settings.fetch_max_bytes)
        self._is_guarded = call.broker.authorizer is not None
        asks = request.replica_state if call.version >= FIRST_WITH_REPLICA_STATE else request
        self._is_replica = asks.replica_id >= 0
        self._isolation = Isolation(min(1, max(0, request.isolation_level)))
        self._is_committed = self._isolation is Isolation.READ_COMMITTED
        #: Of each wanted partition: its log at the first look, its answer at the last; and the bytes of all answers.
        self._logs: list[PartitionLog] = []
        self._answers: list[PartitionAnswer] = []
        self._size = 0
        #: While it waits: where each log is in these lists, and which have moved since the last look.
        self._watched: dict[PartitionLog, int] = {}
        self._moved: dict[PartitionLog, None] = {}
        self._rest: Handle | None = None
        self._timer: Handle
        self._waiting: Waiting

    def answer_now(self, *, time_is_up: bool = False) -> Parts | None:
        """The response, or None if it may be worth waiting."""
        urgent = self._read()
        if self._size < self._min_bytes and not urgent and not time_is_up and self._max_wait_ms > 0 and self._wanted:
            return None
        answers = self._answers
        if urgent:
            self._call.note_errors(answer.error_code for answer in answers if answer.error_code)
        session_id = 0
        if self._session is not None:
            session_id = self._session.id
            moved = self._session.answer(answers)
            answers = moved if self._incremental else answers
        return wire.encode_response(self._call.version, self._call.correlation_id, answers, session_id=session_id)

    def wait(self) -> Waiting:
        self._waiting = Waiting(self._stop_watching)
        self._timer = self._call.broker.clock.call_later(self._max_wait_ms, self._time_is_up)
        # No partition is missing: one without a log is an error, which is answered at once.
        self._watched = {log: index for index, log in enumerate(self._logs)}
        self._call.broker.progress.watch(self, self._watched)
        return self._waiting

    def look_again(self, moved: Iterable[PartitionLog]) -> None:
        self._moved.update(dict.fromkeys(moved))
        if len(self._wanted) <= AT_ONCE_PARTITIONS:
            self._look()
        elif self._rest is None:
            rest_ms = REST_MS_PER_PARTITION * len(self._wanted)
            self._rest = self._call.broker.clock.call_later(rest_ms, self._look)

    def _look(self) -> None:
        self._rest = None
        self._resolve(self.answer_now())

    def _time_is_up(self) -> None:
        self._moved.clear()  # so that it looks at all, also at what was deleted
        self._resolve(self.answer_now(time_is_up=True))

    def _resolve(self, parts: Parts | None) -> None:
        if parts is not None:
            self._stop_watching()
            self._waiting.release(parts)

    def _stop_watching(self) -> None:
        self._timer.cancel()
        if self._rest is not None:
            self._rest.cancel()
        self._call.broker.progress.forget(self, self._watched)

    def _read(self) -> bool:
        """Bring the answers up to date. Says whether one of them must not wait (an error, a divergence)."""
        moved, self._moved = self._moved, {}
        if moved and self._size == 0 and len(self._watched) == len(self._wanted):
            # The others stand where they were, without data.
            looked_at: Iterable[int] = sorted(self._watched[log] for log in moved)
        else:
            looked_at = range(len(self._wanted))
            self._answers = [_UNREAD] * len(self._wanted)
        logs = []
        left = self._max_bytes
        size = 0
        urgent = False
        for index in looked_at:
            wanted = self._wanted[index]
            try:
                log = self._find(wanted)
                logs.append(log)
                answer = self._read_one(log, wanted, left, first=size == 0)
            except KafkaError as error:
                answer = PartitionAnswer(wanted.topic, wanted.partition, error.code)
            self._answers[index] = answer
            if answer.records:
                got = len(answer.records)
                size += got
                left = max(0, left - got)
            elif answer.error_code or answer.diverging is not None:
                urgent = True
        if not self._logs:
            self._logs = logs
        self._size = size
        return urgent

    def _read_one(self, log: PartitionLog, wanted: Wanted, left: int, *, first: bool) -> PartitionAnswer:
        check_leader_epoch(log, wanted.current_leader_epoch)
        if wanted.last_fetched_epoch >= 0:
            epoch, end_offset = log.end_offset_for_epoch(wanted.last_fetched_epoch)
            if epoch < wanted.last_fetched_epoch or end_offset < wanted.fetch_offset:
                return PartitionAnswer(wanted.topic, wanted.partition, 0, diverging=(epoch, end_offset))
        end = log.last_stable_offset if self._is_committed else log.high_watermark
        if end <= wanted.fetch_offset <= log.log_end_offset:  # at the end, as most partitions of most polls are
            state = (log.high_watermark, log.last_stable_offset, log.log_start_offset)
            none_aborted: list[tuple[int, int]] | None = [] if self._is_committed else None
            return new_tuple(PartitionAnswer, (wanted.topic, wanted.partition, 0, *state, none_aborted, None, None))
        limit = min(wanted.max_bytes, left)
        got = log.read(wanted.fetch_offset, limit, self._isolation, at_least_one_batch=first)
        return PartitionAnswer(
            wanted.topic,
            wanted.partition,
            0,
            got.high_watermark,
            got.last_stable_offset,
            got.log_start_offset,
            None if got.aborted is None else [(entry.producer_id, entry.first_offset) for entry in got.aborted],
            None,
            got.records,
        )

    def _find(self, wanted: Wanted) -> PartitionLog:
        if self._is_guarded and not self._may_read(wanted.topic):
            raise refusal(Resource.TOPIC)
        topics = self._call.broker.topics
        if isinstance(wanted.topic, bytes):
            log = topics.log_by_id(wanted.topic, wanted.partition)
            if log is None and topics.by_id(wanted.topic) is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        else:
            log = topics.log(wanted.topic, wanted.partition)
        if log is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return log

    def _may_read(self, topic: str | bytes) -> bool:
        """Another broker, which asks as a replica, needs the right of brokers."""
        if self._is_replica:
            return self._call.may(Operation.CLUSTER_ACTION, Resource.CLUSTER)
        return may_topic(self._call, Operation.READ, topic)
