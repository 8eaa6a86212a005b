"""The decoders of certificates, keys, tokens and the settings that name them; and TLS before its handshake."""

import base64
import json
import random
import ssl
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any, cast

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from fencepost.broker import principals
from fencepost.broker.connection import Connection
from fencepost.broker.connection_limits import ConnectionLimits
from fencepost.broker.encryption import Encryption
from fencepost.broker.logins import LoginRefused
from fencepost.broker.settings import Settings
from fencepost.broker.tokens import Expected, SignedTokens
from fencepost.clock import ManualClock
from fencepost.errors import ConfigError, Malformed
from fencepost.security import stores, tls, variables
from fencepost.security.authority import Authority, Certified
from fencepost.security.settings import ClientSecurity
from fencepost.security.stores import Identity
from tests.fuzz.targets import Target, Wrong, void

FAR = 4_000_000_000
NAME = {"subject": ((("commonName", "alice"),), (("organizationName", "A, B"),))}


@cache
def signing_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


@cache
def certified() -> tuple[Authority, Certified]:
    authority = Authority()
    return authority, authority.issue("broker", ["localhost"])


def stores_and_settings() -> Iterator[Target]:
    yield Target("token", _check_token, _token_seeds)
    yield Target("jwks", _read_jwks, lambda rng: iter([_jwks(), b'{"keys": []}']))
    yield Target("truststore", partial(_or_malformed, _load_trust), _store_seeds)
    yield Target("keystore", partial(_or_malformed, _load_identity), _store_seeds)
    yield Target("client settings", partial(_or_malformed, _parse_settings), _settings_seeds)
    yield Target("variable", partial(_or_malformed, _resolve), lambda rng: iter([b"a ${env:HOME} b", b"${dir:/:x}"]))
    yield Target("mapping rules", partial(_or_malformed, _map_name), _rule_seeds)
    yield Target("tls", _shake_hands, _hello_seeds)


def _or_malformed(decode: Callable[[bytes], None], data: bytes) -> None:
    """What a person wrote is refused with a ConfigError, which says what to change."""
    try:
        decode(data)
    except ConfigError as error:
        raise Malformed(str(error)) from None


# -- tokens


def _jwks() -> bytes:
    public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(signing_key().public_key()))
    return json.dumps({"keys": [{**public, "kid": "known"}]}).encode()


def _signed_tokens(keys: bytes) -> SignedTokens:
    url = "data:application/json;base64," + base64.b64encode(keys).decode()
    return SignedTokens(url, Expected(("kafka",), None, 30, "sub"), lambda: 0, lambda work: None)


_known = cache(lambda: _signed_tokens(_jwks()))


def _check_token(data: bytes) -> None:
    try:
        known = _known().check(data.decode("latin-1"))
    except LoginRefused as refused:
        raise Malformed(str(refused)) from None
    if known.principal.name != "alice":
        raise Wrong("a token was changed and holds")


def _token_seeds(rng: random.Random) -> Iterator[bytes]:
    claims = {"sub": "alice", "aud": "kafka", "exp": FAR}
    for more in ({}, {"scope": ["a", "b"], "nbf": 1}):
        yield jwt.encode({**claims, **more}, signing_key(), algorithm="RS256", headers={"kid": "known"}).encode()


def _read_jwks(data: bytes) -> None:
    _or_malformed(lambda keys: void(_signed_tokens(keys)), data)


# -- certificates


def _load_trust(data: bytes) -> None:
    void(tls.client_context(stores.load_trust("it", data, "changeit"), None, ("TLSv1.3",), (), check_hostname=True))


def _load_identity(data: bytes) -> None:
    identity = stores.load_identity("it", data, "changeit", None)
    void(tls.server_context(None, identity, ("TLSv1.3",), (), "none"))


def _store_seeds(rng: random.Random) -> Iterator[bytes]:
    authority, broker = certified()
    yield (broker.key_pem() + broker.certificate_pem()).encode()
    yield authority.certificate_pem().replace("\n", " ").encode()
    yield broker.certificate_pem().encode() + broker.key_pem("changeit").encode()
    yield broker.pkcs12("changeit")


# -- settings


def _parse_settings(data: bytes) -> None:
    pairs = [line.partition("=") for line in data.decode("utf-8", "replace").splitlines()]
    security = ClientSecurity.parse({name: value for name, _, value in pairs})
    if security.protocol.uses_sasl and security.mechanism in ("PLAIN", "SCRAM-SHA-256"):
        void(next(security.converse("localhost")))


def _settings_seeds(rng: random.Random) -> Iterator[bytes]:
    login = b'PlainLoginModule required username="alice" password="pencil";'
    yield b"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config=" + login
    yield b"security.protocol=SSL\nssl.enabled.protocols=TLSv1.3\nssl.endpoint.identification.algorithm="
    yield b"security.protocol=PLAINTEXT\nssl.cipher.suites=TLS_AES_128_GCM_SHA256"


def _resolve(data: bytes) -> None:
    void(variables.resolve("it", data.decode("utf-8", "replace"), {"HOME": "here"}))


def _map_name(data: bytes) -> None:
    rules = principals.parse_rules(data.decode("utf-8", "replace"))
    found = principals.by_certificate(NAME, rules)
    if found is not None and not isinstance(found.name, str):
        raise Wrong("a name is no text")


def _rule_seeds(rng: random.Random) -> Iterator[bytes]:
    yield b"RULE:^CN=(.*?),O=.*$/$1/L,DEFAULT"
    yield b"RULE:^CN=(.*)$/user\\/$1/U"
    yield b"RULE:.*/\\$1\\\\/"


# -- TLS


class Outside:
    """The socket and the connection, as far as TLS needs them before a handshake is done."""

    is_closed = False

    def get_extra_info(self, name: str) -> None: ...

    def set_write_buffer_limits(self, high: int) -> None: ...

    def write(self, data: bytes) -> None: ...

    def resume_reading(self) -> None: ...

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    abort = close

    def connection_made(self, transport: object) -> None:
        raise Wrong("a handshake came to its end by chance")


@cache
def _context() -> ssl.SSLContext:
    _, broker = certified()
    identity = Identity(broker.key_pem(), broker.certificate_pem())
    return tls.server_context(None, identity, ("TLSv1.2", "TLSv1.3"), (), "none")


def _shake_hands(data: bytes) -> None:
    outside = Outside()
    clock = ManualClock()
    limits = ConnectionLimits(Settings.parse({}), clock)
    protocol = Encryption(cast(Connection, outside), _context(), (), clock, limits)
    protocol.connection_made(cast(Any, outside))
    buffer = protocol.get_buffer(-1)
    buffer[: len(data)] = data
    protocol.buffer_updated(len(data))
    if outside.is_closed:
        raise Malformed("no handshake")


def _hello_seeds(rng: random.Random) -> Iterator[bytes]:
    for version in ("TLSv1.2", "TLSv1.3"):
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = tls.client_context(None, None, (version,), (), check_hostname=True)
        try:
            context.wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
        except ssl.SSLWantReadError:
            yield outgoing.read()
