"""Security for one machine in one step: an authority, certificates and a user, kept in a directory.

`fencepost up --secure`, `fencepost.Broker(security=...)` and the tests use it. What was made once is used again, so
that clients which trust the authority go on working after a restart. All files are for their owner only.
"""

import json
import os
import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fencepost.security import jaas
from fencepost.security.names import Protocol
from fencepost.security.settings import ClientSecurity
from fencepost.wire.terms import EVERYWHERE, Address

SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
MECHANISM = "SCRAM-SHA-512"
USER = "fencepost"
#: What a broker's certificate is for, beside this machine's name and the address that it listens on.
HOSTS = ("localhost", "127.0.0.1", "::1")

AUTHORITY, BROKER, CLIENT, LOGIN = "authority.pem", "broker.pem", "client.pem", "user.json"


@dataclass(frozen=True, slots=True)
class Quick:
    directory: Path
    protocol: Protocol
    user: str
    password: str = field(repr=False)

    def broker_settings(self, host: str, port: int) -> dict[str, str]:
        """For a broker with one listener."""
        settings = {"listeners": f"{self.protocol}://{Address(host, port)}"}
        if self.protocol.uses_tls:
            settings["ssl.keystore.location"] = str(self.directory / BROKER)
            settings["ssl.truststore.location"] = str(self.directory / AUTHORITY)
        if self.protocol is Protocol.SSL:
            settings["ssl.client.auth"] = "required"
        if self.protocol.uses_sasl:
            settings["sasl.enabled.mechanisms"] = MECHANISM
        # Of no effect without an authorizer; with one, this user may do everything, and gives others their rights.
        settings["super.users"] = f"User:{self.user}" if self.protocol.uses_sasl else f"User:CN={self.user}"
        return settings

    def client_security(self) -> ClientSecurity:
        settings: dict[str, str] = {"security.protocol": self.protocol}
        if self.protocol.uses_tls:
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.directory / AUTHORITY)}
        if self.protocol is Protocol.SSL:
            settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.directory / CLIENT)}
        if self.protocol.uses_sasl:
            login = f"{SCRAM_MODULE} required username={jaas.quote(self.user)} password={jaas.quote(self.password)};"
            settings |= {"sasl.mechanism": MECHANISM, "sasl.jaas.config": login}
        return ClientSecurity.parse(settings)


def prepare(directory: Path, protocol: Protocol, host: str) -> Quick:
    """Make what is missing in `directory` for a broker that listens on `host`."""
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o700)
    if protocol.uses_tls and not (directory / AUTHORITY).exists():
        reached = () if host in EVERYWHERE else (host,)
        _make_certificates(directory, [*dict.fromkeys((*HOSTS, socket.gethostname(), *reached))])
    login = directory / LOGIN
    if not login.exists():
        _write(login, json.dumps({"user": USER, "password": secrets.token_urlsafe(18)}))
    known = json.loads(login.read_text())
    return Quick(directory, protocol, known["user"], known["password"])


def _make_certificates(directory: Path, hosts: Sequence[str]) -> None:
    from fencepost.security.authority import Authority  # needs the extra

    authority = Authority()
    for name, certified in ((BROKER, authority.issue("broker", hosts)), (CLIENT, authority.issue(USER))):
        _write(directory / name, certified.key_pem() + certified.certificate_pem())
    _write(directory / AUTHORITY, authority.certificate_pem())  # last: with it, all is there


def _write(path: Path, text: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
