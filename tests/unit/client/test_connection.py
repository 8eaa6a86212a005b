"""One connection: versions, order, and every way in which a peer can let one down."""

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from fencepost.client.connection import Connection
from fencepost.client.settings import Address, ClientSettings
from fencepost.errors import ConnectionLost, InvariantBroken, Unsupported
from tests.conftest import wait_until
from tests.fakes.frames import HANG_UP, SILENCE
from tests.unit.client.scripted import METADATA, ScriptedBroker, settings

API_VERSIONS = 18


def connect(broker: ScriptedBroker, **more: object) -> Connection:
    return Connection(Address("127.0.0.1", broker.port), ClientSettings.parse(settings(broker, **more)))


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as broker:
        yield broker


def test_the_highest_common_version_is_spoken():
    with ScriptedBroker(versions={METADATA: (2, 7)}) as broker, connect(broker) as connection:
        assert connection.version(METADATA) == 7
        assert connection.version(METADATA, highest=4) == 4
        assert connection.features == {"transaction.version": 2}
        answer = connection.call(METADATA, {"topics": None})
        assert answer.topics[0].name == "t"


@pytest.mark.parametrize("bounds", [{"lowest": 8}, {"highest": 1}])
def test_no_common_version_is_said_with_both_sides_versions(bounds):
    with (
        ScriptedBroker(versions={METADATA: (2, 7)}) as broker,
        connect(broker) as connection,
        pytest.raises(Unsupported, match="metadata in versions 2 to 7, and this needs one of"),
    ):
        connection.version(METADATA, **bounds)


def test_an_old_broker_that_refuses_our_api_versions_is_asked_in_its_own():
    def script(api_key, request):
        if api_key == API_VERSIONS and request.client_software_name:
            return struct.pack(">iihi", 2 + 4 + 4 + 6, script.asked + 1, 35, 1) + struct.pack(">hhh", 18, 0, 2)
        return None

    script.asked = 0
    with ScriptedBroker(script) as broker, connect(broker) as connection:
        assert connection.version(METADATA) == 13
    assert [bool(request.client_software_name) for _, request in broker.asked] == [True, False]


def test_requests_may_be_sent_ahead_and_are_answered_in_order(broker: ScriptedBroker):
    with connect(broker) as connection:
        first = connection.send(METADATA, {"topics": []})
        second = connection.send(METADATA, {"topics": None})
        assert connection.in_flight == 2
        with pytest.raises(InvariantBroken, match="order"):
            connection.receive(second)
        assert len(connection.receive(first).topics) == 0
        assert len(connection.receive(second).topics) == 1
        assert connection.in_flight == 0


def test_a_broker_that_is_silent_is_left_after_the_timeout():
    with (
        ScriptedBroker(lambda key, _: SILENCE if key == METADATA else None) as broker,
        connect(broker, request_timeout_ms=100) as connection,
    ):
        with pytest.raises(ConnectionLost, match=r"did not answer metadata within 0\.1 s"):
            connection.call(METADATA, {"topics": []})
        assert not connection.is_usable()
        with pytest.raises(ConnectionLost, match="has been closed"):
            connection.call(METADATA, {"topics": []})


def test_a_broker_that_hangs_up_has_lost_the_request():
    with (
        ScriptedBroker(lambda key, _: HANG_UP if key == METADATA else None) as broker,
        connect(broker) as connection,
        pytest.raises(ConnectionLost, match="hung up before it answered metadata"),
    ):
        connection.call(METADATA, {"topics": []})


def test_a_connection_that_was_closed_while_idle_is_noticed_before_it_is_used(broker: ScriptedBroker):
    with connect(broker) as connection:
        assert connection.is_usable()
        broker.hang_up()
        wait_until(lambda: not connection.is_usable(), "it is noticed")


def test_an_answer_to_another_request_closes_the_connection():
    with (
        ScriptedBroker(lambda key, _: struct.pack(">iib", 5, 4711, 0) if key == METADATA else None) as broker,
        connect(broker) as connection,
        pytest.raises(ConnectionLost, match="another request"),
    ):
        connection.call(METADATA, {"topics": []})


def test_an_answer_that_cannot_be_read_closes_the_connection():
    with (
        ScriptedBroker(lambda key, _: struct.pack(">iib", 5, 2, 0) if key == METADATA else None) as broker,
        connect(broker) as connection,
    ):
        with pytest.raises(ConnectionLost, match="cannot be read"):
            connection.call(METADATA, {"topics": []})
        assert not connection.is_usable()


def test_nobody_listening_is_said_as_such():
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with pytest.raises(ConnectionLost, match=f"127.0.0.1:{port}: Connection refused"):
        Connection(Address("127.0.0.1", port), ClientSettings.parse("unused:1"))


@pytest.mark.parametrize("greeting", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x15\x03\x03\x00\x02\x02\x0a"])
def test_a_peer_that_speaks_something_else_is_taken_for_no_kafka(greeting):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(100)
                connection.sendall(greeting)
                with contextlib.suppress(ConnectionError):
                    connection.recv(100)

        threading.Thread(target=serve, daemon=True).start()
        with pytest.raises(ConnectionLost, match="is this a Kafka listener without TLS"):
            Connection(Address(*listener.getsockname()), ClientSettings.parse("unused:1"))


def test_large_parts_are_sent_whole(broker: ScriptedBroker):
    name = "x" * 30_000
    with connect(broker) as connection:
        fields = {"topics": [{"name": name} for _ in range(200)]}
        assert connection.call(METADATA, fields).topics[-1].name == name
