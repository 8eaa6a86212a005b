"""TLS around a connection: whatever a client does before, during and after the handshake costs its connection only."""

import ssl
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from fencepost.broker.connection import Connection
from fencepost.broker.connection_limits import ConnectionLimits
from fencepost.broker.encryption import HANDSHAKE_MS, Encryption
from fencepost.broker.settings import Settings
from fencepost.clock import ManualClock
from fencepost.security import tls
from fencepost.security.authority import Authority
from fencepost.security.stores import Identity

BOTH = ("TLSv1.2", "TLSv1.3")


class Transport:
    """The socket's transport: keeps what is sent."""

    def __init__(self) -> None:
        self.sent = bytearray()
        self.is_closed = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("10.0.0.1", 1234) if name == "peername" else default

    def write(self, data: bytes) -> None:
        self.sent += data

    def set_write_buffer_limits(self, high: int) -> None: ...

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    abort = close

    def pause_reading(self) -> None: ...

    resume_reading = pause_reading


class Inner:
    """The connection inside: keeps what is decrypted for it."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.is_made = self.is_lost = False
        self.updates = 0
        self._buffer = bytearray(65536)

    def connection_made(self, transport: object) -> None:
        self.is_made = True

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost = True

    def get_buffer(self, hint: int) -> memoryview:
        return memoryview(self._buffer)

    def buffer_updated(self, count: int) -> None:
        self.updates += 1
        self.received += self._buffer[:count]


class Broker:
    """The broker's end of one connection."""

    def __init__(self, context: ssl.SSLContext, inner: Inner | None = None) -> None:
        self.clock, self.transport, self.inner = ManualClock(), Transport(), inner or Inner()
        self.limits = ConnectionLimits(Settings.parse({"max.connections": "1"}), self.clock)
        self.protocol = Encryption(cast(Connection, self.inner), context, (), self.clock, self.limits)
        self.protocol.connection_made(cast(Any, self.transport))

    def feed(self, data: bytes) -> None:
        view = memoryview(data)
        while view and not self.transport.is_closed:
            buffer = self.protocol.get_buffer(-1)
            count = min(len(buffer), len(view))
            buffer[:count] = view[:count]
            self.protocol.buffer_updated(count)
            view = view[count:]

    def take(self) -> bytes:
        sent = bytes(self.transport.sent)
        self.transport.sent.clear()
        return sent


class Client:
    def __init__(self, trust: str, version: str = "TLSv1.3") -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = tls.client_context(trust, None, (version,), (), check_hostname=True)
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")

    def step(self, answer: bytes = b"") -> bytes:
        """What it says next in the handshake."""
        self._incoming.write(answer)
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            pass
        return self._outgoing.read()

    def encrypt(self, data: bytes) -> bytes:
        self.tls.write(data)
        return self._outgoing.read()


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def context(authority: Authority) -> ssl.SSLContext:
    certified = authority.issue("broker", ["localhost"])
    return tls.server_context(None, Identity(certified.key_pem(), certified.certificate_pem()), BOTH, (), "none")


@pytest.fixture(scope="module")
def new_client(authority: Authority) -> Callable[..., Client]:
    return lambda version="TLSv1.3": Client(authority.certificate_pem(), version)


def agreed(context: ssl.SSLContext, client: Client, piece: int = 1 << 20) -> Broker:
    broker, said = Broker(context), client.step()
    while said:
        for at in range(0, len(said), piece):
            broker.feed(said[at : at + piece])
        said = client.step(broker.take())
    assert broker.inner.is_made
    return broker


def flights(context: ssl.SSLContext, new_client: Callable[..., Client], version: str) -> Iterator[int]:
    """How long each message of a client's handshake is."""
    broker, client = Broker(context), new_client(version)
    said = client.step()
    while said:
        yield len(said)
        broker.feed(said)
        said = client.step(broker.take())


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
def test_a_handshake_may_come_in_any_pieces(
    context: ssl.SSLContext, new_client: Callable[..., Client], version: str, piece: int
) -> None:
    client = new_client(version)
    broker = agreed(context, client, piece)
    broker.feed(client.encrypt(b"hello"))
    assert broker.inner.received == b"hello"


@pytest.mark.parametrize("version", BOTH)
def test_a_handshake_that_is_cut_at_any_byte_leaves_nothing(
    context: ssl.SSLContext, new_client: Callable[..., Client], version: str
) -> None:
    for number, size in enumerate(list(flights(context, new_client, version))):
        for cut in range(0, size, 1 if number else 7):
            broker, client = Broker(context), new_client(version)
            said = client.step()
            for _ in range(number):
                broker.feed(said)
                said = client.step(broker.take())
            broker.feed(said[:cut])
            assert not broker.inner.is_made
            assert not broker.transport.is_closed
            broker.protocol.connection_lost(None)
            assert broker.limits.refusal("the next") is None


def test_a_handshake_that_takes_for_ever_is_ended(
    context: ssl.SSLContext, new_client: Callable[..., Client], caplog: pytest.LogCaptureFixture
) -> None:
    broker = Broker(context)
    for byte in new_client().step():  # one byte a second
        broker.feed(bytes([byte]))
        broker.clock.advance(1000)
        if broker.transport.is_closed:
            break
    assert broker.clock.now_ms() - ManualClock().now_ms() == HANDSHAKE_MS
    assert "no TLS handshake came" in caplog.text


@pytest.mark.parametrize(
    "garbage", [b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x10", b"\x16\x03\x01\xff\xff", b"\xff" * 100, bytes(100)]
)
def test_what_is_no_handshake_ends_the_connection(
    context: ssl.SSLContext, garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    broker = Broker(context)
    broker.feed(garbage)
    broker.clock.advance(HANDSHAKE_MS)
    assert broker.transport.is_closed
    assert len(caplog.records) == 1


@pytest.mark.parametrize("version", BOTH)
def test_bytes_that_were_changed_on_the_way_end_the_connection(
    context: ssl.SSLContext, new_client: Callable[..., Client], version: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = new_client(version)
    broker = agreed(context, client)
    changed = bytearray(client.encrypt(b"hello"))
    changed[-1] ^= 1
    broker.feed(bytes(changed))
    assert broker.transport.is_closed
    assert not broker.inner.received
    assert "cannot be decrypted" in caplog.text


@pytest.mark.parametrize("version", BOTH)
def test_a_flood_of_tiny_records_is_one_piece_for_the_connection(
    context: ssl.SSLContext, new_client: Callable[..., Client], version: str
) -> None:
    client = new_client(version)
    broker = agreed(context, client)
    broker.feed(b"".join(client.encrypt(b"x") for _ in range(5000)))
    assert broker.inner.received == b"x" * 5000
    assert broker.inner.updates == 1


def test_a_record_that_says_it_is_huge_ends_the_connection(
    context: ssl.SSLContext, new_client: Callable[..., Client]
) -> None:
    broker = agreed(context, new_client())
    broker.feed(b"\x17\x03\x03\xff\xff")
    assert broker.transport.is_closed


def test_no_client_may_renegotiate(context: ssl.SSLContext) -> None:
    assert context.options & ssl.OP_NO_RENEGOTIATION
    assert context.options & ssl.OP_NO_COMPRESSION
