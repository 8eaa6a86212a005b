"""Logging in over every protocol with every mechanism, and every way in which that must fail."""

import datetime
import socket
import ssl
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from fencepost.client.cluster import Cluster
from fencepost.client.connection import Connection
from fencepost.client.raw import RawConnection
from fencepost.errors import AuthenticationFailed, BootstrapFailed, ClientError, ConnectionLost
from fencepost.security.authority import Authority
from tests.security.conftest import SASL_PROTOCOLS, Secured

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
METADATA = 3


def ask(settings: dict[str, str]) -> int:
    """Connect, log in, and ask for something; the id of the broker that answers."""
    with Cluster(settings) as cluster:
        return int(cluster.any().call(METADATA, {"topics": []}).brokers[0].node_id)


def ask_for_ever(connection: Connection) -> None:
    for _ in range(1_000_000):
        connection.call(METADATA, {"topics": []})


def refusal(settings: dict[str, str], kind: type[ClientError] = AuthenticationFailed) -> str:
    with pytest.raises(kind) as caught:
        ask(settings)
    return str(caught.value)


@pytest.mark.parametrize("protocol", SASL_PROTOCOLS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_user_logs_in(secured: Secured, protocol: str, mechanism: str) -> None:
    assert ask(secured.settings(protocol, **secured.login(mechanism))) == 1


def test_a_token_logs_in(secured: Secured) -> None:
    assert ask(secured.settings("SASL_SSL", **secured.token())) == 1


def test_a_certificate_is_a_login(secured: Secured) -> None:
    assert ask(secured.settings("SSL")) == 1


def test_clients_are_told_the_address_of_the_listener_that_they_came_through(secured: Secured) -> None:
    for protocol, port in secured.ports.items():
        login = {} if protocol == "SSL" else secured.login("PLAIN")
        with Cluster(secured.settings(protocol, **login)) as cluster:
            (broker,) = cluster.any().call(METADATA, {"topics": []}).brokers
            assert broker.port == port


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_and_an_unknown_user_are_refused_alike(secured: Secured, mechanism: str) -> None:
    said = {
        refusal(secured.settings("SASL_SSL", **secured.login(mechanism, user, "wrong"))) for user in ("alice", "nobody")
    }
    assert len(said) == 1
    assert "nobody" not in said.pop()


def test_a_token_that_does_not_hold_is_refused(secured: Secured) -> None:
    for wrong in (
        secured.token(aud="somebody else"),
        secured.token(rsa.generate_private_key(65537, 2048)),
        secured.token(key_id="unknown"),
        secured.token_file("garbage"),
        secured.token_file("a.b.c"),
    ):
        assert "refused the token (status: invalid_token)" in refusal(secured.settings("SASL_SSL", **wrong))


def test_a_broker_is_refused_that_cannot_be_trusted(secured: Secured, tmp_path: Path) -> None:
    (tmp_path / "other.pem").write_text(Authority("other").certificate_pem())
    other = secured.settings("SSL", ssl_truststore_location=str(tmp_path / "other.pem"))
    assert "put the authority that issued it into ssl.truststore" in refusal(other)


def test_a_client_without_a_good_certificate_is_told_to_have_one(secured: Secured) -> None:
    settings = secured.settings("SSL")
    del settings["ssl.keystore.location"]
    assert "set ssl.keystore" in refusal(settings)
    expired = secured.authority.issue("alice", lasts=datetime.timedelta(hours=-2))
    (secured.home / "expired.pem").write_text(expired.key_pem() + expired.certificate_pem())
    strange = Authority("other").issue("alice")
    (secured.home / "strange.pem").write_text(strange.key_pem() + strange.certificate_pem())
    for name, reason in (("expired", "certificate expired"), ("strange", "unknown ca")):
        assert reason in refusal(secured.settings("SSL", ssl_keystore_location=str(secured.home / f"{name}.pem")))


def test_the_wrong_protocol_for_a_port_is_said(secured: Secured) -> None:
    ports = {"PLAINTEXT": secured.server.port, **secured.ports}

    def at(port: str, protocol: str) -> dict[str, str]:
        login = secured.login("PLAIN") if protocol.startswith("SASL") else {}
        return secured.settings(protocol, **login) | {"bootstrap.servers": f"localhost:{ports[port]}"}

    assert "is this a TLS listener?" in refusal(at("PLAINTEXT", "SSL"), BootstrapFailed)
    assert "is this a TLS listener?" in refusal(at("SASL_PLAINTEXT", "SASL_SSL"), BootstrapFailed)
    plain = {"bootstrap.servers": f"localhost:{ports['SSL']}"}
    assert "hung up" in refusal(plain, BootstrapFailed)
    assert "does not offer PLAIN" in refusal(at("PLAINTEXT", "SASL_PLAINTEXT"))
    assert "hung up before it answered metadata" in refusal(
        {"bootstrap.servers": f"localhost:{ports['SASL_PLAINTEXT']}"}, ConnectionLost
    )


def test_a_mechanism_that_is_not_enabled_is_answered_with_those_that_are(
    make_secured: Callable[..., Secured],
) -> None:
    secured = make_secured(sasl_enabled_mechanisms="SCRAM-SHA-512")
    said = refusal(secured.settings("SASL_PLAINTEXT", **secured.login("PLAIN")))
    assert "does not offer PLAIN; set sasl.mechanism to what it does: SCRAM-SHA-512" in said


def test_a_login_is_renewed_on_the_same_connection(make_secured: Callable[..., Secured]) -> None:
    secured = make_secured(connections_max_reauth_ms="400")
    with Cluster(secured.settings("SASL_SSL", **secured.login("SCRAM-SHA-256"))) as cluster:
        first = cluster.any()
        logins, end_s = 0, time.monotonic() + 60
        while logins < 3:
            assert time.monotonic() < end_s
            before = first._login_ends_s
            first.call(METADATA, {"topics": []})
            logins += first._login_ends_s != before
        assert cluster.any() is first


def test_a_login_that_is_not_renewed_ends_the_connection(make_secured: Callable[..., Secured]) -> None:
    secured = make_secured(connections_max_reauth_ms="200")
    with Cluster(secured.settings("SASL_PLAINTEXT", **secured.login("PLAIN"))) as cluster:
        connection = cluster.any()
        connection._renew_login_s = connection._login_ends_s = float("inf")
        with pytest.raises(ConnectionLost):
            ask_for_ever(connection)
        assert cluster.any() is not connection


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SSL", "SASL_SSL"])
def test_garbage_ends_its_connection_and_nobody_elses(secured: Secured, protocol: str) -> None:
    login = {} if protocol == "SSL" else secured.login("PLAIN")
    with Cluster(secured.settings(protocol, **login)) as cluster:
        other = cluster.any()
        for garbage in (
            b"\x16\x03\x01\x00\x05nonsense",
            b"GET / HTTP/1.1\r\n\r\n",
            b"\x7f\xff\xff\xff",
            bytes(100),
            b"\xff" * 9,
        ):
            with socket.create_connection(("127.0.0.1", secured.ports[protocol]), 10) as rough:
                rough.sendall(garbage)
                rough.shutdown(socket.SHUT_WR)
                while rough.recv(4096):
                    pass
        other.call(METADATA, {"topics": []})


def test_a_frame_before_the_login_is_small(secured: Secured) -> None:
    with socket.create_connection(("127.0.0.1", secured.ports["SASL_PLAINTEXT"]), 10) as rough:
        rough.sendall(struct.pack(">i", 2**31 - 1))
        assert rough.recv(1) == b""


def test_a_handshake_that_is_cut_costs_nobody_anything(secured: Secured) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    hello = outgoing.read()
    for cut in (1, 5, len(hello) // 2, len(hello)):
        with socket.create_connection(("127.0.0.1", secured.ports["SSL"]), 10) as rough:
            rough.sendall(hello[:cut])
    assert ask(secured.settings("SSL")) == 1


def test_a_suite_of_tls_1_3_that_is_not_listed_is_refused(make_secured: Callable[..., Secured]) -> None:
    secured = make_secured(ssl_cipher_suites="TLS_AES_128_GCM_SHA256")  # OpenSSL prefers TLS_AES_256_GCM_SHA384
    with pytest.raises(BootstrapFailed):
        ask(secured.settings("SSL"))


def test_certificates_are_replaced_while_the_broker_runs(make_secured: Callable[..., Secured]) -> None:
    secured = make_secured()
    assert ask(secured.settings("SSL")) == 1
    renewed = Authority("renewed").issue("broker", ["localhost"])
    path = secured.home / "new.pem"
    path.write_text(renewed.key_pem() + renewed.certificate_pem())
    path.replace(secured.home / "broker.pem")
    assert "the broker's certificate is refused" in refusal(secured.settings("SSL"))
    (secured.home / "broker.pem").write_text("half")
    assert "the broker's certificate is refused" in refusal(secured.settings("SSL"))


def test_users_survive_a_restart_and_can_be_taken_away(make_secured: Callable[..., Secured]) -> None:
    secured = make_secured()
    settings = secured.settings("SASL_PLAINTEXT", **secured.login("SCRAM-SHA-512"))
    assert ask(settings) == 1
    secured.server.restart(kill=True)
    assert ask(settings) == 1
    with RawConnection(secured.server.address) as raw:
        gone = [{"name": "alice", "mechanism": 2}]
        (result,) = raw.call(51, 0, deletions=gone, upsertions=[]).results
        assert (result.user, result.error_code) == ("alice", 0)
    refusal(settings)
    assert ask(secured.settings("SASL_PLAINTEXT", **secured.login("SCRAM-SHA-256"))) == 1
