"""Whom a connection is with: where the client is, what it came through, and who it is."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fencepost.broker.listeners import Listener
from fencepost.broker.logins import Login
from fencepost.broker.principals import ANONYMOUS, Principal, Rule, by_certificate

SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = 17, 18, 36
BEFORE_LOGIN = frozenset({SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE})


class Session:
    """Lives as long as its connection. Handlers read it through their `Call`."""

    __slots__ = ("_when_known", "address", "host", "listener", "login", "principal", "software")

    def __init__(
        self, host: str, listener: Listener, login: Login | None, when_known: Callable[[], None] | None = None
    ) -> None:
        self._when_known = when_known
        self.host = host  #: as Kafka shows it: /127.0.0.1
        self.address = host[1:]
        self.software = ""  #: what the client calls itself (KIP-511)
        self.listener = listener
        self.login = login  #: None where no login is asked for
        self.principal: Principal | None = None if login is not None else ANONYMOUS

    def known_by(self, certificate: Mapping[str, Any] | None, rules: Sequence[Rule]) -> bool:
        """Whether a client that showed this certificate is let in. Where a login is asked for as well, that decides."""
        if self.login is None:
            self.principal = by_certificate(certificate, rules)
        return self.login is not None or self.principal is not None

    def known(self, principal: Principal) -> None:
        """The client has logged in, or renewed its login."""
        self.principal = principal
        if self._when_known is not None:
            self._when_known()

    @property
    def who(self) -> Principal:
        return self.principal or ANONYMOUS

    def admits(self, api_key: int) -> bool:
        """Whether this client may ask this now: before its login, and when that has ended, very little."""
        if self.login is None:
            return True
        return (self.principal is not None and not self.login.is_over()) or api_key in BEFORE_LOGIN
