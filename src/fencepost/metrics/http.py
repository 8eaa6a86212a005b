"""Answers `GET /metrics`, on the event loop of whoever has the metrics. As little of HTTP/1.1 as a scraper needs.

There is no login: whoever reaches the port reads the names of topics, groups and transactional ids. So it listens on
the loopback unless told otherwise. Invariant: a client costs bounded memory and time, whatever it sends. A request has
at most `REQUEST_BYTES` and no body; the next one is read after the answer to the last one was taken; connections are
few, and closed when they are silent.
"""

import asyncio
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import cast

from fencepost.clock import Clock, Handle
from fencepost.errors import ConfigError
from fencepost.hosts import is_known_host, is_loopback
from fencepost.metrics.address import PATH
from fencepost.metrics.text import CONTENT_TYPE
from fencepost.wire.terms import Address

logger = logging.getLogger("fencepost.metrics")

REQUEST_BYTES = 8 * 1024
CONNECTIONS_MAX = 32
#: A new connection is closed if its first request is not there by then, any other if no next one is.
FIRST_REQUEST_MS = 10_000
IDLE_MS = 120_000

_HEAD_END = b"\r\n\r\n"
_PLAIN = "text/plain; charset=utf-8"


class MetricsServer:
    """`render` makes the text, on the event loop. `address` is the real one once it listens."""

    def __init__(self, render: Callable[[], str], address: Address, clock: Clock) -> None:
        self.render = render
        self.address = address
        self.clock = clock
        self.connections: set[_Exchange] = set()
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        return f"http://{self.address}{PATH}"

    async def listen(self) -> None:
        """Raises ConfigError."""
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(lambda: _Exchange(self), *self.address)
        except UnicodeError:
            raise ConfigError(f"metrics cannot be served at {self.address}: no host can have this name") from None
        except OSError as error:
            raise ConfigError(f"metrics cannot be served at {self.address}: {error.strerror or error}") from None
        self.address = Address(*self._server.sockets[0].getsockname()[:2])
        if not is_loopback(self.address.host):
            logger.warning(
                "NO LOGIN: whoever reaches %s reads the names of topics, groups and transactional ids", self.url
            )

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in list(self.connections):
            connection.close()


class _Exchange(asyncio.Protocol):
    """One connection."""

    def __init__(self, server: MetricsServer) -> None:
        self._server = server
        self._transport: asyncio.Transport
        self._received = bytearray()
        self._is_writing = False  # the client has not taken the whole answer
        self._patience: Handle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(0)
        if len(self._server.connections) >= CONNECTIONS_MAX:
            self._transport.abort()
            return
        self._server.connections.add(self)
        self._wait(FIRST_REQUEST_MS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self)
        if self._patience is not None:
            self._patience.cancel()

    def pause_writing(self) -> None:
        self._is_writing = True

    def resume_writing(self) -> None:
        self._is_writing = False

    def data_received(self, data: bytes) -> None:
        if self._is_writing or self._transport.is_closing():
            self._transport.abort()  # nobody asks twice before the first answer is read
            return
        self._received += data
        head, end, rest = self._received.partition(_HEAD_END)
        if len(head) > REQUEST_BYTES:
            self._answer(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, is_last=True)
        elif end and rest:
            self._answer(HTTPStatus.BAD_REQUEST, "a request has no body, and waits for the answer to the last one\n")
        elif end:
            self._received.clear()
            self._take(head.decode("latin-1"))

    def close(self) -> None:
        self._transport.close()

    def _take(self, head: str) -> None:
        first, *lines = head.split("\r\n")
        words = first.split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            self._answer(HTTPStatus.BAD_REQUEST, "this is no request of HTTP/1.1\n")
            return
        method, target, version = words
        fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if fields.get("content-length", "0") != "0" or "transfer-encoding" in fields:
            self._answer(HTTPStatus.BAD_REQUEST, "a request has no body\n")
            return
        if is_loopback(self._server.address.host) and not is_known_host(fields.get("host", "localhost")):
            # Elsewhere machines have names that we do not know, and scrapers use them.
            self._answer(HTTPStatus.MISDIRECTED_REQUEST, "ask by an address, or as localhost\n")
            return
        is_last = version == "HTTP/1.0" or fields.get("connection", "").lower() == "close"
        if target.partition("?")[0] != PATH:
            self._answer(HTTPStatus.NOT_FOUND, f"the metrics are at {PATH}\n", is_last=is_last)
        elif method not in ("GET", "HEAD"):
            self._answer(HTTPStatus.METHOD_NOT_ALLOWED, is_last=is_last)
        else:
            self._answer_metrics(with_text=method == "GET", is_last=is_last)

    def _answer_metrics(self, *, with_text: bool, is_last: bool) -> None:
        try:
            text = self._server.render()
        except Exception:
            logger.exception("the metrics cannot be written")
            self._answer(HTTPStatus.INTERNAL_SERVER_ERROR)
            return
        self._answer(HTTPStatus.OK, text, CONTENT_TYPE, with_text=with_text, is_last=is_last)

    def _answer(
        self, status: HTTPStatus, text: str = "", kind: str = _PLAIN, *, with_text: bool = True, is_last: bool = True
    ) -> None:
        body = (text or f"{status.phrase}\n").encode()
        head = [
            f"HTTP/1.1 {status.value} {status.phrase}",
            f"Content-Type: {kind}",
            f"Content-Length: {len(body)}",
            *(["Allow: GET, HEAD"] if status is HTTPStatus.METHOD_NOT_ALLOWED else []),
            f"Connection: {'close' if is_last else 'keep-alive'}",
        ]
        self._transport.write("\r\n".join([*head, "", ""]).encode() + (body if with_text else b""))
        self._wait(IDLE_MS)
        if is_last:
            self._transport.close()

    def _wait(self, delay_ms: int) -> None:
        if self._patience is not None:
            self._patience.cancel()
        self._patience = self._server.clock.call_later(delay_ms, self._transport.abort)
