"""Where the broker listens, what it speaks there, and what clients of each listener are told to connect to.

A client is answered with the addresses of the listener that it came through: who came with TLS must not be sent to the
port without.
"""

import logging
import socket
import ssl
from dataclasses import dataclass

from fencepost.broker.settings import Settings
from fencepost.errors import ConfigError
from fencepost.hosts import is_loopback
from fencepost.security import stores, tls
from fencepost.security.names import PROTOCOLS, Protocol
from fencepost.wire.terms import EVERYWHERE, Address

log = logging.getLogger("fencepost.tls")

MAX_PORT = 65_535


@dataclass(slots=True)
class Listener:
    name: str
    protocol: Protocol
    bound: Address  #: what is listened on; a port of 0 is replaced by the real one
    told: Address | None = None  #: `advertised.listeners`

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.bound.host)

    @property
    def advertised(self) -> Address:
        """Nobody can connect to "every address", so that becomes this machine's name, as in Kafka."""
        if self.told is not None:
            return self.told
        return Address(_own_name(), self.bound.port) if self.bound.host in EVERYWHERE else self.bound


def listeners_of(settings: Settings, host: str, port: int) -> list[Listener]:
    """What `listeners` says, or one without security at `host` and `port`. Raises ConfigError."""
    protocols = _protocols(settings.listener_security_protocol_map)
    given = _parse("listeners", settings.listeners, lowest_port=0) or {"PLAINTEXT": Address(host, port)}
    told = _parse("advertised.listeners", settings.advertised_listeners, lowest_port=1)
    for name in (*given, *told):
        if name not in protocols:
            raise ConfigError(f"listener.security.protocol.map does not say what listener {name} speaks")
    if unknown := told.keys() - given.keys():
        raise ConfigError(f"advertised.listeners names {', '.join(sorted(unknown))}, which listeners does not have")
    inter_broker = settings.inter_broker_listener_name
    if inter_broker is not None and inter_broker.upper() not in given:
        raise ConfigError(f"inter.broker.listener.name={inter_broker} is not one of the listeners")
    return [Listener(name, protocols[name], bound, told.get(name)) for name, bound in given.items()]


def _protocols(text: str) -> dict[str, Protocol]:
    found = {}
    for word in _words(text):
        name, _, protocol = word.partition(":")
        if protocol.upper() not in PROTOCOLS:
            raise ConfigError(f"listener.security.protocol.map: {word} is not NAME:PROTOCOL ({', '.join(PROTOCOLS)})")
        found[name.upper()] = Protocol(protocol.upper())
    return found


def _parse(setting: str, text: str | None, lowest_port: int) -> dict[str, Address]:
    found: dict[str, Address] = {}
    for word in _words(text or ""):
        name, _, address = word.rpartition("://")
        host, colon, port = address.rpartition(":")
        name = name.upper() or "PLAINTEXT"
        fits = colon and port.isdecimal() and lowest_port <= int(port) <= MAX_PORT
        if not fits or (lowest_port and not host):
            raise ConfigError(f"Invalid value {word} for configuration {setting}: expected NAME://host:port")
        if name in found:
            raise ConfigError(f"{setting} has two listeners with the name {name}")
        found[name] = Address(host.strip("[]"), int(port))
    return found


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _own_name() -> str:
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return "localhost"
    return name


class Certificates:
    """The TLS context of a listener. Its files are checked for each new connection, and read again if they changed."""

    def __init__(self, settings: Settings, listener: str) -> None:
        """Raises ConfigError if the broker cannot show a certificate."""
        self._settings = settings
        self._listener = listener
        self.suites: tuple[str, ...] = settings.for_listener(listener, "ssl.cipher.suites")
        self._stamps = self._look()
        self._context = self._make()

    def context(self) -> ssl.SSLContext:
        stamps = self._look()
        if stamps != self._stamps:
            self._stamps = stamps
            try:
                self._context = self._make()
            except ConfigError as error:  # half-written, perhaps: the old one serves until the next change
                log.error("listener %s keeps its certificate: %s", self._listener, error)
        return self._context

    def _value(self, name: str) -> str:
        return self._settings.for_listener(self._listener, name) or ""

    def _look(self) -> tuple[tuple[int, int], ...]:
        return tuple(stores.stamp(self._value(f"ssl.{store}.location")) for store in ("keystore", "truststore"))

    def _make(self) -> ssl.SSLContext:
        value, listener = self._value, self._listener
        identity = stores.identity_of(value)
        if identity is None:
            raise ConfigError(f"listener {listener} speaks TLS and needs a certificate: set ssl.keystore.location")
        return tls.server_context(
            stores.trust_of(value),
            identity,
            self._settings.for_listener(listener, "ssl.enabled.protocols"),
            self.suites,
            value("ssl.client.auth"),
        )
