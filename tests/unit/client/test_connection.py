"""One connection: versions, order, and every way in which a peer can let one down."""

import contextlib
import struct
from collections.abc import Callable, Iterator

import pytest

from fencepost.client.connection import Connection
from fencepost.client.settings import ClientSettings
from fencepost.errors import ConnectionLost, InvariantBroken, Unsupported
from tests.conftest import wait_until
from tests.fakes.frames import HANG_UP, SILENCE
from tests.unit.client.scripted import METADATA, ScriptedBroker, settings

API_VERSIONS = 18


@pytest.fixture
def connect(broker: ScriptedBroker) -> Iterator[Callable[[], Connection]]:
    """Connects, when the test has said what the broker is like."""
    with contextlib.ExitStack() as opened:
        quick = ClientSettings.parse(settings(broker, request_timeout_ms=500))
        yield lambda: opened.enter_context(Connection(broker.address, quick))


def test_the_highest_common_version_is_spoken(broker, connect):
    broker.versions[METADATA] = (2, 7)
    connection = connect()
    assert connection.version(METADATA) == 7
    assert connection.version(METADATA, highest=4) == 4
    assert connection.features == {"transaction.version": 2}
    answer = connection.call(METADATA, {"topics": None})
    assert answer.topics[0].name == "t"


@pytest.mark.parametrize("bounds", [{"lowest": 8}, {"highest": 1}])
def test_no_common_version_is_said_with_both_sides_versions(broker, connect, bounds):
    broker.versions[METADATA] = (2, 7)
    with pytest.raises(Unsupported, match="metadata in versions 2 to 7, and this needs one of"):
        connect().version(METADATA, **bounds)


def test_an_old_broker_that_refuses_our_api_versions_is_asked_in_its_own(broker, connect):
    correlation_id, unsupported, count, only = 1, 35, 1, struct.pack(">hhh", API_VERSIONS, 0, 2)
    broker.queued[API_VERSIONS] = [struct.pack(">iihi", 16, correlation_id, unsupported, count) + only]
    assert connect().version(METADATA) == 13
    assert [bool(request.client_software_name) for _, request in broker.asked] == [True, False]


def test_requests_may_be_sent_ahead_and_are_answered_in_order(connect):
    connection = connect()
    first = connection.send(METADATA, {"topics": []})
    second = connection.send(METADATA, {"topics": None})
    assert connection.in_flight == 2
    with pytest.raises(InvariantBroken, match="order"):
        connection.receive(second)
    assert len(connection.receive(first).topics) == 0
    assert len(connection.receive(second).topics) == 1
    assert connection.in_flight == 0


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (SILENCE, r"did not answer metadata within 0\.5 s"),
        (HANG_UP, "hung up before it answered metadata"),
        (struct.pack(">iib", 5, 4711, 0), "answered another request than metadata"),
        (struct.pack(">iib", 5, 2, 0), "the answer cannot be read"),
    ],
    ids=["silent", "hung up", "another answer", "unreadable"],
)
def test_a_request_that_gets_no_answer_closes_the_connection(broker, connect, answer, message):
    broker.answers[METADATA] = answer
    connection = connect()
    with pytest.raises(ConnectionLost, match=message):
        connection.call(METADATA, {"topics": []})
    assert not connection.is_usable()
    with pytest.raises(ConnectionLost, match="has been closed"):
        connection.call(METADATA, {"topics": []})


def test_a_connection_that_was_closed_while_idle_is_noticed_before_it_is_used(broker, connect):
    connection = connect()
    assert connection.is_usable()
    broker.hang_up()
    wait_until(lambda: not connection.is_usable(), "it is noticed")


@pytest.mark.parametrize(
    ("greeting", "said"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "is this a Kafka listener without TLS"),
        (b"\x15\x03\x03\x00\x02\x02\x0a", "it speaks TLS: set security.protocol to SSL or SASL_SSL"),
    ],
    ids=["HTTP", "TLS"],
)
def test_a_peer_that_speaks_something_else_is_taken_for_no_kafka(broker, connect, greeting, said):
    broker.answers[API_VERSIONS] = greeting
    with pytest.raises(ConnectionLost, match=said):
        connect()


def test_large_parts_are_sent_whole(connect):
    name = "x" * 30_000
    fields = {"topics": [{"name": name} for _ in range(200)]}
    assert connect().call(METADATA, fields).topics[-1].name == name
