"""Connections between clients and the machine, and what happens to messages on their way.

A connection keeps the order of its bytes, as TCP does. A message is late when its connection is slow, lost when the
connection breaks, and arrives twice when a client that heard nothing sends it again on a new connection: the old one
may still be delivered. On top of that a request is sometimes repeated as it is, long after its time.
"""

import asyncio
import random
import struct
from collections.abc import Callable
from typing import Any, cast

from fencepost.broker.connection import Connection
from fencepost.clock import ManualClock
from tests.simulation.machine import Life, Machine

#: One way, in milliseconds: mostly quick, sometimes slower than a client's patience.
LATENCY_MS = (0, 1, 1, 2, 5)
LATE_MS = 3_000
REPEATED_AFTER_MS = 8_000


class Faults:
    """How likely a message suffers what. All zero once the world has healed."""

    def __init__(self, rng: random.Random) -> None:
        scale = rng.choice((0.0, 0.01, 0.03, 0.1))
        self.late, self.breaks, self.repeated = scale, scale, scale

    def heal(self) -> None:
        self.late = self.breaks = self.repeated = 0.0


class Network:
    def __init__(self, clock: ManualClock, machine: Machine, faults: Faults, rng: random.Random) -> None:
        self.clock = clock
        self._machine = machine
        self._faults = faults
        self._rng = rng

    def connect(self) -> "Link":
        return Link(self, self._machine.life if self._machine.is_up else None)

    def latency_ms(self) -> int:
        if self._rng.random() < self._faults.late:
            return self._rng.randint(0, LATE_MS)
        return self._rng.choice(LATENCY_MS)

    def breaks(self) -> bool:
        return self._rng.random() < self._faults.breaks

    def repeat(self, frame: bytes) -> None:
        """Perhaps: a copy of a request arrives once more, much later, and nobody reads the answer."""
        if self._rng.random() < self._faults.repeated:
            delay_ms = self._rng.randint(0, REPEATED_AFTER_MS)
            self.clock.call_later(delay_ms, lambda: self.connect().send(frame))


class Link:
    """One connection, from the client's end."""

    def __init__(self, network: Network, life: Life | None) -> None:
        self._network = network
        self._life = life
        self._received: Callable[[bytes], None] = lambda _: None
        self._broken: Callable[[], None] = lambda: None
        self._is_open = True
        self._wire = Wire(self)
        self._connection: Connection | None = None
        self._to_broker = bytearray()
        self._to_client = bytearray()
        self._free_ms = [0, 0]  # when the last message of each direction arrives
        if life is None:
            self._break_soon()

    # -- the client's side

    def listen(self, received: Callable[[bytes], None], broken: Callable[[], None]) -> None:
        """`received` gets whole frames; `broken` is told when there will be no more."""
        self._received, self._broken = received, broken
        if not self._is_open:
            broken()

    def send(self, frame: bytes) -> None:
        if not self._is_open:
            return
        if self._network.breaks():
            self._break_soon()
        else:
            self._travel(0, lambda: self._arrive(frame))

    def close(self) -> None:
        """The client hangs up. What it sent still arrives."""
        self.listen(lambda _: None, lambda: None)
        self._travel(0, self._break)

    # -- on the way

    def _travel(self, direction: int, arrive: Callable[[], None]) -> None:
        now_ms = self._network.clock.monotonic_ms()
        self._free_ms[direction] = max(self._free_ms[direction], now_ms + self._network.latency_ms())
        self._network.clock.call_later(self._free_ms[direction] - now_ms, arrive)

    def _arrive(self, data: bytes) -> None:
        if not self._is_open or self._life is None or self._life.loop.is_dead():
            self._break()
            return
        self._to_broker += data
        self.feed_soon()

    def _feed(self) -> None:
        """On the broker's loop."""
        if self._connection is None:
            if self._life is None:
                return
            self._connection = self._life.node.accept()
            self._connection.connection_made(cast(asyncio.Transport, self._wire))
        while self._to_broker and self._wire.reading and not self._wire.closing:
            room = self._connection.get_buffer(-1)
            count = min(len(room), len(self._to_broker))
            room[:count] = self._to_broker[:count]
            del self._to_broker[:count]
            self._connection.buffer_updated(count)

    def _break_soon(self) -> None:
        self._network.clock.call_later(self._network.latency_ms(), self._break)

    def _break(self) -> None:
        if not self._is_open:
            return
        self._is_open = False
        self._wire.closing = True
        if self._connection is not None and self._life is not None:
            self._life.loop.call_soon(self._connection.connection_lost, None)
        self._broken()

    def _take(self, data: bytes) -> None:
        if not self._is_open:
            return
        self._to_client += data
        while len(self._to_client) >= 4:
            (size,) = struct.unpack_from(">i", self._to_client)
            if len(self._to_client) < 4 + size:
                return
            frame = bytes(self._to_client[4 : 4 + size])
            del self._to_client[: 4 + size]
            self._received(frame)

    # -- the broker's side

    def answer(self, data: bytes) -> None:
        if self._life is None or self._life.loop.is_dead():
            return
        if self._network.breaks():
            self._break_soon()
        else:
            self._travel(1, lambda: self._take(data))

    def hang_up(self) -> None:
        self._travel(1, self._break)

    def feed_soon(self) -> None:
        if self._life is not None:
            self._life.loop.call_soon(self._feed)


class Wire:
    """The broker's end of a link: asyncio's transport, and the socket that it would have."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self.closing = False
        self.reading = True

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"outlet": self, "peername": ("10.0.0.1", 1)}.get(name, default)

    def send(self, data: Any, flags: int = 0, /) -> int:
        self._link.answer(bytes(data))
        return len(data)

    def room(self) -> int:
        return 1 << 30

    def call_when_free(self, call: Callable[[], None] | None, /) -> None:
        if call is not None:
            raise AssertionError("a simulated connection is never full")

    def detach(self) -> int:
        return -1

    def is_closing(self) -> bool:
        return self.closing

    def abort(self) -> None:
        self.closing = True
        self._link.hang_up()

    close = abort

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True
        self._link.feed_soon()
