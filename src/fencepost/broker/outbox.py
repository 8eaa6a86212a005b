"""The way out of a connection: answers in order, stored records straight from the file to the socket.

Small answers gather until `flush`, so that what was asked together is answered with one packet. A slice of a file goes
out with `sendfile`, as much as the socket takes; the rest waits until it takes more. So a reader that is slow, or
never reads at all, holds a position in a file and not the records themselves.

The socket belongs to the event loop's transport, which reads from it; this class alone writes to it. Invariant:
nothing is written once the transport is closing, because its descriptor may be another connection's by then.
"""

import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from fencepost.log.slices import FileSlice

#: How much goes out of a file before other connections get their turn.
TURN_BYTES = 4 * 1024 * 1024


class Transport(Protocol):
    def get_extra_info(self, name: str, default: Any = None) -> Any: ...

    def is_closing(self) -> bool: ...


class Outlet(Protocol):
    """What bytes go into: a socket, or what stands for one."""

    def send(self, data: Any, flags: int = 0, /) -> int: ...

    def fileno(self) -> int: ...

    def detach(self) -> int: ...


class Loop(Protocol):
    """What is needed of an event loop."""

    def call_soon(self, callback: Callable[[], None], /) -> Any: ...

    def add_writer(self, fd: int, callback: Callable[[], None], /) -> None: ...

    def remove_writer(self, fd: int, /) -> bool: ...


class Outbox:
    __slots__ = (
        "_broken",
        "_drained",
        "_gathered",
        "_is_broken",
        "_loop",
        "_position",
        "_socket",
        "_transport",
        "_watched",
        "unsent",
    )

    def __init__(
        self, transport: Transport, loop: Loop, drained: Callable[[], None], broken: Callable[[str, int], None]
    ) -> None:
        """`drained` is called when a full socket has taken everything, `broken` when it takes no more for good: with
        the reason, and how loud that is to be said (a level of logging)."""
        self._transport = transport
        self._loop = loop
        self._drained = drained
        self._broken = broken
        self._gathered = bytearray()
        #: What the socket did not take yet. While there is any, whoever produces answers should stop.
        self.unsent: deque[bytearray | memoryview | FileSlice] = deque()
        self._position = 0  # how much of the first part, if it is a slice, is gone
        self._is_broken = False
        self._watched = -1  # the descriptor by which the loop tells when a full socket takes more
        self._socket: Outlet = transport.get_extra_info("outlet") or _own(transport.get_extra_info("socket"))

    def add(self, parts: Iterable[Any]) -> int:
        """Put an answer in line; its bytes leave with the next `flush`, at the latest. Returns how many wait for it."""
        for part in parts:
            if isinstance(part, FileSlice):
                self._close_gathered()
                self.unsent.append(part)
            else:
                self._gathered += part
        return len(self._gathered)

    def flush(self) -> None:
        """Send what the socket takes."""
        if self._watched >= 0 or self._is_broken:
            return  # the loop will say when, or nobody listens
        if not self.unsent:
            if not self._gathered:
                return
            data, self._gathered = self._gathered, bytearray()
            sent = self._send(data, 0)
            if sent == len(data):
                return
            self.unsent.append(memoryview(data)[sent:])
        self._pump()

    def close(self) -> None:
        """Forget everything and let go of the socket, which is the transport's to close."""
        self._stop_watching()
        self.unsent.clear()
        self._gathered = bytearray()
        self._socket.detach()

    # -- inside -------------------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        self._close_gathered()
        queue = self.unsent
        budget = TURN_BYTES
        while queue:
            part = queue[0]
            if isinstance(part, FileSlice):
                sent = self._send_slice(part)
                self._position += sent
                budget -= sent
                is_gone = self._position == len(part)
            else:
                sent = self._send(part, socket.MSG_MORE if len(queue) > 1 else 0)
                is_gone = sent == len(part)
            if self._is_broken:
                return
            if is_gone:
                self._position = 0
                queue.popleft()
            elif not isinstance(part, FileSlice):
                queue[0] = memoryview(part)[sent:]
            if sent == 0:
                self._watch()
                return
            if budget <= 0 and queue:
                self._loop.call_soon(self._next_turn)
                return
        if self._watched >= 0:
            self._stop_watching()
            self._drained()

    def _next_turn(self) -> None:
        if self._watched < 0:
            self._pump()
            if not self.unsent:
                self._drained()

    def _send(self, data: bytearray | memoryview, flags: int) -> int:
        """How many bytes the socket took; after an error all of them, there is nobody to get them."""
        if self._transport.is_closing():
            return len(data)
        try:
            return self._socket.send(data, flags)
        except BlockingIOError:
            return 0
        except ConnectionError:
            self._give_up("the client has gone", logging.DEBUG)
            return len(data)
        except OSError as error:
            self._give_up(f"its socket failed: {error}")
            return len(data)

    def _send_slice(self, part: FileSlice) -> int:
        rest = len(part) - self._position
        if self._transport.is_closing():
            return rest
        try:
            sent = part.send_to(self._socket, self._position)
        except BlockingIOError:
            return 0
        except ConnectionError:
            self._give_up("the client has gone", logging.DEBUG)
            return rest
        except OSError as error:
            self._give_up(f"stored records could not be sent: {error}")
            return rest
        if sent == 0:
            self._give_up("stored records are not in their file any more")
            return rest
        return sent

    def _give_up(self, reason: str, level: int = logging.WARNING) -> None:
        """Forget the rest before anybody is told: whoever hears of it flushes once more."""
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
        """Wait for room in the socket. The loop refuses to watch a transport's descriptor, so it gets a copy."""
        if self._watched < 0:
            self._watched = os.dup(self._socket.fileno())
            self._loop.add_writer(self._watched, self._pump)

    def _stop_watching(self) -> None:
        if self._watched >= 0:
            self._loop.remove_writer(self._watched)
            os.close(self._watched)
            self._watched = -1


def _own(shared: Any) -> socket.socket:
    """The transport's socket to write to: asyncio lends it for questions only."""
    return socket.socket(shared.family, socket.SOCK_STREAM, shared.proto, shared.fileno())
