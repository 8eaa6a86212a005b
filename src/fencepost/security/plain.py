"""PLAIN (RFC 4616): one message with the user's name and password."""

from fencepost.errors import Malformed

MAX_BYTES = 64 * 1024


def encode(user: str, password: str, authorize_as: str = "") -> bytes:
    return b"\0".join(part.encode() for part in (authorize_as, user, password))


def decode(message: bytes) -> tuple[str, str, str]:
    """The identity to act as (empty: the user's own), the user and the password."""
    parts = message.split(b"\0")
    if len(message) > MAX_BYTES or len(parts) != 3 or not parts[1] or not parts[2]:
        raise Malformed("a PLAIN message is an identity, a user and a password, separated by zero bytes")
    try:
        authorize_as, user, password = (part.decode() for part in parts)
    except UnicodeDecodeError:
        raise Malformed("a PLAIN message is not UTF-8") from None
    return authorize_as, user, password
