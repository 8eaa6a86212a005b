"""Asking many brokers at once: requests go out to all of them before the first answer is awaited.

Somebody who looks at a cluster in trouble wants what can be had, soon. So nothing here waits for a broker to come back:
an answer has what was found, and for the rest the reason why it is missing.

Invariant: no connection is left with an answer outstanding.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from fencepost.client.cluster import Cluster
from fencepost.client.connection import Connection, Pending
from fencepost.client.retry import BUSY, LEADER_MOVED, known_code
from fencepost.errors import ConnectionLost, ErrorCode, Unsupported
from fencepost.wire.codec import ALWAYS, Message
from fencepost.wire.terms import Address, TopicPartition

#: A leader may have moved, or be about to lead. After this many attempts the reason counts.
ATTEMPTS = 3
PAUSE_S = 0.1
#: Partitions in one request.
CHUNK = 500

K = TypeVar("K")
T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an answer is missing."""

    text: str
    code: ErrorCode | None = None  #: None if nobody answered

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Answers(Generic[K, T]):
    found: dict[K, T] = field(default_factory=dict)
    failed: dict[K, Failure] = field(default_factory=dict)

    def map(self, change: Callable[[K, T], U]) -> "Answers[K, U]":
        return Answers({key: change(key, value) for key, value in self.found.items()}, self.failed)


NO_LEADER = Failure("it has no leader", ErrorCode.LEADER_NOT_AVAILABLE)


def ask_brokers(
    cluster: Cluster,
    api_key: int,
    requests: Mapping[Address, Sequence[Mapping[str, Any]]],
    *,
    lowest: int = 0,
    highest: int = ALWAYS.last,
) -> dict[Address, list[Message] | ConnectionLost | Unsupported]:
    """The answers of each broker in the order of its requests, or why there are none."""
    found: dict[Address, list[Message] | ConnectionLost | Unsupported] = {}
    sent: dict[Address, tuple[Connection, list[Pending]]] = {}
    try:
        for address, wanted in requests.items():
            try:
                connection = cluster.connect(address)
                sent[address] = connection, []
                for fields in wanted:
                    sent[address][1].append(connection.send(api_key, fields, lowest=lowest, highest=highest))
            except (ConnectionLost, Unsupported) as error:
                found[address] = error
        for address, (connection, pending) in sent.items():
            if address in found:
                continue
            try:
                found[address] = [connection.receive(each) for each in pending]
            except ConnectionLost as error:
                found[address] = error
    finally:
        for connection, _ in sent.values():
            if connection.in_flight:
                connection.close()
    return found


def ask_leaders(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    api_key: int,
    fields_of: Callable[[Sequence[TopicPartition]], Mapping[str, Any]],
    entries_of: Callable[[Message], Iterable[tuple[TopicPartition, Message]]],
    *,
    lowest: int = 0,
) -> Answers[TopicPartition, Message]:
    """Each partition's part of its leader's answer."""
    answers: Answers[TopicPartition, Message] = Answers()
    waiting = list(dict.fromkeys(partitions))
    cluster.refresh({where.topic for where in waiting}, missing_ok=True, hidden_ok=True)
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(PAUSE_S * attempt)
            cluster.refresh({where.topic for where in waiting}, missing_ok=True, hidden_ok=True)
        again: list[TopicPartition] = []
        by_leader = _by_leader(cluster, waiting, answers)
        requests = {address: [fields_of(part) for part in _chunks(led)] for address, led in by_leader.items()}
        for address, got in ask_brokers(cluster, api_key, requests, lowest=lowest).items():
            if isinstance(got, Exception):
                is_lost = isinstance(got, ConnectionLost)
                why = Failure(f"its leader does not answer: {got}" if is_lost else str(got))
                answers.failed.update(dict.fromkeys(by_leader[address], why))
                again += by_leader[address] if is_lost else []
                continue
            for where, entry in (each for message in got for each in entries_of(message)):
                code = known_code(entry.error_code)
                if code is ErrorCode.NONE:
                    answers.found[where] = entry
                    answers.failed.pop(where, None)
                    continue
                answers.failed[where] = Failure(str(cluster.refusal(api_key, code, where.topic, str(where))), code)
                again += [where] if code in LEADER_MOVED | BUSY else []
        again += [where for where in waiting if answers.failed.get(where) is NO_LEADER]
        if not again:
            break
        waiting = again
    return answers


def _by_leader(
    cluster: Cluster, partitions: Iterable[TopicPartition], answers: Answers[TopicPartition, Message]
) -> dict[Address, list[TopicPartition]]:
    nodes, known = cluster.nodes(), cluster.known_topics()
    found: dict[Address, list[TopicPartition]] = {}
    for where in partitions:
        topic = known.get(where.topic)
        partition = None if topic is None else topic.partitions.get(where.partition)
        if topic is None:
            gone = f"topic {where.topic!r} does not exist, or is hidden from us"
            answers.failed[where] = Failure(gone, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif partition is None:
            gone = f"topic {where.topic!r} has no partition {where.partition}"
            answers.failed[where] = Failure(gone, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif partition.leader not in nodes:
            answers.failed[where] = NO_LEADER
        else:
            found.setdefault(nodes[partition.leader], []).append(where)
    return found


def _chunks(partitions: Sequence[TopicPartition]) -> Iterator[Sequence[TopicPartition]]:
    return (partitions[start : start + CHUNK] for start in range(0, len(partitions), CHUNK))
