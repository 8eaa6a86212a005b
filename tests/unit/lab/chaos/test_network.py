"""The proxy does what each weather says, in the clear and with TLS, with a server in the broker's place."""

import queue
import socket
import ssl
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.lab.chaos.network import FAIR, METADATA, Network, Weather
from fencepost.lab.chaos.passage import Passage
from fencepost.security import stores, tls
from fencepost.security.names import TLS_VERSIONS, Protocol
from fencepost.security.quick import Quick, prepare
from fencepost.security.settings import ClientSecurity
from fencepost.wire import frame, messages
from fencepost.wire.terms import Address
from tests.fakes.frames import FrameServer, read_frame

TIMEOUT_S = 10.0
HEARTBEAT = 12
BROKEN = (ConnectionError, ssl.SSLError, struct.error)


class Server(FrameServer):
    """Keeps every frame that arrives, and answers each with its own correlation id and `answer`."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.frames: queue.Queue[bytes] = queue.Queue()
        self.answer = b""
        self._tls = tls
        super().__init__()

    def _serve(self, connection: socket.socket) -> None:
        super()._serve(connection if self._tls is None else self._tls.wrap_socket(connection, server_side=True))

    def respond(self, request: bytes) -> bytes:
        self.frames.put(request)
        answer = request[4:8] + self.answer
        return struct.pack(">i", len(answer)) + answer


def request(client_id: str, correlation_id: int, api_key: int = HEARTBEAT, version: int = 0) -> bytes:
    name = client_id.encode()
    body = struct.pack(">hhih", api_key, version, correlation_id, len(name)) + name
    return struct.pack(">i", len(body)) + body


@pytest.fixture(params=["in the clear", "with TLS"])
def quick(request: pytest.FixtureRequest, tmp_path: Path) -> Quick | None:
    """A broker's certificate, and how its clients check it."""
    return prepare(tmp_path / "broker", Protocol.SSL, "127.0.0.1") if request.param == "with TLS" else None


@pytest.fixture
def server(quick: Quick | None) -> Iterator[Server]:
    context = None
    if quick is not None:
        own = stores.load_identity("broker.pem", (quick.directory / "broker.pem").read_bytes(), None, None)
        trust = (quick.directory / "authority.pem").read_text()
        context = tls.server_context(trust, own, TLS_VERSIONS, (), "required")  # the proxy shows the certificate
    with Server(context) as server:
        yield server


@pytest.fixture
def network(server: Server, quick: Quick | None, tmp_path: Path) -> Iterator[Network]:
    security = ClientSecurity() if quick is None else quick.client_security()
    with Network(passage=Passage.to(security, tmp_path / "network")) as network:
        yield network


def connect(network: Network, server: Server) -> socket.socket:
    security = network.passage.clients
    plain = socket.create_connection(network.way_to(server.address), TIMEOUT_S)
    if not security.protocol.uses_tls:
        return plain
    assert not security.has("ssl.keystore.location")
    return security.tls().context.wrap_socket(plain, server_hostname="127.0.0.1")


def answered(connection: socket.socket) -> int:
    return struct.unpack_from(">i", read_frame(connection))[0]


def test_requests_and_answers_pass(network: Network, server: Server):
    with connect(network, server) as connection:
        connection.sendall(request("p1", 1) + request("p1", 2))
        assert [answered(connection), answered(connection)] == [1, 2]


def test_what_was_sent_is_delivered_late_although_the_client_hung_up(network: Network, server: Server):
    with connect(network, server) as connection:
        connection.sendall(request("p1", 1))
        answered(connection)
        server.frames.get(timeout=TIMEOUT_S)
        network.change(Weather(holds=True))
        connection.sendall(request("p1", 2) + request("p1", 3))
    assert server.frames.empty()
    network.change(FAIR)
    late = [server.frames.get(timeout=TIMEOUT_S) for _ in range(2)]
    assert [frame.read_request_header(each).correlation_id for each in late] == [2, 3]


def test_a_lost_answer_ends_in_a_broken_connection(network: Network, server: Server):
    with connect(network, server) as connection:
        network.change(Weather(loses_answers=True))
        connection.sendall(request("p1", 1))
        server.frames.get(timeout=TIMEOUT_S)
        network.change(FAIR)
        with pytest.raises(BROKEN):
            read_frame(connection)


def test_a_partition_is_for_the_clients_that_it_names(network: Network, server: Server):
    network.change(Weather(unreachable=frozenset({"p1"})))
    with connect(network, server) as cut_off, connect(network, server) as other:
        cut_off.sendall(request("p1", 1))
        other.sendall(request("p2", 2))
        assert answered(other) == 2
        with pytest.raises(BROKEN):
            read_frame(cut_off)


def test_cutting_breaks_connections_and_new_ones_work(network: Network, server: Server):
    with connect(network, server) as connection:
        connection.sendall(request("p1", 1))
        answered(connection)
        network.cut()
        with pytest.raises(BROKEN):
            read_frame(connection)
    with connect(network, server) as connection:
        connection.sendall(request("p1", 2))
        assert answered(connection) == 2


def test_an_answer_that_names_a_broker_names_the_way_to_it(network: Network, server: Server):
    schema = messages.api(METADATA).response
    brokers = [{"node_id": 1, "host": server.address.host, "port": server.address.port}]
    server.answer = b"\0" + bytes(schema.encode(12, {"brokers": brokers, "topics": []}))
    with connect(network, server) as connection:
        connection.sendall(request("p1", 1, METADATA, 12))
        said = schema.decode(12, read_frame(connection), 5)
    (broker,) = said.brokers
    assert Address(broker.host, broker.port) == network.way_to(server.address) != server.address
