"""A client that logs in at a broker which lies, or is another one."""

import contextlib
import re
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from typing import Any, Self

import pytest

from fencepost.client.connection import MAX_GREETING_BYTES, Connection
from fencepost.client.settings import ClientSettings
from fencepost.errors import AuthenticationFailed, ClientError, ConnectionLost
from fencepost.security.authority import Authority
from fencepost.security.scram import Credential, Mechanism, Server, read_first
from fencepost.security.stores import Identity
from fencepost.security.tls import server_context
from fencepost.wire.terms import Address
from tests.fakes.frames import HANG_UP, SILENCE
from tests.unit.client.scripted import ScriptedBroker, settings

SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
MECHANISM = "SCRAM-SHA-256"
LOGIN = 'ScramLoginModule required username="user" password="pencil";'
CREDENTIAL = Credential.make(Mechanism.SCRAM_SHA_256, "pencil")


def log_in(broker: ScriptedBroker, **more: str) -> None:
    given = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": MECHANISM, "sasl_jaas_config": LOGIN, **more}
    with Connection(broker.address, ClientSettings.parse(settings(broker, **given))):
        pass


def refusal(broker: ScriptedBroker, kind: type[ClientError], **more: str) -> str:
    with pytest.raises(kind) as caught:
        log_in(broker, **more)
    assert type(caught.value) is kind
    assert "pencil" not in str(caught.value)
    return str(caught.value)


class Answers:
    """A broker's part of the exchange, whose first and last message may be changed."""

    def __init__(self, change: Callable[[bytes], bytes] = bytes, change_last: Callable[[bytes], bytes] = bytes) -> None:
        self._change, self._change_last = change, change_last
        self._server: Server | None = None

    def __call__(self, request: Any) -> dict[str, Any]:
        message = bytes(request.auth_bytes)
        if self._server is None:
            self._server = Server(read_first(message), CREDENTIAL)
            return {"auth_bytes": self._change(self._server.first)}
        return {"auth_bytes": self._change_last(self._server.final(message) or b"e=invalid-proof")}


@pytest.fixture
def broker(broker: ScriptedBroker) -> ScriptedBroker:
    broker.answers[SASL_HANDSHAKE] = {"mechanisms": [MECHANISM]}
    broker.answers[SASL_AUTHENTICATE] = Answers()
    return broker


def test_a_right_exchange_is_a_login(broker: ScriptedBroker) -> None:
    log_in(broker)


def iterations(number: int) -> Callable[[bytes], bytes]:
    return lambda first: re.sub(rb"i=\d+", b"i=%d" % number, first)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda first: b"r=other" + first[2:], "its nonce does not continue ours"),
        (lambda first: b"r=,s=AAAA,i=4096", "its nonce does not continue ours"),
        (iterations(4095), "4095 iterations; 4096 to 1000000 are accepted"),
        (iterations(1), "create the user's credentials again"),
        (iterations(2**31), "2147483648 iterations"),
        (iterations(10**30), "not a number"),
        (lambda first: b"", "the SCRAM-SHA-256 login cannot go on"),
        (lambda first: b"\xff\xfe", "not UTF-8"),
        (lambda first: b"nonsense", "the SCRAM-SHA-256 login cannot go on"),
        (lambda first: first[: len(first) // 2], "login cannot go on"),
    ],
)
def test_a_broker_that_changes_the_exchange_is_refused_at_once(
    broker: ScriptedBroker, change: Callable[[bytes], bytes], said: str
) -> None:
    broker.answers[SASL_AUTHENTICATE] = Answers(change)
    before = time.process_time()
    assert said in refusal(broker, AuthenticationFailed)
    assert time.process_time() - before < 1, "it computed what the broker asked for"


@pytest.mark.parametrize(
    ("last", "said"),
    [
        (lambda last: b"v=AAAA", "could not prove that it knows the user: is this the right cluster?"),
        (lambda last: b"e=other-error", "the broker refused the login: other-error"),
        (lambda last: b"\0", "login cannot go on"),
    ],
)
def test_a_broker_that_does_not_know_the_user_is_refused(
    broker: ScriptedBroker, last: Callable[[bytes], bytes], said: str
) -> None:
    broker.answers[SASL_AUTHENTICATE] = Answers(change_last=last)
    assert said in refusal(broker, AuthenticationFailed)


@pytest.mark.parametrize("at", [SASL_HANDSHAKE, SASL_AUTHENTICATE])
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (struct.pack(">i", 2**31 - 1), "an answer of 2147483647 bytes"),
        (struct.pack(">i", MAX_GREETING_BYTES + 1), f"an answer of {MAX_GREETING_BYTES + 1} bytes"),
        (struct.pack(">i", -1), "an answer of -1 bytes"),
        (struct.pack(">ii", 6, 1) + b"\0", "did not answer"),
        (HANG_UP, "hung up before it answered"),
        (SILENCE, "did not answer"),
    ],
)
def test_an_answer_that_is_none_ends_the_login(broker: ScriptedBroker, at: int, answer: Any, said: str) -> None:
    broker.answers[at] = answer
    assert said in refusal(broker, ConnectionLost, request_timeout_ms="200")


def test_a_mechanism_that_is_not_offered_is_answered_with_those_that_are(broker: ScriptedBroker) -> None:
    broker.answers[SASL_HANDSHAKE] = {"error_code": 33, "mechanisms": ["PLAIN", "GSSAPI"]}
    said = refusal(broker, AuthenticationFailed)
    assert "does not offer SCRAM-SHA-256; set sasl.mechanism to what it does: PLAIN, GSSAPI" in said


class CutHandshake:
    """A TLS server that hangs up after so many bytes of its answer."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.cut = 0
        self.answer_bytes = 1  # until it is known
        self.address = Address(*self._listener.getsockname())
        threading.Thread(target=self._serve, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
                tls = self._context.wrap_bio(incoming, outgoing, server_side=True)
                with connection:
                    while not outgoing.pending:
                        incoming.write(connection.recv(4096))
                        with contextlib.suppress(ssl.SSLWantReadError):
                            tls.do_handshake()
                    answer = outgoing.read()
                    self.answer_bytes = len(answer)
                    connection.sendall(answer[: self.cut])
                    connection.shutdown(socket.SHUT_RDWR)


def test_a_broker_that_hangs_up_in_the_middle_of_the_handshake_may_come_back() -> None:
    authority = Authority()
    certified = authority.issue("broker", ["127.0.0.1"])
    identity = Identity(certified.key_pem(), certified.certificate_pem())
    trust = {"security.protocol": "SSL", "ssl.truststore.certificates": authority.certificate_pem()}
    with CutHandshake(server_context(None, identity, ("TLSv1.3",), (), "none")) as broker:
        asked = ClientSettings.parse({"bootstrap.servers": str(broker.address), **trust})
        while broker.cut < broker.answer_bytes:
            with pytest.raises(ConnectionLost, match="hung up"):
                Connection(broker.address, asked)
            broker.cut += 23
        assert broker.cut > 23
