"""Kafka's client settings for TLS and SASL: which there are, what each may be, and what is answered to other names.

`ROWS` are the settings that exist in Kafka 4.1. Those without an effect here are accepted: they tune Java's own TLS,
and how often Java renews a Kerberos ticket, which the system's Kerberos library decides here.
`REFUSED` name Java classes. `FOREIGN` are librdkafka's spellings, answered with Kafka's.
"""

import enum
from collections.abc import Callable, Mapping
from typing import NamedTuple

from fencepost.errors import ConfigError


class Protocol(enum.StrEnum):
    """What a connection begins with: `security.protocol` of a client, and of a listener."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @classmethod
    def parse(cls, text: str, name: str) -> "Protocol":
        """`name` is the setting or argument, for the error."""
        if text.upper() not in [*cls]:
            raise ConfigError(f"{name} must be one of {', '.join(cls)}, not {text!r}")
        return cls(text.upper())

    @property
    def uses_tls(self) -> bool:
        return self in (Protocol.SSL, Protocol.SASL_SSL)

    @property
    def uses_sasl(self) -> bool:
        return self in (Protocol.SASL_PLAINTEXT, Protocol.SASL_SSL)


PROTOCOLS = tuple(Protocol)
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
TLS_VERSIONS = ("TLSv1.2", "TLSv1.3")
STORE_TYPES = ("PEM", "PKCS12", "JKS")
TOKEN_PROVIDER = "token_provider"
TOKEN_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"

Check = Callable[[str], str | None]


class Row(NamedTuple):
    default: str = ""
    check: Check | None = None  #: what is wrong with a value, or None


def _one_of(*choices: str) -> Check:
    def check(value: str) -> str | None:
        return None if value.upper() in choices else f"must be one of {', '.join(choices)}"

    return check


def _versions(value: str) -> str | None:
    wrong = [word for word in words(value) if word not in TLS_VERSIONS]
    return f"{', '.join(wrong)}: only TLSv1.2 and TLSv1.3 are supported" if wrong or not words(value) else None


def _identification(value: str) -> str | None:
    return None if value.lower() in ("", "https") else "must be https, or empty to accept a certificate of any host"


def _number(value: str) -> str | None:
    try:
        return None if float(value) >= 0 else "must not be negative"
    except ValueError:
        return "must be a number"


def _callable(value: str) -> str | None:
    module, colon, function = value.partition(":")
    fits = colon and function.isidentifier() and all(part.isidentifier() for part in module.split("."))
    return None if fits else "must be MODULE:FUNCTION, a Python function that returns a token"


def words(value: str) -> list[str]:
    return [word.strip() for word in value.split(",") if word.strip()]


_UNUSED = Row()
_NUMBER = Row(check=_number)

ROWS: dict[str, Row] = {
    "security.protocol": Row("PLAINTEXT", _one_of(*PROTOCOLS)),
    TOKEN_PROVIDER: Row(check=_callable),
    "ssl.truststore.location": Row(),
    "ssl.truststore.password": Row(),
    "ssl.truststore.type": Row("JKS", _one_of(*STORE_TYPES)),
    "ssl.truststore.certificates": Row(),
    "ssl.keystore.location": Row(),
    "ssl.keystore.password": Row(),
    "ssl.keystore.type": Row("JKS", _one_of(*STORE_TYPES)),
    "ssl.keystore.key": Row(),
    "ssl.keystore.certificate.chain": Row(),
    "ssl.key.password": Row(),
    "ssl.endpoint.identification.algorithm": Row("https", _identification),
    "ssl.enabled.protocols": Row("TLSv1.2,TLSv1.3", _versions),
    "ssl.cipher.suites": Row(),
    "ssl.protocol": _UNUSED,
    "ssl.provider": _UNUSED,
    "ssl.keymanager.algorithm": _UNUSED,
    "ssl.trustmanager.algorithm": _UNUSED,
    "ssl.secure.random.implementation": _UNUSED,
    "sasl.mechanism": Row("GSSAPI", _one_of(*MECHANISMS)),
    "sasl.jaas.config": Row(),
    "sasl.kerberos.service.name": Row(),
    "sasl.kerberos.kinit.cmd": _UNUSED,
    "sasl.kerberos.min.time.before.relogin": _UNUSED,
    "sasl.kerberos.ticket.renew.jitter": _UNUSED,
    "sasl.kerberos.ticket.renew.window.factor": _UNUSED,
    "sasl.login.connect.timeout.ms": Row("10000", _number),
    "sasl.login.read.timeout.ms": Row("10000", _number),
    "sasl.login.refresh.buffer.seconds": Row("300", _number),
    "sasl.login.refresh.min.period.seconds": Row("60", _number),
    "sasl.login.refresh.window.factor": Row("0.8", _number),
    "sasl.login.refresh.window.jitter": Row("0.05", _number),
    "sasl.login.retry.backoff.ms": Row("100", _number),
    "sasl.login.retry.backoff.max.ms": Row("10000", _number),
    TOKEN_ENDPOINT: Row(),
    "sasl.oauthbearer.client.credentials.client.id": Row(),
    "sasl.oauthbearer.client.credentials.client.secret": Row(),
    "sasl.oauthbearer.scope": Row(),
    "sasl.oauthbearer.header.urlencode": Row("false", _one_of("TRUE", "FALSE")),
    "sasl.oauthbearer.scope.claim.name": _UNUSED,
    "sasl.oauthbearer.sub.claim.name": _UNUSED,
    "sasl.oauthbearer.clock.skew.seconds": _NUMBER,
    "sasl.oauthbearer.expected.audience": _UNUSED,
    "sasl.oauthbearer.expected.issuer": _UNUSED,
    "sasl.oauthbearer.jwks.endpoint.url": _UNUSED,
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": _UNUSED,
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": _UNUSED,
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": _UNUSED,
}

_OWN_TOKENS = f"set {TOKEN_PROVIDER}=MODULE:FUNCTION, a Python function that returns a token"
REFUSED = {
    "sasl.client.callback.handler.class": f"it names a Java class. For OAUTHBEARER {_OWN_TOKENS}",
    "sasl.login.callback.handler.class": f"it names a Java class. For OAUTHBEARER {_OWN_TOKENS}",
    "sasl.login.class": f"it names a Java class. For OAUTHBEARER {_OWN_TOKENS}",
    "sasl.oauthbearer.jwt.retriever.class": f"it names a Java class. Instead, {_OWN_TOKENS}",
    "sasl.oauthbearer.jwt.validator.class": "it names a Java class; the broker validates the token",
    "ssl.engine.factory.class": "it names a Java class. Give certificates with ssl.truststore.* and ssl.keystore.*",
    "security.providers": "it names Java classes. TLS is done by OpenSSL here",
}
#: Classes of Kafka's own that do what is done here anyway.
BUILT_IN_CLASSES = frozenset(
    {
        "OAuthBearerLoginCallbackHandler",
        "OAuthBearerSaslClientCallbackHandler",
        "AbstractLogin$DefaultLoginCallbackHandler",
        "SaslClientCallbackHandler",
        "DefaultLogin",
        "DefaultJwtRetriever",
        "ClientCredentialsJwtRetriever",
        "FileJwtRetriever",
        "DefaultJwtValidator",
        "ClientJwtValidator",
    }
)
_ASSERTION = "sasl.oauthbearer.assertion."

_KEY_FILE = "ssl.keystore.location, a file with the key and its certificate, with ssl.keystore.type=PEM"
FOREIGN = {
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.username": "sasl.jaas.config, with username=\"...\" after the login module",
    "sasl.password": "sasl.jaas.config, with password=\"...\" after the login module",
    "sasl.oauthbearer.client.id": "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret": "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.method": "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.config": "sasl.jaas.config",
    "sasl.oauthbearer.extensions": "sasl.jaas.config, with extension_NAME=\"...\" after the login module",
    "sasl.kerberos.principal": "sasl.jaas.config, with principal=\"...\" after Krb5LoginModule",
    "sasl.kerberos.keytab": "sasl.jaas.config, with keyTab=\"...\" after Krb5LoginModule",
    "ssl.ca.location": "ssl.truststore.location, with ssl.truststore.type=PEM",
    "ssl.ca.pem": "ssl.truststore.certificates, with ssl.truststore.type=PEM",
    "ssl.certificate.location": _KEY_FILE,
    "ssl.certificate.pem": "ssl.keystore.certificate.chain, with ssl.keystore.type=PEM",
    "ssl.key.location": _KEY_FILE,
    "ssl.key.pem": "ssl.keystore.key, with ssl.keystore.type=PEM",
    "enable.ssl.certificate.verification": "ssl.truststore.location, with the broker's own certificate in it",
}  # fmt: skip


def is_security(name: str) -> bool:
    return name in ROWS or name in FOREIGN or name in REFUSED or name.startswith(("ssl.", "sasl.", "config.providers"))


def check(name: str, value: str) -> None:
    """Raises ConfigError unless this is a setting of Kafka's that can be followed."""
    if name in FOREIGN:
        raise ConfigError(f"{name} is librdkafka's name; Kafka's is {FOREIGN[name]}")
    if name in REFUSED and value.rpartition(".")[2] not in BUILT_IN_CLASSES:
        raise ConfigError(f"{name} is not supported: {REFUSED[name]}")
    if name.startswith(_ASSERTION):
        raise ConfigError(f"{name} is not supported: {_OWN_TOKENS}")
    row = ROWS.get(name)
    if row is not None and row.check is not None and (wrong := row.check(value)):
        raise ConfigError(f"{name} {wrong}, not {value!r}")


def known(given: Mapping[str, str]) -> dict[str, str]:
    """Those of `given` that are rows."""
    return {name: value for name, value in given.items() if name in ROWS}
