"""TLS between a socket and a `Connection`.

To the event loop this is the protocol of the socket, to the connection it is its transport. The connection begins once
the handshake is done. Memory is bounded: while the connection does not read, nothing is read from the socket, and while
the client does not read, at most `CHUNK_BYTES` are encrypted ahead of it.

What is encrypted goes straight to the socket. What the socket does not take goes to the event loop's transport, which
sends it when it can, also after `close`. Invariant: while the transport holds anything, nothing passes it by.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from fencepost.broker.connection_limits import ConnectionLimits
from fencepost.broker.outbox import own_socket
from fencepost.clock import Clock, Handle
from fencepost.security import tls

if TYPE_CHECKING:
    from fencepost.broker.connection import Connection

log = logging.getLogger("fencepost.connection")

#: A client that connects and says nothing more is let go.
HANDSHAKE_MS = 10_000
#: How long a client that is let go has to take the last bytes.
GOODBYE_MS = 5_000
#: What is encrypted at once. Less costs more calls, more costs memory: OpenSSL keeps a buffer of this size.
CHUNK_BYTES = 256 * 1024

_scratch = memoryview(bytearray(256 * 1024))


class Encryption(asyncio.BufferedProtocol):
    def __init__(
        self,
        connection: "Connection",
        context: ssl.SSLContext,
        suites: Sequence[str],
        clock: Clock,
        limits: ConnectionLimits,
    ) -> None:
        """`suites` are `ssl.cipher.suites`: of TLS 1.3 the context cannot refuse any."""
        self._connection = connection
        self._suites = suites
        self._clock = clock
        self._limits = limits
        self._host: str | None = None  # of a client that counts
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._transport: asyncio.Transport
        self._socket: socket.socket | None = None
        self._is_full = False  # the transport holds what the socket did not take
        self._when_free: Callable[[], None] | None = None
        self._patience: Handle | None = None
        self._is_agreed = False
        self._is_paused = False
        self._is_reading = False  # in `_decrypt`, which calls the connection, which may call us

    # -- the socket's side --------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client counts from here on: the handshake is what costs most."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=0)  # `pause_writing` as soon as it holds anything
        if (shared := transport.get_extra_info("socket")) is not None:
            self._socket = own_socket(shared)
        if too_many := self._limits.refusal(self._peer()):
            self._give_up(too_many)
            return
        self._host = self._peer()
        if delay_ms := self._limits.delay_ms():
            self._transport.pause_reading()
            self._patience = self._clock.call_later(delay_ms, self._begin)
        else:
            self._begin()

    def _begin(self) -> None:
        self._transport.resume_reading()
        self._patience = self._clock.call_later(HANDSHAKE_MS, lambda: self._give_up("no TLS handshake came"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        if self._host is not None:
            self._limits.left(self._host)
        if self._is_agreed:
            self._connection.connection_lost(exc)
        if self._socket is not None:
            self._socket.detach()

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        call, self._when_free = self._when_free, None
        if call is not None:
            call()

    def get_buffer(self, sizehint: int) -> memoryview:
        return _scratch

    def buffer_updated(self, nbytes: int) -> None:
        self._incoming.write(_scratch[:nbytes])
        if self._is_agreed or self._agree():
            self._decrypt()

    def eof_received(self) -> bool:
        return False

    def _agree(self) -> bool:
        """Go on with the handshake; whether it is done."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._send_encrypted()
            return False
        except ssl.SSLError as error:
            self._send_encrypted()  # the alert, which tells the client why
            self._give_up(_handshake_failure(error))
            return False
        self._send_encrypted()
        if wrong := tls.check_suite(self._tls, self._suites):
            self._give_up(wrong)
            return False
        self._stop_waiting()
        self._is_agreed = True
        self._connection.connection_made(cast(asyncio.BaseTransport, self))
        return True

    def _decrypt(self) -> None:
        if self._is_reading:
            return
        self._is_reading = True
        try:
            while not self._is_paused and not self._transport.is_closing():
                if not self._decrypt_some():
                    break
        except ssl.SSLError as error:
            self._give_up(f"what it sent cannot be decrypted: {tls.reason(error)}")
        finally:
            self._is_reading = False
        self._send_encrypted()  # TLS may have something to say of its own

    def _decrypt_some(self) -> bool:
        """Give the connection as much as its buffer holds; whether there may be more.

        TLS gives one record at a time, of 16 KB at most. The connection gets many at once.
        """
        buffer = self._connection.get_buffer(-1)
        read, count, size = self._tls.read, 0, len(buffer)
        has_ended = may_have_more = False
        try:
            while count < size and not has_ended:
                got: int = read(size - count, buffer[count:])  # type: ignore[assignment]
                count += got
                has_ended = got == 0
            may_have_more = not has_ended
        except ssl.SSLWantReadError:
            pass
        if count:
            self._connection.buffer_updated(count)
        if has_ended:
            self.close()
        return may_have_more

    def _send_encrypted(self, flags: int = 0) -> None:
        if not self._outgoing.pending or self._transport.is_closing():
            return
        data = self._outgoing.read()
        sent = self._send_now(data, flags)
        if sent < len(data):
            self._transport.write(memoryview(data)[sent:])

    def _send_now(self, data: bytes, flags: int) -> int:
        """How much the socket took. If it failed, so will the transport, which then ends the connection."""
        if self._is_full or self._socket is None:
            return 0
        try:
            return self._socket.send(data, flags)
        except OSError:
            return 0

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _give_up(self, reason: str) -> None:
        if not self._transport.is_closing():
            log.warning("closing the connection of /%s: %s", self._peer(), reason)
            self.abort()

    def _peer(self) -> str:
        peer = self._transport.get_extra_info("peername")
        return str(peer[0]) if peer else "unknown"

    # -- the connection's transport -----------------------------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "outlet":
            return self
        if name == "peer_certificate":
            return self._tls.getpeercert()
        return self._transport.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        self._is_paused = True
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._is_paused = False
        self._transport.resume_reading()
        self._decrypt()

    def close(self) -> None:
        try:
            self._tls.unwrap()
        except (ssl.SSLError, OSError, ValueError):
            pass  # the client need not answer
        self._send_encrypted()
        self.abort()

    def abort(self) -> None:
        """What is on its way may tell the client why, so it gets a moment to take it."""
        self._transport.close()
        self._clock.call_later(GOODBYE_MS, self._transport.abort)

    # -- the connection's way out -------------------------------------------------------------------------------------

    def room(self) -> int:
        """How much `send` takes; BlockingIOError while something waits for the client."""
        if self._is_full:
            raise BlockingIOError
        return CHUNK_BYTES

    def send(self, data: Any, flags: int = 0) -> int:
        """How much of `data` was taken; BlockingIOError while something waits for the client."""
        taken = self._tls.write(memoryview(data)[: self.room()])
        self._send_encrypted(flags)
        return taken

    def call_when_free(self, call: Callable[[], None] | None) -> None:
        """Call once, when there is room again. None calls nobody."""
        self._when_free = call

    def detach(self) -> int:
        return -1


def _handshake_failure(error: ssl.SSLError) -> str:
    reason = tls.reason(error)
    if reason in ("http request", "wrong version number", "unsupported protocol", "record layer failure"):
        return f"it does not speak TLS, or none of our versions ({reason})"
    return f"the TLS handshake failed: {reason}"
