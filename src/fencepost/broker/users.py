"""The users that may log in: those of PLAIN from the settings, those of SCRAM from the catalogue."""

import secrets
from collections.abc import Callable, Mapping
from functools import partial

from fencepost.broker.catalogue import Catalogue, Line, credential_line
from fencepost.broker.logins import (
    Conversation,
    Mechanisms,
    bearer_conversation,
    plain_conversation,
    scram_conversation,
)
from fencepost.broker.settings import Settings
from fencepost.broker.tokens import Background, Expected, SignedTokens
from fencepost.clock import Clock
from fencepost.errors import ConfigError
from fencepost.security import jaas, scram

PLAIN_USER = "user_"
SECRET_BYTES = 32


class Users:
    """Of one listener: PLAIN users may differ from listener to listener."""

    def __init__(self, passwords: Mapping[str, str], catalogue: Catalogue) -> None:
        self._passwords = passwords
        self._catalogue = catalogue

    def password(self, name: str) -> str | None:
        return self._passwords.get(name)

    def credential(self, name: str, mechanism: scram.Mechanism) -> scram.Credential | None:
        return self._catalogue.credentials.get((name, mechanism))

    def stand_in(self, name: str, mechanism: scram.Mechanism) -> scram.Credential:
        catalogue = self._catalogue
        return scram.unknown_user(mechanism, name, catalogue.login_secret, catalogue.credential_shapes[mechanism])


def add_users(catalogue: Catalogue, passwords: Mapping[str, str]) -> None:
    """Make these users of SCRAM, or give them these passwords. Nothing is written for those that have theirs."""
    lines: list[Line] = []
    for name, password in passwords.items():
        for mechanism in scram.Mechanism:
            known = catalogue.credentials.get((name, mechanism))
            if known is None or not known.fits(password):
                lines.append(credential_line(name, mechanism, scram.Credential.make(mechanism, password)))
    if lines:
        catalogue.write(lines)


def mechanisms_of(
    settings: Settings, listener: str, catalogue: Catalogue, clock: Clock, background: Background
) -> Mechanisms:
    """What a listener offers, each as a function that begins a conversation. Raises ConfigError."""
    enabled = settings.for_listener(listener, "sasl.enabled.mechanisms")
    if not catalogue.login_secret:
        catalogue.write([{"login_secret": secrets.token_hex(SECRET_BYTES)}])
    users = Users(_plain_users(settings, listener) if "PLAIN" in enabled else {}, catalogue)
    offered: dict[str, Callable[[], Conversation]] = {}
    for name in enabled:
        if name == "PLAIN":
            offered[name] = partial(plain_conversation, users)
        elif name in scram.BY_NAME:
            offered[name] = partial(scram_conversation, users, scram.BY_NAME[name])
        else:
            offered[name] = partial(bearer_conversation, _signed_tokens(settings, listener, clock, background).check)
    return offered


def _plain_users(settings: Settings, listener: str) -> dict[str, str]:
    text = settings.for_listener(listener, "sasl.jaas.config", "plain")
    if text is None:
        raise ConfigError(
            f"listener {listener} offers PLAIN but has no users: set sasl.jaas.config to "
            f'PlainLoginModule required user_NAME="PASSWORD";'
        )
    login = jaas.parse(text)
    if login.module.rpartition(".")[2] != "PlainLoginModule":
        raise ConfigError(f"sasl.jaas.config of listener {listener} names {login.module}; PLAIN needs PlainLoginModule")
    return {name[len(PLAIN_USER) :]: value for name, value in login.options.items() if name.startswith(PLAIN_USER)}


def _signed_tokens(settings: Settings, listener: str, clock: Clock, background: Background) -> SignedTokens:
    url = settings.for_listener(listener, "sasl.oauthbearer.jwks.endpoint.url")
    if url is None:
        raise ConfigError(
            f"listener {listener} offers OAUTHBEARER: set sasl.oauthbearer.jwks.endpoint.url (https: or file:)"
        )
    expected = Expected(
        settings.for_listener(listener, "sasl.oauthbearer.expected.audience"),
        settings.for_listener(listener, "sasl.oauthbearer.expected.issuer"),
        settings.for_listener(listener, "sasl.oauthbearer.clock.skew.seconds"),
        settings.for_listener(listener, "sasl.oauthbearer.sub.claim.name"),
    )
    return SignedTokens(url, expected, clock.now_ms, background)
