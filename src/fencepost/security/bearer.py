"""OAUTHBEARER (RFC 7628): one message with a token, and the broker's reason if it refuses it."""

import json
import re
from collections.abc import Mapping
from typing import NamedTuple

from fencepost.errors import ConfigError, Malformed

MAX_BYTES = 512 * 1024

_TOKEN = re.compile(r"[-_~+/.A-Za-z0-9]+=*")
_EXTENSION_NAME = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x21-\x7e \t\r\n]+")


class Presented(NamedTuple):
    token: str
    authorize_as: str
    extensions: dict[str, str]


def encode(token: str, extensions: Mapping[str, str] | None = None) -> bytes:
    """Raises ConfigError for a token or an extension that the message has no room for."""
    if not _TOKEN.fullmatch(token):
        raise ConfigError("the OAuth token has a character that a bearer token cannot have: is it a token at all?")
    pairs = {"auth": f"Bearer {token}"}
    for name, value in (extensions or {}).items():
        if name == "auth" or not _EXTENSION_NAME.fullmatch(name) or not _EXTENSION_VALUE.fullmatch(value):
            raise ConfigError(
                f"SASL extension {name!r}: names are letters, values printable ASCII, and `auth` is taken"
            )
        pairs[name] = value
    return b"n,,\x01" + "".join(f"{name}={value}\x01" for name, value in pairs.items()).encode() + b"\x01"


def decode(message: bytes) -> Presented:
    try:
        text = message.decode("ascii")
    except UnicodeDecodeError:
        raise Malformed("an OAUTHBEARER message is not ASCII") from None
    header, separator, rest = text.partition("\x01")
    binding, _, identity = header.partition(",")
    identity, comma, left = identity.rpartition(",")
    if len(message) > MAX_BYTES or not separator or binding != "n" or not comma or left:
        raise Malformed("an OAUTHBEARER message begins with n,, and a separator")
    if not rest.endswith("\x01\x01") or (identity and not identity.startswith("a=")):
        raise Malformed("an OAUTHBEARER message is not complete")
    extensions: dict[str, str] = {}
    for pair in rest[:-2].split("\x01"):
        name, equals, value = pair.partition("=")
        if not equals or name in extensions or not _EXTENSION_NAME.fullmatch(name):
            raise Malformed("an OAUTHBEARER message is a list of name=value, each name once")
        extensions[name] = value
    scheme, _, token = extensions.pop("auth", "").partition(" ")
    if scheme.lower() != "bearer" or not _TOKEN.fullmatch(token.strip(" ")):
        raise Malformed("an OAUTHBEARER message has no bearer token")
    return Presented(token.strip(" "), identity[2:], extensions)


def encode_refusal(status: str) -> bytes:
    """`status` is one of RFC 6750: invalid_token, insufficient_scope."""
    return json.dumps({"status": status}).encode()


def decode_refusal(message: bytes) -> str:
    """Why the broker refuses the token, in words for a person. Empty bytes mean that it accepted."""
    try:
        said = json.loads(message)
    except ValueError:
        said = None
    if not isinstance(said, dict):
        return "the broker refused the token without a reason"
    reasons = [f"{name}: {said[name]}" for name in ("status", "scope", "openid-configuration") if said.get(name)]
    return f"the broker refused the token ({', '.join(reasons)})"[:500]
