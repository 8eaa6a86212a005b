"""OAUTHBEARER messages and PLAIN messages."""

import re

import pytest

from fencepost.errors import ConfigError, Malformed
from fencepost.security import bearer, plain


def test_a_token_and_its_extensions_are_read_back() -> None:
    message = bearer.encode("abc.def.ghi", {"logicalCluster": "lkc-1", "identityPoolId": "pool 1"})
    assert message.startswith(b"n,,\x01auth=Bearer abc.def.ghi\x01")
    extensions = {"logicalCluster": "lkc-1", "identityPoolId": "pool 1"}
    assert bearer.decode(message) == bearer.Presented("abc.def.ghi", "", extensions)
    assert bearer.decode(b"n,a=bob,\x01auth=bearer  t==\x01\x01") == bearer.Presented("t==", "bob", {})


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,",
        b"n,,\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer abc\x01",
        b"n,,\x01auth=Basic abc\x01\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"y,,\x01auth=Bearer abc\x01\x01",
        b"n,,\x01auth=Bearer a\x01auth=Bearer b\x01\x01",
        b"n,,\x01x\x01auth=Bearer abc\x01\x01",
        b"n,,\x01auth=Bearer abc\x01x-y=1\x01\x01",
        b"n,,x\x01auth=Bearer abc\x01\x01",
        b"n,bob,\x01auth=Bearer abc\x01\x01",
        b"n,,\x01auth=Bearer \xff\x01\x01",
        b"n,,\x01auth=Bearer " + b"x" * bearer.MAX_BYTES,
    ],
)
def test_anything_else_is_refused(message: bytes) -> None:
    with pytest.raises(Malformed):
        bearer.decode(message)


@pytest.mark.parametrize(
    ("token", "extensions"),
    [("two words", {}), ("", {}), ("t", {"auth": "x"}), ("t", {"a1": "x"}), ("t", {"a": "\x01"})],
)
def test_what_does_not_fit_into_the_message_is_not_sent(token: str, extensions: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        bearer.encode(token, extensions)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (bearer.encode_refusal("invalid_token"), r"refused the token \(status: invalid_token\)"),
        (b'{"status":"insufficient_scope","scope":"kafka"}', r"status: insufficient_scope, scope: kafka"),
        (b"\xff", "without a reason"),
        (b"[1]", "without a reason"),
    ],
)
def test_the_reason_of_a_refusal_is_told(message: bytes, said: str) -> None:
    assert re.search(said, bearer.decode_refusal(message))


def test_a_plain_message_is_read_back() -> None:
    assert plain.decode(plain.encode("älice", "pä;ss")) == ("", "älice", "pä;ss")


@pytest.mark.parametrize(
    "message", [b"", b"\0alice", b"\0alice\0", b"\0\0pass", b"\0a\0b\0c", b"\0\xff\0p", b"\0a\0" + b"x" * 65536]
)
def test_a_malformed_plain_message_is_refused(message: bytes) -> None:
    with pytest.raises(Malformed):
        plain.decode(message)
