"""Signed tokens: whom they let in, and every way in which one does not hold."""

import base64
import hmac
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from fencepost.broker.logins import Known, LoginRefused
from fencepost.broker.principals import user
from fencepost.broker.tokens import MAX_TOKEN_CHARS, REREAD_MS, Expected, SignedTokens
from fencepost.errors import ConfigError

KEY, OTHER = rsa.generate_private_key(65537, 2048), rsa.generate_private_key(65537, 2048)
EXPECTED = Expected(("kafka",), "https://issuer", 30, "sub")
FAR = 4_000_000_000


def write_keys(path: Path, **keys: rsa.RSAPrivateKey) -> None:
    known = [
        {**json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key())), "kid": name} for name, key in keys.items()
    ]
    path.write_text(json.dumps({"keys": known}))


class Tokens(SignedTokens):
    """What is done in the background is done when the test says so."""

    def __init__(self, path: Path) -> None:
        self.now_ms = 0
        self.background: list[Callable[[], None]] = []
        super().__init__(path.as_uri(), EXPECTED, lambda: self.now_ms, self.background.append)


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    write_keys(tmp_path / "keys.json", known=KEY)
    return tmp_path / "keys.json"


@pytest.fixture
def tokens(keys: Path) -> Tokens:
    return Tokens(keys)


def token(key: Any = KEY, key_id: str | None = "known", algorithm: str = "RS256", **claims: Any) -> str:
    said = {"sub": "alice", "aud": "kafka", "iss": "https://issuer", "exp": FAR, **claims}
    kept = {name: value for name, value in said.items() if value is not None}
    return jwt.encode(kept, key, algorithm=algorithm, headers={"kid": key_id} if key_id else None)


def encode(*parts: bytes) -> str:
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


def unsigned(header: bytes, claims: bytes = b"{}") -> str:
    return encode(header, claims, bytes(256))


def public_key_as_a_secret() -> str:
    """The classic forgery: signed with the public key, as if that were a shared secret."""
    encoding, form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    public, signed = KEY.public_key().public_bytes(encoding, form), token().encode().split(b".")[1]
    head = encode(b'{"alg":"HS256","kid":"known"}').encode() + b"." + signed
    return head.decode() + "." + encode(hmac.digest(public, head, "sha256"))


@pytest.mark.parametrize("key_id", ["known", None])
def test_a_token_tells_whose_it_is_and_until_when(tokens: Tokens, key_id: str | None) -> None:
    assert tokens.check(token(key_id=key_id)) == Known(user("alice"), FAR * 1000)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (token(OTHER), "its signature is wrong"),
        (token(OTHER, "unknown"), "unknown key 'unknown'"),
        (public_key_as_a_secret(), "alg"),
        (token(None, algorithm="none"), "alg"),
        (token(aud="somebody else"), "Audience"),
        (token(aud=None), "aud"),
        (token(iss="https://other"), "issuer"),
        (token(exp=1), "expired"),
        (token(exp=None), "exp"),
        (token(sub=None), "sub"),
        (token(sub=""), "the claim sub is empty"),
        (token(nbf=FAR), "not yet valid"),
        (token()[:-8], "its signature is wrong"),
        (token() + "a" * MAX_TOKEN_CHARS, "characters"),
        ("", "."),
        ("garbage", "."),
        ("a.b.c", "."),
        (unsigned(b"[" * 5000), "recursion"),
        (unsigned(b'{"alg":"RS256","kid":["known"]}'), "unhashable"),
        (unsigned(b'{"alg":["RS256"],"kid":"known"}'), "alg"),
        (unsigned(b'{"alg":"ES256","kid":"known"}'), "."),
        (unsigned(b"null"), "."),
        (unsigned(b'{"alg":"RS256","kid":"known"}', b"[" * 5000), "its signature is wrong"),
    ],
)
def test_a_token_that_does_not_hold_is_refused(tokens: Tokens, wrong: str, reason: str) -> None:
    with pytest.raises(LoginRefused, match=reason):
        tokens.check(wrong)
    assert not tokens.background


def test_an_end_of_any_size_is_an_end(tokens: Tokens) -> None:
    assert tokens.check(token(exp=10**300)).expires_ms == 10**303


def test_new_keys_are_read_in_the_background_and_not_for_every_token(keys: Path, tokens: Tokens) -> None:
    write_keys(keys, known=KEY, new=OTHER)
    fresh = token(OTHER, "new")
    for waited_ms, reads in [(0, 0), (REREAD_MS, 0), (1, 1), (REREAD_MS, 1)]:
        tokens.now_ms += waited_ms
        with pytest.raises(LoginRefused):
            tokens.check(fresh)
        assert len(tokens.background) == reads
    tokens.background.pop()()
    assert tokens.check(fresh).principal == user("alice")


def test_keys_that_cannot_be_read_leave_those_that_are_known(
    keys: Path, tokens: Tokens, caplog: pytest.LogCaptureFixture
) -> None:
    for broken in ("half", "[]", '{"keys": [{}]}', '{"keys": [1]}', '{"keys": 1}', "[" * 100_000):
        keys.write_text(broken)
        with pytest.raises(ConfigError, match="cannot be read"):
            Tokens(keys)
        tokens.now_ms += REREAD_MS + 1
        with pytest.raises(LoginRefused):
            tokens.check(token(OTHER, "new"))
        tokens.background.pop()()
    assert caplog.text.count("the known keys stay") == 6
    assert tokens.check(token()).principal == user("alice")
