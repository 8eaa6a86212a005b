"""Fetch sessions (KIP-227): the broker remembers what a reader reads, so that it need not say it again.

A full request (epoch 0) opens a session; incremental ones name only what changed, and are answered only with what
moved. When all slots are taken the least recently used session makes room; its reader is told
FETCH_SESSION_ID_NOT_FOUND and starts over. Epoch -1 asks for no session, or ends one.
"""

import random
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from fencepost.errors import ErrorCode, KafkaError
from fencepost.wire.fetch import PartitionAnswer

FINAL_EPOCH, INITIAL_EPOCH = -1, 0
EPOCH_MAX = ID_MAX = 2**31 - 1

Key = tuple[str | bytes, int]


@dataclass(slots=True)
class Wanted:
    """One partition that a reader wants, and what it was last told of it."""

    topic: str | bytes
    partition: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int
    last_fetched_epoch: int
    told: tuple[int, int, int] | None = None  #: high watermark, LSO, log start offset


@dataclass(slots=True)
class Session:
    id: int
    epoch: int
    partitions: OrderedDict[Key, Wanted] = field(default_factory=OrderedDict)

    def answer(self, answers: list[PartitionAnswer]) -> list[PartitionAnswer]:
        """Only what moved since the last answer. Partitions that had data go to the end, so that all get their turn."""
        moved = []
        for answer in answers:
            wanted = self.partitions.get((answer.topic, answer.partition))
            if wanted is None:
                continue
            state = (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset)
            has_data = answer.records is not None and len(answer.records) > 0
            if has_data or answer.error_code or answer.diverging or state != wanted.told:
                moved.append(answer)
                # An error is repeated in every answer until it is gone.
                wanted.told = None if answer.error_code else state
            if has_data:
                self.partitions.move_to_end((answer.topic, answer.partition))
        return moved


class FetchSessions:
    def __init__(self, slots: int, rng: random.Random | None = None) -> None:
        """`rng` makes ids that nobody can guess: who has a session's id can end it, and see the names in it."""
        self._slots = slots
        self._sessions: OrderedDict[int, Session] = OrderedDict()
        self._rng = rng or random.SystemRandom()

    def resolve(self, request: Any) -> tuple[list[Wanted], Session | None, bool]:
        """What to fetch, the session it belongs to, and whether the answer is incremental."""
        epoch = request.session_epoch
        if epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            self._sessions.pop(request.session_id, None)
            wanted = list(_wanted(request))
            if epoch == FINAL_EPOCH or self._slots <= 0:
                return wanted, None, False
            return wanted, self._open(wanted), False
        session = self._sessions.get(request.session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        self._sessions.move_to_end(session.id)
        session.epoch = 1 if epoch == EPOCH_MAX else epoch + 1
        _update(session, request)
        return list(session.partitions.values()), session, True

    def _open(self, wanted: list[Wanted]) -> Session:
        if len(self._sessions) >= self._slots:
            self._sessions.popitem(last=False)
        session = Session(self._unused_id(), epoch=1)
        for entry in wanted:
            session.partitions[entry.topic, entry.partition] = entry
        self._sessions[session.id] = session
        return session

    def _unused_id(self) -> int:
        while (chosen := self._rng.randint(1, ID_MAX)) in self._sessions:
            pass
        return chosen


def _wanted(request: Any) -> Iterable[Wanted]:
    for topic in request.topics:
        key = _name_or_id(topic)
        for entry in topic.partitions:
            yield Wanted(
                key,
                entry.partition,
                entry.fetch_offset,
                entry.partition_max_bytes,
                entry.current_leader_epoch,
                entry.last_fetched_epoch,
            )


def _name_or_id(topic: Any) -> str | bytes:
    """The topic's name or id, whichever this version of the request has. An empty name counts as a name."""
    key: str | bytes = topic.topic if "topic" in vars(topic) else topic.topic_id
    return key


def _update(session: Session, request: Any) -> None:
    for topic in request.forgotten_topics_data:
        for partition in topic.partitions:
            session.partitions.pop((_name_or_id(topic), partition), None)
    for entry in _wanted(request):
        known = session.partitions.get((entry.topic, entry.partition))
        entry.told = known.told if known else None
        session.partitions[entry.topic, entry.partition] = entry
