"""Logins: every mechanism from both sides, renewal, and what a client learns when it is refused."""

import hashlib
import hmac
import secrets
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import pytest

from fencepost.broker.logins import (
    Known,
    Login,
    LoginRefused,
    bearer_conversation,
    plain_conversation,
    scram_conversation,
)
from fencepost.broker.principals import user
from fencepost.clock import ManualClock
from fencepost.errors import ErrorCode, KafkaError
from fencepost.security import bearer, plain
from fencepost.security.scram import Client, Credential, Mechanism, unknown_user

SHA256 = Mechanism.SCRAM_SHA_256
PASSWORD = "s3cret"
CREDENTIALS = {name: Credential.make(SHA256, PASSWORD) for name in ("alice", "bob")}


class Everybody:
    def password(self, name: str) -> str | None:
        return PASSWORD if name in CREDENTIALS else None

    def credential(self, name: str, mechanism: Mechanism) -> Credential | None:
        return CREDENTIALS.get(name) if mechanism is SHA256 else None

    def stand_in(self, name: str, mechanism: Mechanism) -> Credential:
        return unknown_user(mechanism, name, b"the broker's own", [each.shape for each in CREDENTIALS.values()])


def check_token(token: str) -> Known:
    if token == "bad":
        raise LoginRefused("it is bad")
    name, _, expires_ms = token.partition(".")
    return Known(user(name), int(expires_ms) if expires_ms else None)


class Broker:
    def __init__(self, max_reauth_ms: int = 0) -> None:
        self.clock = ManualClock()
        offered = {
            "PLAIN": partial(plain_conversation, Everybody()),
            "SCRAM-SHA-256": partial(scram_conversation, Everybody(), SHA256),
            "OAUTHBEARER": partial(bearer_conversation, check_token),
        }
        self.login = Login(offered, self.clock.now_ms, max_reauth_ms)

    def plain(self, name: str = "alice", password: str = PASSWORD) -> int:
        assert self.login.handshake("PLAIN") is ErrorCode.NONE
        return self.login.authenticate(plain.encode(name, password))[1]

    def scram(self, name: str = "alice", password: str = PASSWORD) -> int:
        client = Client(SHA256, name, password)
        assert self.login.handshake("SCRAM-SHA-256") is ErrorCode.NONE
        first, _ = self.login.authenticate(client.first())
        final, life_ms = self.login.authenticate(client.final(first))
        client.finish(final)
        return life_ms

    def bearer(self, token: str = "alice") -> int:
        assert self.login.handshake("OAUTHBEARER") is ErrorCode.NONE
        return self.login.authenticate(bearer.encode(token))[1]


def refusal(act: Callable[[], object]) -> str:
    with pytest.raises(KafkaError) as caught:
        act()
    assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    return caught.value.message


@pytest.mark.parametrize("mechanism", ["plain", "scram", "bearer"])
def test_a_client_is_known_by_its_login(mechanism: str) -> None:
    broker = Broker()
    assert broker.login.principal is None
    assert getattr(broker, mechanism)() == 0
    assert broker.login.principal == user("alice")
    assert not broker.login.is_over()


@pytest.mark.parametrize("mechanism", ["plain", "scram"])
def test_a_wrong_password_and_an_unknown_user_read_the_same(mechanism: str) -> None:
    wrong = refusal(lambda: getattr(Broker(), mechanism)("alice", "wrong"))
    unknown = refusal(lambda: getattr(Broker(), mechanism)("nobody", PASSWORD))
    assert wrong == unknown
    assert "alice" not in wrong


@pytest.mark.parametrize("password", ["wrong", "x" * 60_000])
@pytest.mark.parametrize("mechanism", ["plain", "scram"])
def test_a_wrong_password_and_an_unknown_user_are_the_same_work(
    mechanism: str, password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Operations are counted, with the bytes that go into them: a clock would measure the machine."""
    done: list[tuple[str, int]] = []

    def counted(module: ModuleType, name: str, size: Callable[..., int]) -> None:
        function = getattr(module, name)

        def count(*arguments: Any) -> Any:
            done.append((name, size(*arguments)))
            return function(*arguments)

        monkeypatch.setattr(module, name, count)

    counted(hashlib, "sha256", lambda data: len(data) > 64)
    counted(hashlib, "shake_256", len)
    counted(hashlib, "new", lambda name, data: len(data))
    counted(hmac, "digest", lambda key, data, name: len(data))
    counted(hmac, "compare_digest", lambda left, right: len(right))
    counted(secrets, "token_bytes", lambda size: size)

    def work(name: str) -> list[tuple[str, int]]:
        broker, client = Broker(), Client(SHA256, name, password, nonce="same")
        done.clear()
        if mechanism == "plain":
            refusal(partial(broker.plain, name, password))
            return [*done]
        broker.login.handshake("SCRAM-SHA-256")
        broker.login.authenticate(client.first())
        nonce = "same" + "x" * 32
        refusal(partial(broker.login.authenticate, f"c=biws,r={nonce},p={'A' * 43}=".encode()))
        return [*done]

    assert work("alice") == work("nobod")
    assert done


def test_nobody_acts_as_somebody_else() -> None:
    for mechanism, message in [
        ("PLAIN", plain.encode("alice", PASSWORD, "root")),
        ("OAUTHBEARER", b"n,a=root,\x01auth=Bearer alice\x01\x01"),
    ]:
        broker = Broker()
        broker.login.handshake(mechanism)
        assert "authorization id" in refusal(partial(broker.login.authenticate, message))
        assert broker.login.principal is None


def test_a_refused_token_gets_a_reason_that_says_nothing() -> None:
    broker = Broker()
    broker.login.handshake("OAUTHBEARER")
    answer, _ = broker.login.authenticate(bearer.encode("bad"))
    assert bearer.decode_refusal(answer) == "the broker refused the token (status: invalid_token)"
    assert refusal(partial(broker.login.authenticate, b"\x01")) == '{"status":"invalid_token"}'


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"])
def test_garbage_is_a_failed_login(mechanism: str) -> None:
    for garbage in (b"", b"\xff\xfe", b"n,,", b"\0" * 100):
        broker = Broker()
        broker.login.handshake(mechanism)
        assert refusal(partial(broker.login.authenticate, garbage)).startswith("Authentication failed: ")


def test_a_mechanism_that_is_not_offered_is_refused() -> None:
    login = Broker().login
    assert login.handshake("GSSAPI") is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert login.offered == ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"]


def test_the_steps_of_a_login_have_an_order() -> None:
    broker = Broker()
    with pytest.raises(KafkaError) as caught:
        broker.login.authenticate(b"")
    assert caught.value.code is ErrorCode.ILLEGAL_SASL_STATE
    broker.login.handshake("PLAIN")
    assert broker.login.handshake("PLAIN") is ErrorCode.ILLEGAL_SASL_STATE


def test_a_login_ends_unless_it_is_renewed() -> None:
    broker = Broker(max_reauth_ms=1000)
    assert broker.scram() == 1000
    broker.clock.advance(900)
    assert broker.scram() == 1000
    broker.clock.advance(900)
    assert not broker.login.is_over()
    broker.clock.advance(101)
    assert broker.login.is_over()


@pytest.mark.parametrize(("max_reauth_ms", "life_ms"), [(0, 5000), (9000, 5000), (1000, 1000)])
def test_a_login_does_not_outlive_its_token(max_reauth_ms: int, life_ms: int) -> None:
    broker = Broker(max_reauth_ms)
    assert broker.bearer(f"alice.{broker.clock.now_ms() + 5000}") == life_ms


@pytest.mark.parametrize("max_reauth_ms", [0, 9000])
def test_a_token_that_only_the_clocks_skew_lets_pass_gives_no_login_for_ever(max_reauth_ms: int) -> None:
    broker = Broker(max_reauth_ms)
    assert broker.bearer(f"alice.{broker.clock.now_ms() - 5000}") == 0
    broker.clock.advance(1)
    assert broker.login.is_over()


def test_an_unexpected_error_while_a_login_is_checked_is_a_failed_login() -> None:
    broker = Broker()
    broker.login.handshake("OAUTHBEARER")
    assert refusal(partial(broker.login.authenticate, bearer.encode("alice.no-number"))) == "Authentication failed"
    assert broker.login.principal is None


def test_a_renewed_login_is_the_same_users_by_the_same_mechanism() -> None:
    broker = Broker()
    broker.plain("alice")
    assert broker.login.handshake("SCRAM-SHA-256") is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert refusal(lambda: broker.plain("bob")) == "Cannot change principals during re-authentication"
    assert broker.login.principal == user("alice")
