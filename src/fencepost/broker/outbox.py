"""The way out of a connection: answers in order, stored records straight from the file to the socket.

Small answers gather until `flush`, so that what was asked together is answered with one packet. A slice of a file goes
out with `sendfile`, as much as the socket takes; the rest waits until it takes more. So a reader that is slow, or
never reads at all, holds a position in a file and not the records themselves.

The socket belongs to the event loop's transport, which reads from it; this class alone writes to it. Invariant:
nothing is written once the transport is closing, because its descriptor may be another connection's by then.
"""

import asyncio
import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from fencepost.broker.counts import BrokerCounts
from fencepost.log.slices import FileSlice

#: How much goes out of a file before other connections get their turn.
TURN_BYTES = 4 * 1024 * 1024


class Outlet(Protocol):
    """What takes bytes in place of a socket: TLS, or a simulation."""

    def room(self) -> int:
        """How much `send` takes; BlockingIOError when it is full."""

    def send(self, data: Any, flags: int = 0, /) -> int: ...

    def call_when_free(self, call: Callable[[], None] | None, /) -> None:
        """Call once, when it is not full any more. None calls nobody."""

    def detach(self) -> int: ...


class Outbox:
    __slots__ = (
        "_broken",
        "_counts",
        "_drained",
        "_gathered",
        "_is_broken",
        "_is_full",
        "_loop",
        "_out",
        "_position",
        "_transport",
        "_watched",
        "unsent",
    )

    def __init__(
        self,
        transport: asyncio.BaseTransport,
        loop: asyncio.AbstractEventLoop,
        drained: Callable[[], None],
        broken: Callable[[str, int], None],
        counts: BrokerCounts | None = None,
    ) -> None:
        """`drained` is called when a full socket has taken everything. `broken` is called when the socket fails for
        good, with the reason and the level to log it at. A transport may have an `Outlet` instead of a socket."""
        self._transport = transport
        self._loop = loop
        self._drained = drained
        self._broken = broken
        self._counts = counts or BrokerCounts((), 0)
        self._gathered = bytearray()
        #: What the socket did not take yet. While there is any, no more answers should be made.
        self.unsent: deque[bytearray | memoryview | FileSlice] = deque()
        self._position = 0  # if the first part is a slice, how much of it is sent
        self._is_broken = False
        self._is_full = False  # `_pump` is called when there is room
        self._watched = -1  # the descriptor that the loop watches meanwhile
        outlet: Outlet | None = transport.get_extra_info("outlet")
        self._out: socket.socket | Outlet = outlet or own_socket(transport.get_extra_info("socket"))

    def add(self, parts: Iterable[Any]) -> int:
        """Put an answer in line. Its bytes leave with the next `flush`, at the latest. Returns how many wait for it."""
        for part in parts:
            if isinstance(part, FileSlice):
                self._close_gathered()
                self.unsent.append(part)
            else:
                self._gathered += part
        return len(self._gathered)

    def flush(self) -> None:
        """Send what the socket takes."""
        if self._is_full or self._is_broken:
            return  # the loop will call, or the client is gone
        if not self.unsent:
            if not self._gathered:
                return
            data, self._gathered = self._gathered, bytearray()
            sent = self._send(data)
            if sent == len(data):
                return
            self.unsent.append(memoryview(data)[sent:])
        self._pump()

    def close(self) -> None:
        """Forget everything and let go of the socket, which is the transport's to close."""
        self._stop_watching()
        self.unsent.clear()
        self._gathered = bytearray()
        self._out.detach()

    # -- inside -------------------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        self._close_gathered()
        queue = self.unsent
        budget = TURN_BYTES
        while queue:
            part = queue[0]
            if isinstance(part, FileSlice):
                sent = self._send_slice(part)
            else:
                sent = self._send(part, socket.MSG_MORE if len(queue) > 1 else 0)
            if self._is_broken:
                return
            if self._position + sent == len(part):
                self._position = 0
                queue.popleft()
            elif isinstance(part, FileSlice):
                self._position += sent
            else:
                queue[0] = memoryview(part)[sent:]
            budget -= sent
            if sent == 0:
                self._watch()
                return
            if budget <= 0 and queue:
                self._loop.call_soon(self._next_turn)
                return
        if self._is_full:
            self._stop_watching()
            self._drained()

    def _next_turn(self) -> None:
        if not self._is_full:
            self._pump()
            if not self.unsent:
                self._drained()

    def _is_free(self) -> None:
        self._is_full = False
        self._next_turn()

    def _send(self, data: bytearray | memoryview, flags: int = 0) -> int:
        """How many bytes the socket took. After an error it is all of them: nobody is left to get them."""
        if self._transport.is_closing():
            return len(data)
        try:
            sent = self._out.send(data, flags)
        except OSError as error:
            return self._failed(error, len(data))
        self._counts.bytes_out += sent
        return sent

    def _send_slice(self, part: FileSlice) -> int:
        rest = len(part) - self._position
        if self._transport.is_closing():
            return rest
        try:
            sent = part.send_to(self._out, self._position)
        except OSError as error:
            return self._failed(error, rest)
        self._counts.bytes_out += sent
        if sent == 0:
            self._give_up("stored records are not in their file any more")
        return sent or rest

    def _failed(self, error: OSError, rest: int) -> int:
        if isinstance(error, BlockingIOError):
            return 0
        if isinstance(error, ConnectionError):
            self._give_up("the client has gone", logging.DEBUG)
        else:
            self._give_up(f"an answer could not be sent: {error}")
        return rest

    def _give_up(self, reason: str, level: int = logging.WARNING) -> None:
        """Forget the rest, then tell the connection: it will flush once more."""
        self._is_broken = True
        self._stop_watching()
        self.unsent.clear()
        self._gathered = bytearray()
        self._broken(reason, level)

    def _close_gathered(self) -> None:
        if self._gathered:
            self.unsent.append(self._gathered)
            self._gathered = bytearray()

    def _watch(self) -> None:
        """Wait for room. The loop refuses to watch a transport's descriptor, so it gets a copy of a socket's."""
        if self._is_full:
            return
        self._is_full = True
        if isinstance(self._out, socket.socket):
            self._watched = os.dup(self._out.fileno())
            self._loop.add_writer(self._watched, self._pump)
        else:
            self._out.call_when_free(self._is_free)

    def _stop_watching(self) -> None:
        if self._watched >= 0:
            self._loop.remove_writer(self._watched)
            os.close(self._watched)
            self._watched = -1
        elif self._is_full:
            self._out.call_when_free(None)  # type: ignore[union-attr]
        self._is_full = False


def own_socket(shared: Any) -> socket.socket:
    """A socket to write to on the transport's descriptor: asyncio's own may not be written to."""
    return socket.socket(shared.family, socket.SOCK_STREAM, shared.proto, shared.fileno())
