"""Where metrics are served, as a user gives it. Apart from `http`, so that reading it imports no event loop."""

from fencepost.errors import ConfigError
from fencepost.wire.terms import Address

PATH = "/metrics"


def parse_metrics_address(given: str, option: str) -> Address:
    """`PORT`, `HOST:PORT` or `[HOST]:PORT`. Without a host it is the loopback."""
    host, _, port = given.rpartition(":")
    try:
        number = int(port)
    except ValueError:
        number = -1
    if not 0 <= number <= 65535 or (":" in host and not host.startswith("[")):
        raise ConfigError(f"{option} is {given!r}: give HOST:PORT, for instance 127.0.0.1:9464, or a port alone")
    return Address(host.strip("[]") or "127.0.0.1", number)
