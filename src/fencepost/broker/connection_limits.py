"""How many connections there may be: in all, from one address, and how many new ones a second.

One too many is closed. One too soon waits for its turn before its first request is read.
"""

from collections import Counter

from fencepost.broker.security_settings import parse_overrides
from fencepost.broker.settings import Settings
from fencepost.clock import Clock

#: New connections that may come at once before the rate holds them back: those of one second.
BURST_MS = 1000


class ConnectionLimits:
    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._by_host: Counter[str] = Counter()
        self._next_ms = 0.0  # when the last one that was admitted had its turn, and later

    def refusal(self, host: str) -> str | None:
        """Why one more connection from this host is too many, or None; then it counts until `left`."""
        settings = self._settings
        if self._by_host.total() >= settings.max_connections:
            return "too many connections (max.connections)"
        limit = parse_overrides(settings.max_connections_per_ip_overrides).get(host, settings.max_connections_per_ip)
        if self._by_host[host] >= limit:
            return "too many connections from this address (max.connections.per.ip)"
        self._by_host[host] += 1
        return None

    def left(self, host: str) -> None:
        self._by_host[host] -= 1
        if self._by_host[host] <= 0:
            del self._by_host[host]

    def delay_ms(self) -> int:
        """How long a new connection waits for its turn."""
        rate = self._settings.max_connection_creation_rate
        now_ms = self._clock.monotonic_ms()
        self._next_ms = max(self._next_ms, now_ms - BURST_MS) + (1000 / rate if rate else 1000)
        return max(0, int(self._next_ms - now_ms))
