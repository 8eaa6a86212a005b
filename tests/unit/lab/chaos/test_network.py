"""The proxy between clients and brokers does what each weather says, with a plain server in the broker's place."""

import queue
import socket
import struct
from collections.abc import Iterator

import pytest

from fencepost.lab.chaos.network import FAIR, METADATA, Network, Weather
from fencepost.wire import frame, messages
from fencepost.wire.terms import Address
from tests.fakes.frames import FrameServer, read_frame

TIMEOUT_S = 10.0
HEARTBEAT = 12


class Server(FrameServer):
    """Keeps every frame that arrives, and answers each with its own correlation id and `answer`."""

    def __init__(self) -> None:
        self.frames: queue.Queue[bytes] = queue.Queue()
        self.answer = b""
        super().__init__()

    def respond(self, request: bytes) -> bytes:
        self.frames.put(request)
        answer = request[4:8] + self.answer
        return struct.pack(">i", len(answer)) + answer


def request(client_id: str, correlation_id: int, api_key: int = HEARTBEAT, version: int = 0) -> bytes:
    name = client_id.encode()
    body = struct.pack(">hhih", api_key, version, correlation_id, len(name)) + name
    return struct.pack(">i", len(body)) + body


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def network(server: Server) -> Iterator[Network]:
    with Network() as network:
        yield network


def connect(network: Network, server: Server) -> socket.socket:
    return socket.create_connection(network.way_to(server.address), TIMEOUT_S)


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
        with pytest.raises((ConnectionError, struct.error)):
            read_frame(connection)


def test_a_partition_is_for_the_clients_that_it_names(network: Network, server: Server):
    network.change(Weather(unreachable=frozenset({"p1"})))
    with connect(network, server) as cut_off, connect(network, server) as other:
        cut_off.sendall(request("p1", 1))
        other.sendall(request("p2", 2))
        assert answered(other) == 2
        with pytest.raises((ConnectionError, struct.error)):
            read_frame(cut_off)


def test_cutting_breaks_connections_and_new_ones_work(network: Network, server: Server):
    with connect(network, server) as connection:
        connection.sendall(request("p1", 1))
        answered(connection)
        network.cut()
        with pytest.raises((ConnectionError, struct.error)):
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
