"""SCRAM (RFC 5802, RFC 7677): both sides of the exchange, and what a broker stores of a password.

::

    client                                      broker
    n,,n=USER,r=CNONCE                     ->
                                           <-   r=CNONCE+SNONCE,s=SALT,i=ITERATIONS
    c=biws,r=CNONCE+SNONCE,p=PROOF         ->
                                           <-   v=SIGNATURE, or e=ERROR

The client proves that it knows the password, and the broker that it knows what was derived from it. A broker answers an
unknown user like a known one, with a salt that stays the same for that name, and fails at the end.
"""

import base64
import binascii
import enum
import hashlib
import hmac
import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from fencepost.errors import AuthenticationFailed, Malformed

MIN_ITERATIONS = 4096
#: Kafka's limit for stored credentials. A client that followed any number would compute for hours.
MAX_ITERATIONS = 16384
#: What a client accepts: other brokers may store stronger credentials than Kafka lets one make.
MAX_ACCEPTED_ITERATIONS = 1_000_000
MAX_MESSAGE_BYTES = 64 * 1024
SALT_BYTES = 24
#: Kafka's tools make a salt of a random number of 130 bits in base 36.
_KAFKAS_SALT = re.compile(rb"[0-9a-z]{20,26}")
_KAFKAS_SALT_BITS, _KAFKAS_SALT_BYTES = 130, 17
NO_CHANNEL_BINDING = "n,,"


class Mechanism(enum.Enum):
    """The value is the name of the hash in `hashlib`."""

    SCRAM_SHA_256 = "sha256"
    SCRAM_SHA_512 = "sha512"

    @property
    def mechanism(self) -> str:
        return self.name.replace("_", "-")

    def hash(self, data: bytes) -> bytes:
        return hashlib.new(self.value, data).digest()

    def hmac(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self.value)

    def salted_password(self, password: bytes, salt: bytes, iterations: int) -> bytes:
        return hashlib.pbkdf2_hmac(self.value, password, salt, iterations)


BY_NAME = {each.mechanism: each for each in Mechanism}


class Shape(NamedTuple):
    """What the first answer shows of how a credential was made."""

    salt_bytes: int  #: 0 for salts as Kafka's own tools make them
    iterations: int


#: Of the credentials that are made here.
OWN_SHAPE = Shape(SALT_BYTES, MIN_ITERATIONS)


@dataclass(frozen=True, slots=True)
class Credential:
    """What a broker keeps of a password: enough to check it, not enough to log in with."""

    mechanism: Mechanism
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    @classmethod
    def make(cls, mechanism: Mechanism, password: str, iterations: int = MIN_ITERATIONS) -> "Credential":
        salt = secrets.token_bytes(SALT_BYTES)
        return cls.from_salted(
            mechanism, salt, mechanism.salted_password(password.encode(), salt, iterations), iterations
        )

    @classmethod
    def from_salted(cls, mechanism: Mechanism, salt: bytes, salted: bytes, iterations: int) -> "Credential":
        """From a password that was salted elsewhere, as `kafka-configs` does before it asks for the user's creation."""
        client_key = mechanism.hmac(salted, b"Client Key")
        server_key = mechanism.hmac(salted, b"Server Key")
        return cls(mechanism, salt, mechanism.hash(client_key), server_key, iterations)

    @property
    def shape(self) -> Shape:
        return Shape(0 if _KAFKAS_SALT.fullmatch(self.salt) else len(self.salt), self.iterations)

    def fits(self, password: str) -> bool:
        salted = self.mechanism.salted_password(password.encode(), self.salt, self.iterations)
        made = Credential.from_salted(self.mechanism, self.salt, salted, self.iterations)
        return hmac.compare_digest(made.stored_key, self.stored_key)


# -- the client's side


class Client:
    """One exchange. `first`, then `final` with the broker's answer, then `finish` with its second one."""

    def __init__(
        self, mechanism: Mechanism, user: str, password: str, *, token_auth: bool = False, nonce: str | None = None
    ) -> None:
        """`token_auth` says that user and password are those of a delegation token."""
        self._mechanism = mechanism
        self._password = password.encode()
        self._nonce = nonce or base64.b64encode(secrets.token_bytes(24)).decode()
        extension = ",tokenauth=true" if token_auth else ""
        self._first = f"n={_escape(user)},r={self._nonce}{extension}"
        self._signature = b""

    def first(self) -> bytes:
        return (NO_CHANNEL_BINDING + self._first).encode()

    def final(self, server_first: bytes) -> bytes:
        fields = _fields(server_first)
        if "e" in fields:
            raise AuthenticationFailed(f"the broker ended the exchange: {fields['e'][:200]}")
        nonce, salt = fields.get("r", ""), _decode64(fields.get("s", ""))
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise AuthenticationFailed("the broker answered another login: its nonce does not continue ours")
        iterations = _iterations(fields.get("i", ""))
        if not MIN_ITERATIONS <= iterations <= MAX_ACCEPTED_ITERATIONS:
            raise AuthenticationFailed(
                f"the broker asks for {iterations} iterations; {MIN_ITERATIONS} to {MAX_ACCEPTED_ITERATIONS} are "
                f"accepted. Fewer make a password easy to guess: create the user's credentials again"
            )
        salted = self._mechanism.salted_password(self._password, salt, iterations)
        without_proof = f"c={base64.b64encode(NO_CHANNEL_BINDING.encode()).decode()},r={nonce}"
        said = b",".join((self._first.encode(), server_first, without_proof.encode()))
        client_key = self._mechanism.hmac(salted, b"Client Key")
        proof = _xor(client_key, self._mechanism.hmac(self._mechanism.hash(client_key), said))
        self._signature = self._mechanism.hmac(self._mechanism.hmac(salted, b"Server Key"), said)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def finish(self, server_final: bytes) -> None:
        fields = _fields(server_final)
        if "e" in fields:
            raise AuthenticationFailed(f"the broker refused the login: {fields['e'][:200]}")
        if not hmac.compare_digest(_decode64(fields.get("v", "")), self._signature):
            raise AuthenticationFailed("the broker could not prove that it knows the user: is this the right cluster?")


# -- the broker's side


class ClientFirst(NamedTuple):
    user: str
    nonce: str
    bare: str  #: the part that both sides sign
    authorize_as: str
    is_token: bool


def read_first(message: bytes) -> ClientFirst:
    text = _text(message)
    binding, separator, rest = text.partition(",")
    authorize_as, second, bare = rest.partition(",")
    if not separator or not second or binding not in ("n", "y"):
        raise Malformed("a SCRAM exchange begins with n,, (channel binding is not supported)")
    fields = _fields(bare.encode())
    if not bare.startswith("n=") or not fields.get("n") or not fields.get("r") or "m" in fields:
        raise Malformed("a SCRAM exchange begins with a user and a nonce")
    if authorize_as and not authorize_as.startswith("a="):
        raise Malformed("the identity to act as must begin with a=")
    is_token = fields.get("tokenauth", "").lower() == "true"
    return ClientFirst(_unescape(fields["n"]), fields["r"], bare, _unescape(authorize_as[2:]), is_token)


class Server:
    """One exchange with a client whose user is known, or made to look so: see `unknown_user`."""

    def __init__(self, first: ClientFirst, credential: Credential, *, nonce: str | None = None) -> None:
        self._credential = credential
        self._nonce = first.nonce + (nonce or base64.b64encode(secrets.token_bytes(24)).decode())
        salt = base64.b64encode(credential.salt).decode()
        self.first = f"r={self._nonce},s={salt},i={credential.iterations}".encode()
        self._said = f"{first.bare},".encode() + self.first

    def final(self, message: bytes) -> bytes | None:
        """The last message to the client, or None if it does not know the password."""
        fields = _fields(message)
        without_proof, separator, _ = message.rpartition(b",p=")
        if not separator or "c" not in fields or "r" not in fields:
            raise Malformed("the second message of a SCRAM exchange has a binding, a nonce and a proof")
        said = self._said + b"," + without_proof
        credential = self._credential
        signed = credential.mechanism.hmac(credential.stored_key, said)
        proof = _decode64(fields["p"])
        client_key = _xor(proof, signed) if len(proof) == len(signed) else b""
        knows = hmac.compare_digest(credential.mechanism.hash(client_key), credential.stored_key)
        same_login = hmac.compare_digest(fields["r"].encode(), self._nonce.encode())
        if not (knows and same_login and _decode64(fields["c"])[:1] in (b"n", b"y")):
            return None
        signature = credential.mechanism.hmac(credential.server_key, said)
        return f"v={base64.b64encode(signature).decode()}".encode()


def unknown_user(mechanism: Mechanism, user: str, secret: bytes, shapes: Collection[Shape] = ()) -> Credential:
    """The credential that nobody can meet.

    It looks like one of those that there are, which have `shapes`, and the same name always gets the same. `secret` is
    the broker's own, so that nobody else can compute the salt. A new shape changes few names (rendezvous hashing).
    """

    def drawn(about: str, size: int = 64) -> bytes:
        return hashlib.shake_256(secret + f"{mechanism.mechanism} {about} {user}".encode()).digest(size)

    shape = max(shapes or (OWN_SHAPE,), key=lambda each: drawn(f"{each.salt_bytes} {each.iterations}"))
    salt = drawn("salt", shape.salt_bytes or _KAFKAS_SALT_BYTES)
    if not shape.salt_bytes:
        salt = _base36(int.from_bytes(salt) >> (8 * _KAFKAS_SALT_BYTES - _KAFKAS_SALT_BITS))
    size = len(mechanism.hash(b""))
    return Credential(mechanism, salt, secrets.token_bytes(size), secrets.token_bytes(size), shape.iterations)


def _base36(number: int) -> bytes:
    digits = bytearray()
    while number:
        number, digit = divmod(number, 36)
        digits.append(b"0123456789abcdefghijklmnopqrstuvwxyz"[digit])
    return bytes(reversed(digits)) or b"0"


# -- messages


def _text(message: bytes) -> str:
    if len(message) > MAX_MESSAGE_BYTES:
        raise Malformed(f"a SCRAM message of {len(message)} bytes")
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise Malformed("a SCRAM message is not UTF-8") from None


def _fields(message: bytes) -> dict[str, str]:
    """`a=1,b=2` as a dictionary. A field that occurs twice is refused: which one was meant would be a guess."""
    fields: dict[str, str] = {}
    for word in _text(message).split(","):
        name, separator, value = word.partition("=")
        if not separator or not name.isascii() or not name.isalpha() or name in fields:
            raise Malformed("a SCRAM message is a list of name=value, each name once")
        fields[name] = value
    return fields


def _decode64(text: str) -> bytes:
    try:
        decoded = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Malformed("a SCRAM message has a field that is not base64") from None
    if not decoded:
        raise Malformed("a SCRAM message lacks a field")
    return decoded


def _iterations(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 10:
        raise Malformed("the number of SCRAM iterations is not a number")
    return int(text)


def _escape(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _unescape(name: str) -> str:
    unescaped = name.replace("=2C", ",").replace("=3D", "=")
    if _escape(unescaped) != name:
        raise Malformed("a SCRAM user's name has an = that is not escaped")
    return unescaped


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(one ^ other for one, other in zip(left, right, strict=True))
