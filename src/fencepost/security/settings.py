"""A client's security: what its settings say, the TLS context that follows, and the conversation of its SASL mechanism.

A `ClientSecurity` carries the settings as they were given, references (`${env:...}`) unresolved, so it may be pickled
and sent to other machines. Contexts and tokens are made where a connection is, once a process.
"""

import difflib
import functools
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from ssl import SSLContext
from typing import TYPE_CHECKING, NamedTuple

from fencepost.errors import AuthenticationFailed, ConfigError
from fencepost.security import bearer, jaas, kerberos, names, plain, scram, stores, tls, variables
from fencepost.security.names import TOKEN_ENDPOINT, TOKEN_PROVIDER, Protocol

if TYPE_CHECKING:
    from fencepost.security.tokens import Tokens

#: What the client sends; what it is given back is what the broker answered. It ends, or raises AuthenticationFailed.
Conversation = Generator[bytes, bytes, None]


class Tls(NamedTuple):
    context: SSLContext
    suites: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    protocol: Protocol = Protocol.PLAINTEXT
    given: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def parse(cls, settings: Mapping[str, object]) -> "ClientSecurity":
        """From Kafka's names; names that have nothing to do with security are passed over. Raises ConfigError."""
        given = {name: str(value) for name, value in settings.items() if names.is_security(name) and value is not None}
        for name, value in given.items():
            _check_name(name, value)
            if not variables.has_reference(value):
                names.check(name, value.strip())
        protocol = given.get("security.protocol", "PLAINTEXT").strip()
        if variables.has_reference(protocol):
            raise ConfigError("security.protocol cannot be a reference: it decides how the others are read")
        security = cls(Protocol(protocol.upper()), tuple(sorted(names.known(given).items())))
        if security.protocol.uses_sasl:
            _check_login(security)
        return security

    @property
    def mechanism(self) -> str:
        return self.value("sasl.mechanism").upper()

    def value(self, name: str) -> str:
        """Resolved on this machine; the default if it is not given."""
        found = next((value for given, value in self.given if given == name), None)
        return names.ROWS[name].default if found is None else variables.resolve(name, found).strip()

    def has(self, name: str) -> bool:
        return any(given == name for given, _ in self.given)

    def tls(self) -> Tls:
        """Files are read again when they change: certificates are renewed under running programs."""
        paths = [self.value(name) for name in ("ssl.truststore.location", "ssl.keystore.location")]
        return _tls(self, tuple(stores.stamp(path) for path in paths))

    def check(self) -> None:
        """Read all that a connection will need: files, and what references stand for. Raises ConfigError."""
        if self.protocol.uses_tls:
            self.tls()
        if self.protocol.uses_sasl and self.has("sasl.jaas.config"):
            _login(self)

    def user_and_password(self) -> tuple[str, str]:
        """Of PLAIN and SCRAM."""
        options = _login(self).options
        return options["username"], options["password"]

    def token(self) -> tuple[str, float]:
        """Of OAUTHBEARER, and when it expires in seconds since the epoch."""
        return _tokens(self).get()

    @property
    def advice(self) -> str:
        """What follows the broker's reason for refusing a login, where that says little."""
        return f" ({kerberos.IF_REFUSED})" if self.mechanism == "GSSAPI" else ""

    def converse(self, host: str) -> Conversation:
        """One login to the broker at `host`."""
        return _MECHANISMS[self.mechanism](self, host)


def _check_name(name: str, value: str) -> None:
    if name.startswith("config.providers"):
        if name.endswith(".class") and value not in variables.JAVA_CLASSES:
            known = ", ".join(f"${{{short}:...}}" for short in variables.JAVA_CLASSES.values())
            raise ConfigError(f"{name} names a Java class; {known} work without one")
    elif name not in names.ROWS and name not in names.FOREIGN and name not in names.REFUSED:
        near = difflib.get_close_matches(name, names.ROWS, n=1, cutoff=0.7)
        if not name.startswith("sasl.oauthbearer.assertion."):
            raise ConfigError(f"Kafka has no setting {name}" + (f"; did you mean {near[0]}?" if near else ""))


# -- TLS


@functools.lru_cache(maxsize=16)
def _tls(security: ClientSecurity, stamps: tuple[tuple[int, int], ...]) -> Tls:
    value = security.value
    suites = tuple(names.words(value("ssl.cipher.suites")))
    context = tls.client_context(
        stores.trust_of(value),
        stores.identity_of(value),
        names.words(value("ssl.enabled.protocols")),
        suites,
        check_hostname=value("ssl.endpoint.identification.algorithm").lower() == "https",
    )
    return Tls(context, suites)


# -- SASL


MODULES = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
    "OAUTHBEARER": "OAuthBearerLoginModule",
    "GSSAPI": "Krb5LoginModule",
}


def _check_login(security: ClientSecurity) -> None:
    """What can be seen without resolving anything."""
    config = dict(security.given).get("sasl.jaas.config")
    if not security.has("sasl.mechanism") and MODULES["GSSAPI"] not in (config or ""):  # GSSAPI is Kafka's default
        raise ConfigError(f"sasl.mechanism is missing: one of {', '.join(names.MECHANISMS)}")
    mechanism = security.mechanism
    has_tokens = security.has(TOKEN_PROVIDER) or security.has(TOKEN_ENDPOINT)
    if mechanism == "OAUTHBEARER" and not has_tokens:
        raise ConfigError(f"OAUTHBEARER needs {TOKEN_ENDPOINT} (https://... or file:///...) or {TOKEN_PROVIDER}")
    if config is None and mechanism != "OAUTHBEARER":
        raise ConfigError(f"sasl.jaas.config is missing; for {mechanism} it names {MODULES[mechanism]}")
    if config is not None and not variables.has_reference(config):
        _login(security)
        if mechanism == "GSSAPI" and not variables.has_reference(dict(security.given).get(kerberos.SERVICE_NAME, "")):
            _kerberos_login(security)


def _login(security: ClientSecurity) -> jaas.Login:
    """Any package is accepted before the module's name: platforms shade Kafka's classes under names of their own."""
    if not security.has("sasl.jaas.config"):
        return jaas.Login(MODULES[security.mechanism], {})
    login = jaas.parse(security.value("sasl.jaas.config"))
    wanted = MODULES[security.mechanism]
    if login.module.rpartition(".")[2] != wanted:
        raise ConfigError(f"sasl.jaas.config names {login.module}; {security.mechanism} needs {wanted}")
    if security.mechanism in ("PLAIN", *scram.BY_NAME) and not {"username", "password"} <= login.options.keys():
        raise ConfigError("sasl.jaas.config must give username and password")
    return login


def _plain(security: ClientSecurity, host: str) -> Conversation:
    yield plain.encode(*security.user_and_password())


def _scram(security: ClientSecurity, host: str) -> Conversation:
    options = _login(security).options
    client = scram.Client(
        scram.BY_NAME[security.mechanism],
        options["username"],
        options["password"],
        token_auth=options.get("tokenauth", "").lower() == "true",
    )
    answer = yield client.first()
    answer = yield client.final(answer)
    client.finish(answer)


def _bearer(security: ClientSecurity, host: str) -> Conversation:
    options = _login(security).options
    prefix = "extension_"
    extensions = {name.removeprefix(prefix): value for name, value in options.items() if name.startswith(prefix)}
    answer = yield bearer.encode(security.token()[0], extensions)
    if answer:
        raise AuthenticationFailed(bearer.decode_refusal(answer))


def _kerberos_login(security: ClientSecurity) -> kerberos.Login:
    return kerberos.Login.parse(_login(security).options, security.value(kerberos.SERVICE_NAME))


def _gssapi(security: ClientSecurity, host: str) -> Conversation:
    return kerberos.converse(_kerberos_login(security), host)


@functools.lru_cache(maxsize=16)
def _tokens(security: ClientSecurity) -> "Tokens":
    from fencepost.security import tokens  # brings an HTTP client along, which other logins do not need

    value = security.value
    window = tokens.Window(
        float(value("sasl.login.refresh.window.factor")),
        float(value("sasl.login.refresh.window.jitter")),
        float(value("sasl.login.refresh.min.period.seconds")),
        float(value("sasl.login.refresh.buffer.seconds")),
    )
    if reference := value(TOKEN_PROVIDER):
        return tokens.Tokens(functools.partial(tokens.from_function, reference), window)
    url = value(TOKEN_ENDPOINT)
    if url.startswith("file:"):
        return tokens.Tokens(functools.partial(tokens.from_file, url), window)
    return tokens.Tokens(functools.partial(_ask_endpoint, security, url), window)


def _ask_endpoint(security: ClientSecurity, url: str) -> tuple[str, float]:
    """The settings are read each time: a secret may have been replaced."""
    from fencepost.security.tokens import Endpoint

    value, options = security.value, _login(security).options
    prefix = "sasl.oauthbearer.client.credentials.client."
    client_id = value(prefix + "id") or options.get("clientId", "")
    secret = value(prefix + "secret") or options.get("clientSecret", "")
    if not client_id or not secret:
        raise ConfigError(f"{TOKEN_ENDPOINT}={url} needs {prefix}id and {prefix}secret")
    # Kafka reads the endpoint's own ssl.* settings from the login module's options.
    own = {name: option for name, option in options.items() if name.startswith("ssl.")}
    context = (
        ClientSecurity.parse({"security.protocol": "SSL", **own}).tls().context if url.startswith("https:") else None
    )
    return Endpoint(
        url,
        client_id,
        secret,
        value("sasl.oauthbearer.scope") or options.get("scope", ""),
        value("sasl.oauthbearer.header.urlencode").lower() == "true",
        (float(value("sasl.login.connect.timeout.ms")) + float(value("sasl.login.read.timeout.ms"))) / 1000,
        context,
    ).fetch()


_MECHANISMS = {
    "PLAIN": _plain,
    "SCRAM-SHA-256": _scram,
    "SCRAM-SHA-512": _scram,
    "OAUTHBEARER": _bearer,
    "GSSAPI": _gssapi,
}
