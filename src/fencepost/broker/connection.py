"""One client's connection: frames in, answers out in the order of the requests, bounded memory whatever the client
does.

Order. A request whose handler waits holds back the requests behind it, as in Kafka. The exception is a request whose
work is done and which only waits for the disk: the next one is served, and its answer queues behind.

Back-pressure. While the client does not read its answers, or a handler waits, nothing more is read from the socket.
What came and is not yet whole is in `inbox`, what was answered and not yet taken in `outbox`.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from fencepost.broker.dispatch import Call, Handler, Parts, Waiting
from fencepost.broker.inbox import Inbox
from fencepost.broker.listeners import Listener
from fencepost.broker.logins import MAX_FRAME_BYTES
from fencepost.broker.outbox import Outbox
from fencepost.broker.session import Session
from fencepost.clock import Handle
from fencepost.errors import ErrorCode, KafkaError, Malformed
from fencepost.wire.frame import API_VERSIONS_KEY, encode_response, read_request_header, skip_tags

if TYPE_CHECKING:
    from fencepost.broker.node import Node

log = logging.getLogger("fencepost.connection")

GATHER_BYTES = 64 * 1024
REPLIES_MAX = 1000
#: How long one connection's requests are served before the others get their turn.
TURN_NS = 20_000_000
#: A client that has not logged in by then is let go.
LOGIN_MS = 30_000


class Connection(asyncio.BufferedProtocol):
    """Lives from accept to close; owned by the server's event loop."""

    def __init__(self, node: "Node", handlers: Mapping[int, Handler], listener: Listener) -> None:
        self._node = node
        self._handlers = handlers
        self._listener = listener
        self._inbox = Inbox(MAX_FRAME_BYTES if listener.protocol.uses_sasl else node.settings.socket_request_max_bytes)
        self._transport: asyncio.Transport
        self._session: Session
        self._now_ns = node.clock.monotonic_ns
        self._counts = node.counts
        self._observe_ns = node.counts.observe_ns
        self.last_active_ms = node.clock.monotonic_ms()

        self._waiting: Waiting | None = None  # the request that holds back those behind it
        self._backlog: deque[bytearray] = deque()  # whole frames that came while something held them back
        #: Encoded answers in order, not all of them durable. With the call, if its time is still to be counted.
        self._replies: deque[tuple[Waiting, Call | None]] = deque()
        self._outbox: Outbox
        self._flushing = False  # a flush is due at the loop's next turn
        self._turn_ends_ns = 0
        self._yielding = False  # it is the turn of other connections
        self._reading = True
        self._closed = False
        self._is_counted = False  # here, among those that are limited
        self._patience: Handle | None = None  # while there is no login

    # -- the transport's side -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._counts.accepted += 1
        self._transport = cast(asyncio.Transport, transport)
        self._outbox = Outbox(self._transport, self._node.loop, self._go_on, self._hang_up, self._counts)
        peer = self._transport.get_extra_info("peername")
        host = peer[0] if peer else "unknown"
        self._session = self._node.session(f"/{host}", self._listener, self._logged_in)
        if self._listener.protocol.uses_tls:  # it was counted before its handshake
            certificate = self._transport.get_extra_info("peer_certificate")
            if not self._session.known_by(certificate, self._node.principal_rules):
                self._hang_up("no rule of ssl.principal.mapping.rules fits its certificate")
                return
        elif not self._is_admitted(host):
            return
        self._node.connected(self)
        if self._session.login is not None:
            self._patience = self._node.clock.call_later(LOGIN_MS, lambda: self._hang_up("no login came"))

    def _is_admitted(self, host: str) -> bool:
        """Whether there is room for it. It may have to wait for its turn."""
        if too_many := self._node.limits.refusal(host):
            self._hang_up(too_many)
            return False
        self._is_counted = True
        if delay_ms := self._node.limits.delay_ms():
            self._yielding = True
            self._pause()
            self._node.clock.call_later(delay_ms, self._next_turn)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed = True
        if self._is_counted:
            self._node.limits.left(self._session.host[1:])
        self._node.disconnected(self)
        self._stop_waiting()
        if self._waiting is not None and self._waiting.abandon is not None:
            self._waiting.abandon()
        self._backlog.clear()
        self._replies.clear()
        self._outbox.close()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._inbox.room()

    def buffer_updated(self, nbytes: int) -> None:
        now_ns = self._now_ns()
        self.last_active_ms = now_ns // 1_000_000
        self._turn_ends_ns = now_ns + TURN_NS
        self._counts.bytes_in += nbytes
        try:
            for frame in self._inbox.frames(nbytes):
                if self._held_back():
                    self._backlog.append(bytearray(frame))
                    continue
                self._serve(frame, now_ns)
                if self._closed:
                    return
                now_ns = self._now_ns()
                if now_ns > self._turn_ends_ns:
                    self._yield()
        except Malformed as error:
            self._hang_up(str(error))
            return
        self._outbox.flush()
        if self._reading and self._held_back():
            self._pause()

    def eof_received(self) -> bool:
        return False

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _logged_in(self) -> None:
        """From now on requests may be as large as they may."""
        self._stop_waiting()
        self._inbox.max_frame_bytes = self._node.settings.socket_request_max_bytes

    def idle(self) -> None:
        """Free the buffer: nothing came for a while."""
        self._inbox.release()

    def _pause(self) -> None:
        self._reading = False
        self._transport.pause_reading()

    # -- order and turns ----------------------------------------------------------------------------------------------

    def _held_back(self) -> bool:
        return (
            self._waiting is not None or self._yielding or bool(self._outbox.unsent) or len(self._replies) > REPLIES_MAX
        )

    def _yield(self) -> None:
        """Leave the rest to the next turn of the loop: thousands of requests may come in one read."""
        if not self._yielding:
            self._yielding = True
            self._node.loop.call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._yielding = False
        self._go_on()

    def _go_on(self) -> None:
        """Something that held requests back is over."""
        now_ns = self._now_ns()
        self._turn_ends_ns = now_ns + TURN_NS
        while self._backlog and not self._closed and not self._held_back():
            self._serve(memoryview(self._backlog.popleft()), now_ns)
            now_ns = self._now_ns()
            if now_ns > self._turn_ends_ns:
                self._yield()
        if not self._closed:
            self._outbox.flush()
        if not self._reading and not self._closed and not self._held_back():
            self._reading = True
            self._transport.resume_reading()

    # -- one request --------------------------------------------------------------------------------------------------

    def _serve(self, frame: memoryview, began_ns: int) -> None:
        entry: Handler | None = None
        try:
            api_key, version, correlation_id, client_id, body = read_request_header(frame)
            call = Call(self._node, api_key, version, correlation_id, client_id, self._session, None, began_ns)
            entry = self._handlers.get(api_key)
            if entry is None:
                raise Malformed(f"unknown API key {api_key}")
            if not self._session.admits(api_key):
                raise Malformed(f"{entry.api.name} was asked without a login, or after it had ended")
            if not entry.first <= version <= entry.last:
                if api_key != API_VERSIONS_KEY:
                    raise Malformed(f"{entry.api.name} v{version} is not supported, only {entry.first} to {entry.last}")
                call.version = 0  # every client can read it; the content of the request does not matter
                self._answer(entry, call, cast(Any, entry.function)(call))
                return
            if version >= entry.first_flexible:
                body = body + 1 if body < len(frame) and frame[body] == 0 else skip_tags(frame, body)
            if entry.raw is not None:
                self._answer(entry, call, entry.raw(call, frame, body))
            else:
                call.request = entry.api.request.decode(version, frame, body)
                self._answer(entry, call, cast(Any, entry.function)(call))
        except Malformed as error:
            self._hang_up(str(error))
        except Exception as error:
            self._refuse(entry, call, error)

    def _answer(self, entry: Handler, call: Call, answer: Any) -> None:
        if isinstance(answer, Waiting):
            if answer.holds_back:
                self._waiting = answer
                answer.when_done(partial(self._waited, entry, call, answer))
            else:
                self._replies.append((answer, call))
                answer.when_done(self._replies_ready)
            return
        if entry.raw is None:
            entry.error_places.count(answer, self._counts.apis[call.api_key].errors)
            self._reply([encode_response(entry.api, call.version, call.correlation_id, answer)])
        elif answer is not None:
            self._reply(answer)
        self._observe_ns[call.api_key](self._now_ns() - call.began_ns)

    def _waited(self, entry: Handler, call: Call, waiting: Waiting) -> None:
        self._waiting = None
        if self._closed:
            return
        try:
            self._answer(entry, call, waiting.result())
            if waiting.ends:
                self._hang_up("its login was refused")
        except asyncio.CancelledError:
            self._hang_up("its request was cancelled")
        except Malformed as error:
            self._hang_up(str(error))
        except Exception as error:
            self._refuse(entry, call, error)
        self._go_on()

    def _refuse(self, entry: Handler | None, call: Call, error: Exception) -> None:
        """The last resort: most handlers put errors where their response has room for them."""
        code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
        if not isinstance(error, KafkaError):
            log.error("%s failed", entry.api.name if entry else "a request", exc_info=error)
        fields = entry.api.response.fields if entry else []
        if entry and any(f.name == "error_code" and call.version in f.versions for f in fields):
            self._reply([encode_response(entry.api, call.version, call.correlation_id, {"error_code": code})])
            call.note_errors([code])
            self._observe_ns[call.api_key](self._now_ns() - call.began_ns)
        else:
            self._hang_up(f"{entry.api.name if entry else 'a request'} cannot be answered with {code.name}")

    # -- answers out --------------------------------------------------------------------------------------------------

    def _reply(self, parts: Parts) -> None:
        if self._replies:
            reply = Waiting()
            reply.release(parts)
            self._replies.append((reply, None))
        else:
            self._send(parts)

    def _replies_ready(self) -> None:
        if self._closed:
            return
        while self._replies and self._replies[0][0].done:
            waited, call = self._replies.popleft()
            self._send(waited.result())
            if call is not None:
                self._observe_ns[call.api_key](self._now_ns() - call.began_ns)
        # One sync of the disk releases many replies one after the other. They are sent together.
        if not self._flushing:
            self._flushing = True
            self._node.loop.call_soon(self._flush_replies)

    def _flush_replies(self) -> None:
        self._flushing = False
        if not self._closed:
            self._go_on()

    def _send(self, parts: Parts) -> None:
        if self._outbox.add(parts) > GATHER_BYTES or len(parts) > 1:
            self._outbox.flush()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._transport.close()

    def _hang_up(self, reason: str, level: int = logging.WARNING) -> None:
        """Close the connection with one line that says why."""
        if not self._closed:
            self._counts.closed += level >= logging.WARNING
            log.log(level, "closing the connection of %s: %s", self._session.host, reason)
            self._closed = True
            self._outbox.flush()  # the answers to what came before
            self._transport.abort()
