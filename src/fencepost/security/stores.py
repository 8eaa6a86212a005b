"""Certificates and keys, from every form in which Kafka takes them: PEM (a file or the text itself), PKCS12 and JKS.

A file's content decides what it is, not its declared type: `keytool` has written PKCS12 into files called `.jks` for
years. Everything becomes PEM, which is what Python's `ssl` takes. Errors name settings and files, never content.
"""

import base64
import os
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from fencepost.errors import ConfigError, Malformed
from fencepost.security import jks

NEEDS = "PKCS12 files need the package `cryptography`: pip install 'fencepost[security]'"

_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Identity:
    """A private key and the certificates that vouch for it, as PEM."""

    key: str = field(repr=False)
    chain: str = field(repr=False)
    password: str | None = field(default=None, repr=False)  #: of the key; None if it is not encrypted


Value = Callable[[str], str]  #: a setting's name to its value, empty if it has none


def trust_of(value: Value) -> str | None:
    """The certificates that `ssl.truststore.*` name, as PEM; None if they name none."""
    if inline := value("ssl.truststore.certificates"):
        return load_trust("ssl.truststore.certificates", inline.encode(), None)
    path = value("ssl.truststore.location")
    where = f"ssl.truststore.location={path}"
    return load_trust(where, read(where, path), value("ssl.truststore.password") or None) if path else None


def identity_of(value: Value) -> Identity | None:
    """The key and certificate that `ssl.keystore.*` name; None if they name none."""
    key_password = value("ssl.key.password") or None
    if inline := value("ssl.keystore.key"):
        return pem_identity("ssl.keystore.key", inline, value("ssl.keystore.certificate.chain"), key_password)
    path = value("ssl.keystore.location")
    where = f"ssl.keystore.location={path}"
    return (
        load_identity(where, read(where, path), value("ssl.keystore.password") or None, key_password) if path else None
    )


def stamp(path: str) -> tuple[int, int]:
    """Changes when the file does."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return 0, 0
    return found.st_mtime_ns, found.st_ino


def load_trust(where: str, data: bytes, password: str | None) -> str:
    """The certificates to trust, as PEM. `where` names the setting and the file, for errors."""
    kind = kind_of(data)
    if kind == "PEM":
        certificates = pem_blocks(data.decode("utf-8", "replace"), "CERTIFICATE")
    elif kind == "JKS":
        store = _load_jks(where, data, password)
        certificates = [pem("CERTIFICATE", der) for der in store.trusted]
        certificates += [pem("CERTIFICATE", der) for entry in store.keys for der in entry.chain]
    else:
        certificates = _load_pkcs12(where, data, password)[1]
    if not certificates:
        raise ConfigError(f"{where} holds no certificate")
    return "\n".join(certificates)


def load_identity(where: str, data: bytes, password: str | None, key_password: str | None) -> Identity:
    kind = kind_of(data)
    if kind == "PEM":
        return pem_identity(where, data.decode("utf-8", "replace"), None, key_password or password)
    if kind == "JKS":
        store = _load_jks(where, data, password)
        if not store.keys:
            raise ConfigError(f"{where} holds no private key")
        entry = store.keys[0]
        try:
            key = jks.decrypt_key(entry.protected, key_password or password or "")
        except jks.WrongPassword:
            raise ConfigError(f"{where}: the password of the private key is wrong (ssl.key.password)") from None
        except Malformed as error:
            raise ConfigError(f"{where}: {error}") from None
        return Identity(pem("PRIVATE KEY", key), "\n".join(pem("CERTIFICATE", der) for der in entry.chain))
    key_pem, certificates = _load_pkcs12(where, data, password)
    if key_pem is None:
        raise ConfigError(f"{where} holds no private key")
    return Identity(key_pem, "\n".join(certificates))


def pem_identity(where: str, key: str, chain: str | None, password: str | None) -> Identity:
    """From texts: the key, and the chain unless it is in the same text."""
    keys = [block for label, block in _labelled(key) if label.endswith("PRIVATE KEY")]
    certificates = pem_blocks(key if chain is None else chain, "CERTIFICATE")
    if not keys:
        raise ConfigError(f"{where} holds no private key in PEM format")
    if not certificates:
        raise ConfigError(f"{where}: the certificate that belongs to the private key is missing")
    return Identity(keys[0], "\n".join(certificates), password)


def pem_blocks(text: str, wanted: str) -> list[str]:
    return [block for label, block in _labelled(text) if label == wanted]


def pem(label: str, der: bytes) -> str:
    lines = textwrap.wrap(base64.b64encode(der).decode(), 64)
    return "\n".join((f"-----BEGIN {label}-----", *lines, f"-----END {label}-----"))


def kind_of(data: bytes) -> str:
    if data.startswith(jks.MAGIC):
        return "JKS"
    return "PEM" if b"-----BEGIN " in data else "PKCS12"


def read(where: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{where}: {error.strerror}") from None


def _labelled(text: str) -> list[tuple[str, str]]:
    """PEM blocks. A text in a setting may have lost its line ends: `ssl` needs them back."""
    found = []
    for block in _BLOCK.finditer(text):
        label = block[1]
        begin, end = f"-----BEGIN {label}-----", f"-----END {label}-----"
        inner = block[0][len(begin) : -len(end)]
        if "\n" not in inner.strip() and ":" not in inner:
            inner = "\n" + "\n".join(textwrap.wrap("".join(inner.split()), 64)) + "\n"
        found.append((label, begin + inner + end))
    return found


def _load_jks(where: str, data: bytes, password: str | None) -> jks.Keystore:
    try:
        return jks.load(data, password)
    except jks.WrongPassword:
        raise ConfigError(f"{where}: the password is wrong, or the file is damaged") from None
    except Malformed as error:
        raise ConfigError(f"{where}: {error}") from None


def _load_pkcs12(where: str, data: bytes, password: str | None) -> tuple[str | None, list[str]]:
    """The key, if there is one, and the certificates: the key's own first."""
    if data.startswith(jks.MAGIC_JCEKS):
        raise ConfigError(f"{where} is a JCEKS keystore; convert it: keytool -importkeystore -deststoretype PKCS12")
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise ConfigError(f"{where}: {NEEDS}") from None
    try:
        store = pkcs12.load_pkcs12(data, password.encode() if password is not None else None)
    except ValueError:
        raise ConfigError(f"{where}: the password is wrong, or this is no PEM, PKCS12 or JKS file") from None
    held = [each for each in (store.cert, *store.additional_certs) if each is not None]
    certificates = [each.certificate.public_bytes(serialization.Encoding.PEM).decode() for each in held]
    if store.key is None:
        return None, certificates
    key = store.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return key.decode(), certificates
