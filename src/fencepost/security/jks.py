"""Java's own keystore format (JKS), read only.

Certificates are stored in the clear, private keys under a cipher that only this format uses: a keystream of SHA-1. The
password also guards the whole file with a digest. Both are read here because people have such files; neither is secure
by today's measure, and `keytool` itself advises to convert them to PKCS12.
"""

import hashlib
import hmac
import struct
from collections.abc import Iterator
from typing import NamedTuple

from fencepost.errors import Malformed

MAGIC = b"\xfe\xed\xfe\xed"
MAGIC_JCEKS = b"\xce\xce\xce\xce"

_WHITENER = b"Mighty Aphrodite"
_DIGEST_BYTES = 20
_KEY_ENTRY, _CERTIFICATE_ENTRY = 1, 2
#: The object identifier of the key cipher: 1.3.6.1.4.1.42.2.17.1.1
_KEY_CIPHER = bytes.fromhex("060a2b060104012a02110101")


class WrongPassword(Exception):
    """The password does not fit, or somebody has changed the file."""


class KeyEntry(NamedTuple):
    alias: str
    protected: bytes  #: for `decrypt_key`
    chain: list[bytes]  #: DER, the key's own certificate first


class Keystore(NamedTuple):
    keys: list[KeyEntry]
    trusted: list[bytes]  #: DER


def load(data: bytes, password: str | None) -> Keystore:
    """Without a password nothing is checked, as in Java: enough for a truststore."""
    if len(data) < 12 + _DIGEST_BYTES or not data.startswith(MAGIC):
        raise Malformed("not a JKS keystore")
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if password is not None:
        computed = hashlib.sha1(_utf16(password) + _WHITENER + body, usedforsecurity=False).digest()
        if not hmac.compare_digest(computed, digest):
            raise WrongPassword
    reader = _Reader(body[4:])
    version, count = reader.number(), reader.number()
    if version not in (1, 2):
        raise Malformed(f"a JKS keystore of version {version}; 1 and 2 are known")
    store = Keystore([], [])
    for _ in range(count):
        kind, alias = reader.number(), reader.text()
        reader.take(8)  # when it was made
        if kind == _KEY_ENTRY:
            protected = reader.blob()
            chain = [reader.certificate(version) for _ in range(reader.number())]
            store.keys.append(KeyEntry(alias, protected, chain))
        elif kind == _CERTIFICATE_ENTRY:
            store.trusted.append(reader.certificate(version))
        else:
            raise Malformed(f"a JKS keystore has an entry of the unknown kind {kind}")
    return store


def decrypt_key(protected: bytes, password: str) -> bytes:
    """The private key as PKCS#8 in DER."""
    outer = _der(protected)
    parts = _der(outer[0]) if len(outer) == 1 else []
    algorithm, encrypted = parts if len(parts) == 2 else (b"", b"")
    if not algorithm.startswith(_KEY_CIPHER) or len(encrypted) < 2 * _DIGEST_BYTES:
        raise Malformed("the private key is protected with a cipher that JKS does not have")
    salt, cipher, digest = (
        encrypted[:_DIGEST_BYTES],
        encrypted[_DIGEST_BYTES:-_DIGEST_BYTES],
        encrypted[-_DIGEST_BYTES:],
    )
    key = bytes(one ^ other for one, other in zip(cipher, _keystream(_utf16(password), salt), strict=False))
    if not hmac.compare_digest(hashlib.sha1(_utf16(password) + key, usedforsecurity=False).digest(), digest):
        raise WrongPassword
    return key


def _keystream(password: bytes, salt: bytes) -> Iterator[int]:
    block = salt
    while True:
        block = hashlib.sha1(password + block, usedforsecurity=False).digest()
        yield from block


def _utf16(password: str) -> bytes:
    return password.encode("utf-16-be")


def _der(data: bytes) -> list[bytes]:
    """The contents of the values that follow each other in `data`."""
    values, position = [], 0
    while position < len(data):
        if position + 2 > len(data):
            raise Malformed("the private key is cut off")
        size, position = data[position + 1], position + 2
        if size & 0x80:
            width = size & 0x7F
            size, position = int.from_bytes(data[position : position + width], "big"), position + width
        if position + size > len(data):
            raise Malformed("the private key is cut off")
        values.append(data[position : position + size])
        position += size
    return values


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def take(self, size: int) -> bytes:
        end = self._position + size
        if size < 0 or end > len(self._data):
            raise Malformed("the JKS keystore is cut off")
        taken, self._position = self._data[self._position : end], end
        return taken

    def number(self) -> int:
        return int(struct.unpack(">i", self.take(4))[0])

    def blob(self) -> bytes:
        return self.take(self.number())

    def text(self) -> str:
        (size,) = struct.unpack(">H", self.take(2))
        return self.take(size).decode("utf-8", "replace")

    def certificate(self, version: int) -> bytes:
        if version == 2 and self.text() not in ("X.509", "X509"):
            raise Malformed("the JKS keystore has a certificate that is not X.509")
        return self.blob()
