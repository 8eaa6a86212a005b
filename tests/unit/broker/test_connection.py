"""A connection answers in order, whatever the pieces in which bytes come and go, and holds no more than it must."""

import asyncio
import contextlib
import socket
import struct
from dataclasses import replace

import pytest

from fencepost.broker.connection import LOGIN_MS, Connection
from fencepost.broker.connection_limits import ConnectionLimits
from fencepost.broker.counts import BrokerCounts
from fencepost.broker.dispatch import Handler, OnDisconnect, Waiting
from fencepost.broker.listeners import Listener
from fencepost.broker.logins import Login
from fencepost.broker.principals import parse_rules, user
from fencepost.broker.session import Session
from fencepost.broker.settings import Settings
from fencepost.clock import ManualClock
from fencepost.errors import ErrorCode, KafkaError
from fencepost.log.disk import SystemDisk
from fencepost.log.slices import FileSlice
from fencepost.security.names import Protocol
from fencepost.wire import messages
from fencepost.wire.frame import finish_response, start_response
from tests.fakes.requests import LISTENER

HEARTBEAT = messages.api(12)
METADATA = messages.api(3)


class Transport:
    """The broker's end of a real pair of sockets; the other end is `client`."""

    def __init__(self):
        self.ours, self.client = socket.socketpair()
        self.ours.setblocking(False)
        self.client.setblocking(False)
        self.reading = True
        self.aborted = False

    def get_extra_info(self, name):
        return {"peername": ("10.0.0.1", 1234), "socket": self.ours}.get(name)

    def is_closing(self):
        return self.aborted

    def take(self, limit=10**9):
        """What the client finds in its socket."""
        found = bytearray()
        with contextlib.suppress(BlockingIOError):
            while len(found) < limit:
                found += self.client.recv(min(65536, limit - len(found)))
        return bytes(found)

    def pause_reading(self):
        self.reading = False

    def resume_reading(self):
        self.reading = True

    def abort(self):
        self.aborted = True

    close = abort


class Loop:
    """Runs nothing by itself: see `turn`."""

    def __init__(self):
        self.later = []
        self.call_soon = self.later.append
        self.writers = {}

    def add_writer(self, fd, callback):
        self.writers[fd] = callback

    def remove_writer(self, fd):
        return self.writers.pop(fd, None) is not None


class Node:
    def __init__(self, max_request_bytes):
        self.loop = Loop()
        self.clock = ManualClock()
        self.settings = Settings.parse({"socket.request.max.bytes": str(max_request_bytes)})
        self.limits = ConnectionLimits(self.settings, self.clock)
        self.counts = BrokerCounts(range(100), 0)

    def session(self, host, listener, when_known):
        login = Login({}, self.clock.now_ms, 0) if listener.protocol.uses_sasl else None
        return Session(host, listener, login, when_known)

    def connected(self, connection):
        pass

    def disconnected(self, connection):
        pass


_open = []


@pytest.fixture(autouse=True)
def _close_sockets():
    yield
    while _open:
        connection, transport = _open.pop()
        connection.connection_lost(None)
        transport.ours.close()
        transport.client.close()


def connect(function=None, raw=None, *, max_request_bytes=10**6, listener=LISTENER, node=None):
    entry = Handler(12, 0, 4, function, raw)
    connection = Connection(node or Node(max_request_bytes), {12: entry}, listener)
    transport = Transport()
    connection.connection_made(transport)
    _open.append((connection, transport))
    return connection, transport


@pytest.mark.parametrize(("rules", "is_let_in"), [("RULE:^CN=(.*)$/$1/", True), ("RULE:^CN=bob$/bob/", False)])
def test_a_client_whose_certificate_no_rule_fits_is_not_let_in(rules, is_let_in):
    node = Node(1000)
    node.principal_rules = parse_rules(rules)
    connection, transport = Connection(node, {}, replace(LISTENER, protocol=Protocol.SSL)), Transport()
    shown = {"peer_certificate": {"subject": ((("commonName", "alice"),),)}}
    known = transport.get_extra_info
    transport.get_extra_info = lambda name: shown.get(name) or known(name)
    connection.connection_made(transport)
    _open.append((connection, transport))
    assert transport.aborted is not is_let_in


def request(correlation_id, *, key=12, version=0, group="g"):
    body = struct.pack(">hhih", key, version, correlation_id, 1) + b"c"
    body += HEARTBEAT.request.encode(version, {"group_id": group, "member_id": "m"})
    return struct.pack(">i", len(body)) + bytes(body)


def feed(connection, data, piece=10**9):
    data = memoryview(data)
    while data:
        buffer = connection.get_buffer(-1)
        count = min(piece, len(data), len(buffer))
        buffer[:count] = data[:count]
        connection.buffer_updated(count)
        data = data[count:]
        turn(connection)


def turn(connection):
    """What was put off to the loop's next turn."""
    loop = connection._node.loop
    while loop.later:
        loop.later.pop(0)()
    for callback in list(loop.writers.values()):
        callback()


def answers(transport):
    """(correlation id, error code) of every answer that was sent."""
    found, data = [], transport.take()
    while data:
        size, correlation_id, error = struct.unpack_from(">iih", data)
        found.append((correlation_id, error))
        data = data[4 + size :]
    return found


def encoded(correlation_id, payload=b"\x00\x00"):
    return finish_response(start_response(correlation_id, flexible=False) + payload)


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 50, 10**9])
def test_requests_are_answered_whatever_the_pieces_they_come_in(piece):
    connection, transport = connect(lambda call: {"error_code": call.correlation_id})
    feed(connection, b"".join(request(i, group="x" * (i * 20)) for i in range(20)), piece)
    assert answers(transport) == [(i, i) for i in range(20)]


def test_a_waiting_handler_holds_back_the_requests_behind_it_and_the_reading():
    async def scenario():
        gate = asyncio.get_running_loop().create_future()

        async def slow(call):
            await gate
            return {"error_code": 0}

        connection, transport = connect(
            lambda call: Waiting.on(slow(call)) if call.correlation_id == 0 else {"error_code": 0}
        )
        feed(connection, request(0) + request(1) + request(2))
        assert answers(transport) == [] and not transport.reading
        gate.set_result(None)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        turn(connection)
        assert [i for i, _ in answers(transport)] == [0, 1, 2] and transport.reading

    asyncio.run(scenario())


def test_replies_wait_for_the_disk_without_holding_back_the_next_request_and_leave_in_order():
    replies = []

    def raw(call, frame, body):
        replies.append((Waiting(holds_back=False), [encoded(call.correlation_id)]))
        return replies[-1][0]

    def release(index):
        reply, parts = replies[index]
        reply.release(parts)
        turn(connection)

    connection, transport = connect(raw=raw)
    feed(connection, request(0) + request(1) + request(2))
    assert len(replies) == 3 and transport.reading
    release(1)
    assert answers(transport) == []
    release(0)
    assert [i for i, _ in answers(transport)] == [0, 1]
    release(2)
    assert [i for i, _ in answers(transport)] == [2]


@pytest.mark.parametrize(("on_disconnect", "finishes"), [(OnDisconnect.FINISH, True), (OnDisconnect.CANCEL, False)])
def test_a_waiting_request_finishes_or_ends_with_its_connection_as_its_handler_says(on_disconnect, finishes):
    async def scenario():
        gate, finished = asyncio.get_running_loop().create_future(), []

        async def slow():
            await asyncio.shield(gate)
            finished.append(True)
            return {"error_code": 0}

        connection, transport = connect(lambda call: Waiting.on(slow(), on_disconnect))
        feed(connection, request(0))
        await asyncio.sleep(0)
        connection.connection_lost(None)
        await asyncio.sleep(0)
        gate.set_result(None)
        for _ in range(5):
            await asyncio.sleep(0)
        assert bool(finished) is finishes and answers(transport) == []

    asyncio.run(scenario())


def test_a_client_that_does_not_read_is_not_read_from_and_gets_everything_when_it_does(tmp_path):
    size = 10_000_000
    path = tmp_path / "big"
    path.write_bytes(bytes(range(250)) * (size // 250))
    file = SystemDisk().open(str(path))

    def raw(call, frame, body):
        head = start_response(call.correlation_id, flexible=False)
        return [finish_response(head, more=size), FileSlice(file, 0, size), bytearray(b"")]

    connection, transport = connect(raw=raw)
    feed(connection, request(0) + request(1) + request(2))
    assert not transport.reading
    found = bytearray()
    while len(found) < 3 * (8 + size):
        taken = transport.take(1_000_000)
        assert taken
        found += taken
        turn(connection)
    one = path.read_bytes()
    assert [found[i * (8 + size) + 8 :][:size] == one for i in range(3)] == [True] * 3
    assert transport.reading and not connection._node.loop.writers


def test_a_client_that_hangs_up_leaves_nothing_behind(tmp_path):
    path = tmp_path / "big"
    path.write_bytes(bytes(10_000_000))
    file = SystemDisk().open(str(path))
    connection, _ = connect(raw=lambda *_: [bytearray(8), FileSlice(file, 0, 10_000_000)])
    feed(connection, request(0))
    assert connection._node.loop.writers
    connection.connection_lost(None)
    assert not connection._node.loop.writers
    file.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.size()


STORED = b"stored records " * 100


@pytest.mark.parametrize("first", ["bytes", "stored records"])
def test_a_client_that_has_gone_is_given_up_once(tmp_path, caplog, first):
    (tmp_path / "log").write_bytes(STORED)
    file = SystemDisk().open(str(tmp_path / "log"))

    def raw(call, frame, body):
        stored = FileSlice(file, 0, len(STORED))
        return [bytearray(8), stored, b"tail"] if first == "bytes" else [stored, b"tail", stored]

    connection, transport = connect(raw=raw)
    transport.client.close()
    with caplog.at_level("DEBUG", "fencepost.connection"):
        feed(connection, request(0))  # the connection flushes once more when it hears of it
    assert [record.message for record in caplog.records] == ["closing the connection of /10.0.0.1: the client has gone"]
    assert transport.aborted and not connection._outbox.unsent


@pytest.mark.parametrize(
    "bad",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 2**31 - 1),
        struct.pack(">ihhih", 10, 999, 0, 0, -1),  # an API that does not exist
        struct.pack(">ihhih", 10, 12, 99, 0, -1),  # a version that does not exist
        struct.pack(">ihhih", 10, 12, 0, 0, 500),  # a client id that is not there
        struct.pack(">ih", 2, 12),  # half a header
        request(1)[:4].replace(request(1)[:4], struct.pack(">i", 13)) + request(1)[4:17],  # half a body
    ],
)
def test_what_is_not_a_request_closes_the_connection(bad, caplog):
    connection, transport = connect(lambda call: {"error_code": 0})
    feed(connection, bad)
    assert transport.aborted and transport.take() == b""
    assert len(caplog.records) == 1


SASL_LISTENER = Listener("SASL_PLAINTEXT", Protocol.SASL_PLAINTEXT, LISTENER.bound)


def test_a_client_that_never_logs_in_is_let_go_whatever_it_sends(caplog):
    connection, transport = connect(listener=SASL_LISTENER)
    feed(connection, struct.pack(">i", 1000))  # a frame that never ends
    for _ in range(LOGIN_MS // 1000):
        assert not transport.aborted
        feed(connection, b"\0")
        connection._node.clock.advance(1000)
    assert transport.aborted
    assert "no login came" in caplog.text


def test_a_client_that_has_logged_in_may_be_silent():
    connection, transport = connect(listener=SASL_LISTENER)
    connection._session.known(user("alice"))
    connection._node.clock.advance(10 * LOGIN_MS)
    assert not transport.aborted


def test_a_connection_is_counted_once_until_it_ends():
    node = Node(10**6)
    node.settings = Settings.parse({"max.connections": "1"})
    node.limits = ConnectionLimits(node.settings, node.clock)
    first, _ = connect(node=node)
    _, refused = connect(node=node)
    assert refused.aborted
    first.connection_lost(None)
    _, second = connect(node=node)
    assert not second.aborted


def test_an_error_that_escapes_a_handler_becomes_the_answers_error_code(caplog):
    def handler(call):
        if call.correlation_id:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        raise ZeroDivisionError

    connection, transport = connect(handler)
    feed(connection, request(0) + request(1))
    assert answers(transport) == [(0, ErrorCode.UNKNOWN_SERVER_ERROR), (1, ErrorCode.ILLEGAL_GENERATION)]
