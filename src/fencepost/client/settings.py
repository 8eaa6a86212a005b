"""The settings of a client, under Kafka's names and with Kafka's defaults where those fit blocking calls.

`parse` takes a dictionary of Kafka's settings. Settings without a meaning here (`linger.ms`) are ignored. Those of TLS
and SASL are in `fencepost.security.settings`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from fencepost.errors import ConfigError
from fencepost.security.names import PROTOCOLS
from fencepost.security.settings import ClientSecurity
from fencepost.wire.terms import Address

DEFAULT_PORT = 9092
MAX_PORT = 65535


@dataclass(frozen=True, slots=True)
class ClientSettings:
    bootstrap: tuple[Address, ...]
    client_id: str = "fencepost"
    connect_timeout_ms: int = 10_000  #: socket.connection.setup.timeout.ms
    request_timeout_ms: int = 30_000  #: how long one answer may take
    api_timeout_ms: int = 60_000  #: how long one operation may take, including retries (default.api.timeout.ms)
    retry_backoff_ms: int = 20
    retry_backoff_max_ms: int = 1_000
    bootstrap_patience_ms: int = 0  #: how long to retry if no bootstrap address answers
    security: ClientSecurity = field(default_factory=ClientSecurity)

    @classmethod
    def parse(cls, settings: Mapping[str, object] | str) -> Self:
        """From Kafka's names, or from `bootstrap.servers` alone."""
        given = {"bootstrap.servers": settings} if isinstance(settings, str) else dict(settings)
        if not str(given.get("bootstrap.servers") or "").strip():
            raise ConfigError("bootstrap.servers is missing: one or more HOST:PORT, separated by commas")
        words = str(given["bootstrap.servers"]).split(",")
        numbers = {field: _number(name, given[name]) for name, field in _NUMBERS.items() if name in given}
        return cls(
            bootstrap=tuple(parse_address(word) for word in words if word.strip()),
            client_id=str(given.get("client.id") or "fencepost"),
            security=ClientSecurity.parse(given),
            **numbers,
        )


#: Under which name Kafka has a field.
_NUMBERS = {
    "socket.connection.setup.timeout.ms": "connect_timeout_ms",
    "request.timeout.ms": "request_timeout_ms",
    "default.api.timeout.ms": "api_timeout_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "retry.backoff.max.ms": "retry_backoff_max_ms",
}
#: The settings that are read, beside those of TLS and SASL.
NAMES = ("bootstrap.servers", "client.id", *_NUMBERS)


def parse_address(word: str) -> Address:
    """HOST:PORT, [IPV6]:PORT, or a listener's SASL_SSL://HOST:PORT."""
    scheme, _, rest = word.strip().rpartition("://")
    text = rest if scheme in ("", *PROTOCOLS) else word.strip()
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(DEFAULT_PORT)
    host = host.removeprefix("[").removesuffix("]")
    if not host or "/" in host or not port.isdecimal() or not 0 < int(port) <= MAX_PORT:
        raise ConfigError(f"bootstrap.servers: {word.strip()!r} is not HOST:PORT")
    return Address(host, int(port))


def _number(name: str, value: object) -> int:
    try:
        number = int(str(value))
    except ValueError:
        number = -1
    if number < 1:
        raise ConfigError(f"{name} must be a positive number of milliseconds, not {value!r}")
    return number
