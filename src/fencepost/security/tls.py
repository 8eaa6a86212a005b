"""`ssl.SSLContext` from Kafka's settings: versions, cipher suites, whom to trust and who one is.

Java's names of cipher suites are translated. Python's `ssl` cannot choose among the suites of TLS 1.3. A connection
that agreed on one outside the list is refused after its handshake (`check_suite`).
"""

import os
import ssl
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from fencepost.errors import ConfigError
from fencepost.security.names import TLS_VERSIONS
from fencepost.security.stores import Identity

VERSIONS = dict(zip(TLS_VERSIONS, (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3), strict=True))
TLS13_PREFIX = ("TLS_AES_", "TLS_CHACHA20_")


def client_context(
    trust: str | None,
    identity: Identity | None,
    versions: Sequence[str],
    suites: Sequence[str],
    *,
    check_hostname: bool,
) -> ssl.SSLContext:
    """`trust` is PEM; None trusts the authorities that the system trusts."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = check_hostname
    if trust is None:
        context.load_default_certs()
    _configure(context, trust, identity, versions, suites, "ssl.truststore", "ssl.keystore")
    return context


def server_context(
    trust: str | None, identity: Identity, versions: Sequence[str], suites: Sequence[str], client_auth: str
) -> ssl.SSLContext:
    """`client_auth` is `required`, `requested` or `none`, as in `ssl.client.auth`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = CLIENT_AUTH[client_auth]
    context.options |= ssl.OP_NO_RENEGOTIATION  # a handshake costs the broker more than the client
    if trust is None and client_auth != "none":
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
    _configure(context, trust, identity, versions, suites, "ssl.truststore", "ssl.keystore")
    return context


CLIENT_AUTH = {"required": ssl.CERT_REQUIRED, "requested": ssl.CERT_OPTIONAL, "none": ssl.CERT_NONE}


def _configure(
    context: ssl.SSLContext, trust: str | None, identity: Identity | None, versions: Sequence[str],
    suites: Sequence[str], trust_name: str, identity_name: str,
) -> None:  # fmt: skip
    known = [VERSIONS[version] for version in versions]
    context.minimum_version, context.maximum_version = min(known), max(known)
    named = [_openssl_name(suite) for suite in suites if not suite.startswith(TLS13_PREFIX)]
    if named:
        try:
            context.set_ciphers(":".join(named))
        except ssl.SSLError:
            raise ConfigError(f"ssl.cipher.suites: OpenSSL knows none of {', '.join(suites)}") from None
        if len(named) == len(suites):  # none of TLS 1.3
            context.maximum_version = ssl.TLSVersion.TLSv1_2
    elif suites:  # of TLS 1.3 only
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    if trust is not None:
        try:
            context.load_verify_locations(cadata=trust)
        except (ssl.SSLError, TypeError, ValueError) as error:  # no certificate, no ASCII, nothing
            said = reason(error) if isinstance(error, ssl.SSLError) else str(error)
            raise ConfigError(f"{trust_name}: a certificate cannot be read: {said}") from None
    if identity is not None:
        _load_identity(context, identity, identity_name)


def _load_identity(context: ssl.SSLContext, identity: Identity, name: str) -> None:
    def password() -> str:
        # Without this OpenSSL would ask on the terminal.
        if identity.password is None:
            raise ConfigError(f"{name}: the private key is encrypted; set ssl.key.password")
        return identity.password

    with _as_file(f"{identity.key}\n{identity.chain}\n") as path:
        try:
            context.load_cert_chain(path, password=password)
        except ssl.SSLError as error:
            wrong = " (is ssl.key.password wrong?)" if identity.password is not None else ""
            raise ConfigError(
                f"{name}: the private key or its certificate cannot be used: {reason(error)}{wrong}"
            ) from None


def check_suite(connection: "ssl.SSLSocket | ssl.SSLObject", suites: Sequence[str]) -> str | None:
    """What is wrong with the suite that was agreed on, or None."""
    agreed = connection.cipher()
    if not suites or agreed is None or agreed[0] in {_openssl_name(suite) for suite in suites}:
        return None
    return f"agreed on {agreed[0]}, which ssl.cipher.suites does not list"


def reason(error: ssl.SSLError) -> str:
    """OpenSSL's reason in words, without the place in its source."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    return (error.reason or str(error)).replace("_", " ").lower()


def _openssl_name(suite: str) -> str:
    """TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 → ECDHE-RSA-AES128-GCM-SHA256. Other names are left as they are."""
    if suite.startswith(TLS13_PREFIX) or not suite.startswith("TLS_") or "_WITH_" not in suite:
        return suite
    exchange, _, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    cipher = cipher.replace("AES_128_", "AES128_").replace("AES_256_", "AES256_").replace("_CBC_", "_")
    cipher = cipher.replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    return (cipher if exchange == "RSA" else f"{exchange}_{cipher}").replace("_", "-")


@contextmanager
def _as_file(text: str) -> Iterator[str]:
    """A path that holds `text` while the block runs: in memory where the system can, else a file for this user only."""
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("fencepost-identity"), "w") as file:
            file.write(text)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
    else:
        with tempfile.NamedTemporaryFile("w") as named:
            named.write(text)
            named.flush()
            yield named.name
