"""Fetch (1): stored batches from an offset on. Waits until there are `min_bytes`, at most `max_wait_ms`.

read_committed ends at the LSO and names the aborted transactions of the range. From version 13 on topics are named by
id. Sessions (version 7) are in `fetch_sessions`. At least one batch is returned even when it is larger than every
limit (KIP-74).
"""

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
from fencepost.wire.terms import Isolation

FIRST_WITH_REPLICA_STATE = 15


@raw_handler(wire.API_KEY, versions=wire.VERSIONS)
def fetch(call: Call, frame: memoryview, body: int) -> RawAnswer:
    request = messages.api(wire.API_KEY).request.decode(call.version, frame, body)
    try:
        wanted, session, incremental = call.broker.fetch_sessions.resolve(request)
    except KafkaError as error:
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
        self._logs: list[PartitionLog] = []
        self._watched: list[PartitionLog] = []
        self._timer: Handle
        self._waiting: Waiting

    def answer_now(self, *, time_is_up: bool = False) -> Parts | None:
        """The response, or None if it may be worth waiting."""
        answers, size, urgent = self._read()
        if size < self._min_bytes and not urgent and not time_is_up and self._max_wait_ms > 0 and self._wanted:
            return None
        session_id = 0
        if self._session is not None:
            session_id = self._session.id
            moved = self._session.answer(answers)
            answers = moved if self._incremental else answers
        return wire.encode_response(self._call.version, self._call.correlation_id, answers, session_id=session_id)

    def wait(self) -> Waiting:
        self._waiting = Waiting(self._stop_watching)
        self._timer = self._call.broker.clock.call_later(self._max_wait_ms, self._time_is_up)
        self._watched = self._logs
        self._call.broker.progress.watch(self, self._watched)
        return self._waiting

    def look_again(self) -> None:
        self._resolve(self.answer_now())

    def _time_is_up(self) -> None:
        self._resolve(self.answer_now(time_is_up=True))

    def _resolve(self, parts: Parts | None) -> None:
        if parts is not None:
            self._stop_watching()
            self._waiting.release(parts)

    def _stop_watching(self) -> None:
        self._timer.cancel()
        self._call.broker.progress.forget(self, self._watched)

    def _read(self) -> tuple[list[PartitionAnswer], int, bool]:
        """All partitions' answers, their bytes, and whether one of them must not wait (an error, a divergence)."""
        answers = []
        logs = []
        left = self._max_bytes
        size = 0
        urgent = False
        for wanted in self._wanted:
            try:
                log = self._find(wanted)
                logs.append(log)
                answer = self._read_one(log, wanted, left, first=size == 0)
            except KafkaError as error:
                answer = PartitionAnswer(wanted.topic, wanted.partition, error.code)
            got = 0 if answer.records is None else len(answer.records)
            size += got
            left = max(0, left - got)
            urgent = urgent or bool(answer.error_code) or answer.diverging is not None
            answers.append(answer)
        self._logs = logs
        return answers, size, urgent

    def _read_one(self, log: PartitionLog, wanted: Wanted, left: int, *, first: bool) -> PartitionAnswer:
        check_leader_epoch(log, wanted.current_leader_epoch)
        if wanted.last_fetched_epoch >= 0:
            epoch, end_offset = log.end_offset_for_epoch(wanted.last_fetched_epoch)
            if epoch < wanted.last_fetched_epoch or end_offset < wanted.fetch_offset:
                return PartitionAnswer(wanted.topic, wanted.partition, 0, diverging=(epoch, end_offset))
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
