"""SCRAM: the exchange of RFC 7677, both sides against each other, and every way in which it must fail."""

import base64
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.errors import AuthenticationFailed, Malformed
from fencepost.security import scram
from fencepost.security.scram import Client, Credential, Mechanism, Server, read_first

SHA256 = Mechanism.SCRAM_SHA_256
SECRET = b"the broker's own"
PASSWORD = "pencil"
CREDENTIAL = Credential.make(SHA256, PASSWORD)


def exchange(client: Client, credential: Credential) -> bool:
    """Whether both sides agree."""
    server = Server(read_first(client.first()), credential)
    answer = server.final(client.final(server.first))
    if answer is None:
        return False
    client.finish(answer)
    return True


def test_the_example_of_rfc_7677() -> None:
    client = Client(SHA256, "user", PASSWORD, nonce="rOprNGfwEbeRWgbNEkqO")
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    first = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert client.final(first) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    client.finish(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@settings(max_examples=20)
@given(st.sampled_from(Mechanism), st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.text(min_size=1))
def test_any_name_and_password_log_in_and_no_other_password_does(
    mechanism: Mechanism, user: str, password: str
) -> None:
    password = password.encode("utf-8", "replace").decode()
    credential = Credential.make(mechanism, password)
    assert read_first(Client(mechanism, user, password).first()).user == user
    assert exchange(Client(mechanism, user, password), credential)
    assert not exchange(Client(mechanism, user, password + "x"), credential)


def test_the_broker_stores_nothing_that_logs_in_or_prints() -> None:
    assert PASSWORD not in repr(CREDENTIAL)
    assert base64.b64encode(CREDENTIAL.stored_key).decode() not in repr(CREDENTIAL)
    stolen = base64.b64encode(CREDENTIAL.stored_key).decode()
    assert not exchange(Client(SHA256, "user", stolen), CREDENTIAL)


def test_an_unknown_user_gets_the_same_salt_each_time_and_never_in() -> None:
    salts = set()
    for _ in range(2):
        credential = scram.unknown_user(SHA256, "nobody", SECRET)
        client = Client(SHA256, "nobody", PASSWORD)
        server = Server(read_first(client.first()), credential)
        salts.add(re.findall(rb",s=([^,]*),i=4096", server.first)[0])
        assert server.final(client.final(server.first)) is None
    assert len(salts) == 1
    assert scram.unknown_user(SHA256, "other", SECRET).salt != credential.salt
    assert credential.shape == CREDENTIAL.shape


def test_unknown_users_look_like_those_that_there_are() -> None:
    java = replace(CREDENTIAL, salt=b"1h8k2yx0z5c9v3b7n4m6q8w2e1").shape
    strong, theirs = scram.Shape(24, 8192), scram.Shape(64, 4096)
    shapes = [java, strong, theirs]
    assert java == scram.Shape(0, 4096)
    names = [f"user {number}" for number in range(100)]
    drawn = {name: scram.unknown_user(SHA256, name, SECRET, shapes) for name in names}
    assert {credential.shape for credential in drawn.values()} == set(shapes)
    # Kafka's salts are numbers of 130 bits in base 36: these begin with 1, or have a digit less.
    kafkas = [credential.salt for credential in drawn.values() if credential.shape == java]
    assert all(len(salt) < 26 or salt.startswith(b"1") for salt in kafkas)
    # A shape that nobody has any more, and a new one, change only the names that they are for.
    for fewer in ([java, strong], [java, theirs]):
        for name in names:
            if drawn[name].shape in fewer:
                assert scram.unknown_user(SHA256, name, SECRET, fewer).salt == drawn[name].salt


@pytest.mark.parametrize(
    ("first", "error"),
    [
        (b"r=NONCEx,s=AAAA,i=4095", "4095 iterations"),
        (b"r=NONCEx,s=AAAA,i=1000001", "1000001 iterations"),
        (b"r=OTHERx,s=AAAA,i=4096", "its nonce does not continue ours"),
        (b"r=NONCE,s=AAAA,i=4096", "its nonce does not continue ours"),
        (b"e=unknown-user", "the broker ended the exchange: unknown-user"),
    ],
)
def test_a_client_refuses_a_broker_that_weakens_the_exchange(first: bytes, error: str) -> None:
    client = Client(SHA256, "user", PASSWORD, nonce="NONCE")
    client.first()
    with pytest.raises(AuthenticationFailed, match=error):
        client.final(first)


@pytest.mark.parametrize(
    ("final", "error"),
    [
        (b"v=AAAA", "could not prove that it knows the user"),
        (b"e=invalid-proof", "the broker refused the login: invalid-proof"),
    ],
)
def test_a_client_refuses_a_broker_that_does_not_know_the_user(final: bytes, error: str) -> None:
    client = Client(SHA256, "user", PASSWORD)
    server = Server(read_first(client.first()), CREDENTIAL)
    client.final(server.first)
    with pytest.raises(AuthenticationFailed, match=error):
        client.finish(final)


@pytest.mark.parametrize("changed", [b"r=", b"c=", b"p="])
def test_a_changed_second_message_does_not_log_in(changed: bytes) -> None:
    client = Client(SHA256, "user", PASSWORD)
    server = Server(read_first(client.first()), CREDENTIAL)
    message = client.final(server.first)
    at = message.index(changed) + len(changed)
    broken = message[:at] + (b"A" if message[at : at + 1] != b"A" else b"B") + message[at + 1 :]
    assert server.final(broken) is None


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,",
        b"n,,n=user",
        b"n,,r=abc",
        b"p=tls-unique,,n=user,r=abc",
        b"n,,n=,r=abc",
        b"n,,n=user,r=",
        b"n,,n=us=er,r=abc",
        b"n,,n=user,r=a,r=b",
        b"n,x,n=user,r=abc",
        b"n,,m=must,n=user,r=abc",
        b"\xff,,n=u,r=a",
        b"n,,n=user,r=" + b"x" * scram.MAX_MESSAGE_BYTES,
    ],
)
def test_a_malformed_first_message_is_refused(message: bytes) -> None:
    with pytest.raises(Malformed):
        read_first(message)


@pytest.mark.parametrize(
    "message", [b"", b"c=biws,r=x", b"c=biws,p=AAAA", b"c=biws,r=x,p=*", b"\xff", b"c=biws,r=x,p="]
)
def test_a_malformed_second_message_is_refused(message: bytes) -> None:
    server = Server(read_first(b"n,,n=user,r=abc"), CREDENTIAL)
    with pytest.raises(Malformed):
        server.final(message)


@pytest.mark.parametrize(
    "message", [b"", b"nonsense", b"r=NONCEx,i=4096", b"r=NONCEx,s=*,i=4096", b"r=NONCEx,s=AAAA,i=x"]
)
def test_a_malformed_answer_of_the_broker_is_refused(message: bytes) -> None:
    with pytest.raises(Malformed):
        Client(SHA256, "user", PASSWORD, nonce="NONCE").final(message)


def test_a_delegation_token_says_so() -> None:
    assert read_first(Client(SHA256, "id", "hmac", token_auth=True).first()).is_token
    assert not read_first(Client(SHA256, "id", "hmac").first()).is_token
