"""The decoders of logins and keystores: what a stranger may send before anybody knows who it is."""

import json
import random
from collections.abc import Iterator
from functools import cache

from fencepost.broker import logins
from fencepost.broker.logins import Known, Login, LoginRefused
from fencepost.broker.principals import user
from fencepost.errors import AuthenticationFailed, ConfigError, KafkaError, Malformed
from fencepost.security import bearer, jaas, jks, kerberos, plain, scram
from fencepost.security.scram import Client, Credential, Mechanism, Server
from tests.fuzz.certificate_targets import stores_and_settings
from tests.fuzz.targets import Target, Wrong, void

CREDENTIAL = Credential.make(Mechanism.SCRAM_SHA_256, "pencil")
TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln"


class Nobody:
    def password(self, name: str) -> str | None:
        return "pencil" if name == "user" else None

    def credential(self, name: str, mechanism: Mechanism) -> Credential | None:
        return CREDENTIAL if name == "user" else None

    def stand_in(self, name: str, mechanism: Mechanism) -> Credential:
        return scram.unknown_user(mechanism, name, b"the broker's own")


def no_token(token: str) -> Known:
    if token != TOKEN:
        raise LoginRefused("unknown")
    return Known(user("a"), None)


MECHANISMS = {
    "PLAIN": lambda: logins.plain_conversation(Nobody()),
    "SCRAM-SHA-256": lambda: logins.scram_conversation(Nobody(), Mechanism.SCRAM_SHA_256),
    "OAUTHBEARER": lambda: logins.bearer_conversation(no_token),
}


def targets() -> Iterator[Target]:
    for mechanism in MECHANISMS:
        yield Target(f"login {mechanism}", lambda data, name=mechanism: _log_in(name, data), _login_seeds)  # type: ignore[misc]
    yield Target("plain", lambda data: void(plain.decode(data)), _login_seeds)
    yield Target("bearer", lambda data: void(bearer.decode(data)), _login_seeds)
    yield Target("bearer refusal", lambda data: void(bearer.decode_refusal(data)), _refusal_seeds)
    yield Target("scram first", lambda data: void(scram.read_first(data)), _login_seeds)
    yield Target("scram final", _finish_scram, lambda rng: iter([_CLIENT_FINAL, b"c=biws,r=NONCE,p=AAAA"]))
    yield Target("scram server first", _as_client, _server_seeds)
    yield Target("kerberos layers", _choose_layer, lambda rng: iter([b"\x07\x00\xff\xff", b"\x06\x00\x00\x00"]))
    yield Target("scram server final", _finish_as_client, _server_seeds)
    yield Target("jks", lambda data: void(jks.load(data, None)), _jks_seeds)
    yield Target("jks key", _decrypt, lambda rng: iter([_KEY]))
    yield from stores_and_settings()
    yield Target("jaas", _read_jaas, lambda rng: iter([jaas.EXAMPLE.encode()]))


def _log_in(mechanism: str, data: bytes) -> None:
    """Whatever comes first and second, the login fails in order or goes on; nobody gets in by chance."""
    login = Login(MECHANISMS, lambda: 0, 0)
    login.handshake(mechanism)
    try:
        login.authenticate(data)
        login.authenticate(data)
    except KafkaError:
        pass


def _as_client(data: bytes) -> None:
    client = Client(Mechanism.SCRAM_SHA_256, "user", "pencil", nonce="NONCE")
    if b"i=" in data and data.rpartition(b"i=")[2][:6].isdigit():
        return  # a large number of iterations, which is allowed and slow
    try:
        client.final(data)
        client.finish(data)
    except AuthenticationFailed:
        pass


def _choose_layer(data: bytes) -> None:
    try:
        kerberos.choose_layer(data)
    except AuthenticationFailed:
        pass


def _finish_scram(data: bytes) -> None:
    server = Server(scram.read_first(b"n,,n=user,r=NONCE"), CREDENTIAL, nonce="more")
    if server.final(data) is not None:
        raise Wrong("somebody got in without the password")


@cache
def _waiting_client() -> Client:
    client = Client(Mechanism.SCRAM_SHA_256, "user", "pencil", nonce="NONCE")
    client.final(b"r=NONCEmore,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    return client


def _finish_as_client(data: bytes) -> None:
    try:
        _waiting_client().finish(data)
    except AuthenticationFailed:
        return
    raise Wrong("a broker that does not know the user passed for one that does")


def _decrypt(data: bytes) -> None:
    try:
        jks.decrypt_key(data, "changeit")
    except jks.WrongPassword:
        pass


def _read_jaas(data: bytes) -> None:
    try:
        jaas.parse(data.decode("utf-8", "replace"))
    except ConfigError as error:
        raise Malformed(str(error)) from None


def _login_seeds(rng: random.Random) -> Iterator[bytes]:
    yield plain.encode("user", "pencil", rng.choice(["", "user"]))
    yield bearer.encode(TOKEN, {"logicalCluster": "lkc-1"})
    yield Client(Mechanism.SCRAM_SHA_256, rng.choice(["user", "a,b=c"]), "pencil").first()
    yield b"c=biws,r=NONCE,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="


def _server_seeds(rng: random.Random) -> Iterator[bytes]:
    yield b"r=NONCEmore,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    yield b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    yield b"e=unknown-user"


def _refusal_seeds(rng: random.Random) -> Iterator[bytes]:
    yield bearer.encode_refusal("invalid_token")
    yield json.dumps({"status": ["x"], "scope": rng.random()}).encode()


_CLIENT_FINAL = b"c=biws,r=NONCEmore,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
_KEY = bytes.fromhex("3043300e060a2b060104012a02110101050004") + b"\x31" + bytes(49)


def _jks_seeds(rng: random.Random) -> Iterator[bytes]:
    text = b"\x00\x05alias" + bytes(8)
    certificate = b"\x00\x05X.509" + b"\x00\x00\x00\x04" + rng.randbytes(4)
    trusted = b"\x00\x00\x00\x02" + text + certificate
    key = b"\x00\x00\x00\x01" + text + len(_KEY).to_bytes(4, "big") + _KEY + b"\x00\x00\x00\x01" + certificate
    yield jks.MAGIC + b"\x00\x00\x00\x02" + b"\x00\x00\x00\x02" + trusted + key + bytes(20)
