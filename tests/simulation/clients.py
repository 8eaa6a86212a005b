"""What all clients share: asking, and asking again.

A request that was not answered is sent again on a new connection until it is; only a refusal ends that.
"""

import asyncio
import itertools
import random
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from fencepost.clock import ManualClock, pause
from fencepost.errors import ErrorCode
from fencepost.wire import messages
from fencepost.wire.codec import Message
from fencepost.wire.frame import skip_tags
from tests.simulation.machine import Loop
from tests.simulation.network import Link, Network

TOPIC = "t"
PARTITIONS = 3
GROUP = "g"  #: its offsets are committed in transactions
PLAIN_GROUP = "c"
MEMBERS_GROUP = "m"
TIMEOUT_MS = 2_000

PRODUCE, FETCH, METADATA, OFFSET_COMMIT, OFFSET_FETCH, CREATE_TOPICS = 0, 1, 3, 8, 9, 19
JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP = 11, 12, 13, 14
INIT_PRODUCER_ID, END_TXN, TXN_OFFSET_COMMIT = 22, 26, 28
VERSIONS = {
    PRODUCE: 12, FETCH: 12, METADATA: 12, OFFSET_COMMIT: 9, OFFSET_FETCH: 7, CREATE_TOPICS: 7,
    JOIN_GROUP: 9, HEARTBEAT: 4, LEAVE_GROUP: 5, SYNC_GROUP: 5, INIT_PRODUCER_ID: 5, END_TXN: 5, TXN_OFFSET_COMMIT: 5,
}  # fmt: skip

#: The same request again, a little later.
RETRIABLE = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNSTABLE_OFFSET_COMMIT,
}  # fmt: skip


class Refused(Exception):
    """An answer that no repetition changes."""

    def __init__(self, code: int) -> None:
        super().__init__(ErrorCode(code).name)
        self.code = ErrorCode(code)


class Notes:
    """What happened, line by line."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._start_ms = clock.now_ms()
        self.lines: list[str] = []

    def add(self, who: str, what: str) -> None:
        self.lines.append(f"{self._clock.now_ms() - self._start_ms:6d} {who} {what}")


@dataclass
class Client:
    """One connection at a time, one request at a time."""

    name: str
    network: Network
    clock: ManualClock
    loop: Loop
    rng: random.Random
    notes: Notes

    def __post_init__(self) -> None:
        self._ids = itertools.count(1)
        self._link: Link | None = None

    async def pause(self, longest_ms: int, shortest_ms: int = 0) -> None:
        await pause(self.clock, self.rng.randint(shortest_ms, longest_ms))

    async def ask(self, key: int, fields: Mapping[str, Any]) -> Message:
        """Until there is an answer."""
        while True:
            frame = await self.ask_once(key, fields)
            if frame is not None:
                response = messages.api(key).response
                body = skip_tags(frame, 4) if VERSIONS[key] in response.flexible else 4
                return response.decode(VERSIONS[key], memoryview(frame), body)
            self.hang_up()
            await self.pause(200, 10)

    async def ask_until(
        self, key: int, fields: Mapping[str, Any], code_of: Callable[[Message], int] = attrgetter("error_code")
    ) -> Message:
        """Until the answer is not one of those that say "later"; Refused if it is an error."""
        while True:
            answer = await self.ask(key, fields)
            code = code_of(answer)
            if code == ErrorCode.NONE:
                return answer
            if code not in RETRIABLE:
                raise Refused(code)
            await self.pause(100, 10)

    def hang_up(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    async def ask_once(self, key: int, fields: Mapping[str, Any]) -> bytes | None:
        """The bytes of the answer, None when there is none."""
        answered: asyncio.Future[bytes | None] = self.loop.create_future()

        def settle(frame: bytes | None) -> None:
            if not answered.done():
                answered.set_result(frame)

        frame = _request(key, next(self._ids), fields)
        self._link = self._link or self.network.connect()
        self._link.listen(settle, lambda: settle(None))
        self._link.send(frame)
        self.network.repeat(frame)
        patience = self.clock.call_later(self.rng.randint(1_600, 3_000), lambda: settle(None))
        try:
            return await answered
        finally:
            patience.cancel()


def offset_code(answer: Message) -> int:
    """The code of the one partition whose offset was committed."""
    code: int = answer.topics[0].partitions[0].error_code
    return code


def _request(key: int, correlation_id: int, fields: Mapping[str, Any]) -> bytes:
    version = VERSIONS[key]
    request = messages.api(key).request
    tags = b"\x00" if version in request.flexible else b""
    body = struct.pack(">hhihs", key, version, correlation_id, 1, b"c") + tags + request.encode(version, fields)
    return struct.pack(">i", len(body)) + bytes(body)
