"""Where a client's OAuth tokens come from, and when they are renewed.

There are three sources: a token endpoint (client credentials), a file, and a Python function. A process keeps one token
for all connections with the same settings. It is renewed when a share of its life is over
(`sasl.login.refresh.window.factor`), long before it expires, by the first connection that needs one then. If renewing
fails, the old token serves while it is valid.
"""

import base64
import binascii
import importlib
import json
import logging
import random
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from ssl import SSLContext
from urllib.request import url2pathname

from fencepost.errors import AuthenticationFailed, ClientError, ConfigError, ConnectionLost
from fencepost.security.names import TOKEN_ENDPOINT, TOKEN_PROVIDER

log = logging.getLogger(__name__)

MAX_ANSWER_BYTES = 1 << 20
#: A token that expires this soon would be refused by a broker whose clock is a little ahead.
MARGIN_S = 5
#: What an endpoint answers that is busy; so is one that answers 500 and above.
MAY_PASS = (408, 429)
#: If nothing says when a token expires.
UNKNOWN_LIFE_S = 3600
#: Numbers beyond this are milliseconds: as seconds they would lie after the year 5000.
FIRST_MILLISECONDS = 10**11


@dataclass(frozen=True, slots=True)
class Token:
    value: str = field(repr=False)
    expires_s: float
    renew_s: float

    def is_valid(self, now_s: float) -> bool:
        return now_s + MARGIN_S < self.expires_s


@dataclass(slots=True)
class Tokens:
    """The token of one set of settings, shared by a process."""

    fetch: Callable[[], tuple[str, float]] = field(repr=False)  #: a new token and when it expires
    window: "Window"
    _token: Token | None = None
    _retry_s: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def get(self, now_s: Callable[[], float] = time.time) -> tuple[str, float]:
        """A valid token and when it expires; a new one if it is time.

        Raises ConnectionLost if the failure may pass, AuthenticationFailed if it will not.
        """
        with self._lock:
            now, token = now_s(), self._token
            if token is not None and token.is_valid(now) and now < max(token.renew_s, self._retry_s):
                return token.value, token.expires_s
            try:
                value, expires_s = self.fetch()
            except ClientError as error:
                if token is None or not token.is_valid(now):
                    raise
                log.warning("the OAuth token could not be renewed, the present one is valid for %d s: %s",
                            token.expires_s - now, error)  # fmt: skip
                self._retry_s = now + self.window.retry_s
                return token.value, token.expires_s
            now = now_s()
            self._token = Token(value, expires_s, self.window.renewal(now, expires_s))
            if not self._token.is_valid(now):
                raise AuthenticationFailed(
                    "the OAuth token that was obtained has already expired: are the clocks right?"
                )
            return value, expires_s


@dataclass(frozen=True, slots=True)
class Window:
    """When to renew, in Kafka's terms."""

    factor: float
    jitter: float
    min_period_s: float
    buffer_s: float
    retry_s: float = 10.0

    def renewal(self, now_s: float, expires_s: float) -> float:
        life_s = expires_s - now_s
        renew_s = now_s + life_s * (self.factor + random.uniform(0, self.jitter))
        if self.min_period_s + self.buffer_s < life_s:  # else the token is too short-lived for these two
            renew_s = max(min(renew_s, expires_s - self.buffer_s), now_s + self.min_period_s)
        return renew_s


# -- sources


def from_function(reference: str) -> tuple[str, float]:
    """`token_provider`: a function that returns a token, or a token and when it expires (seconds or milliseconds)."""
    module, _, name = reference.partition(":")
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{TOKEN_PROVIDER}={reference} cannot be imported on this machine: {error}") from None
    try:
        returned = function()
    except Exception as error:
        raise ConnectionLost(f"{TOKEN_PROVIDER}={reference} raised {type(error).__name__}: {error}") from error
    token, expires = returned if isinstance(returned, tuple) and len(returned) == 2 else (returned, None)
    if not isinstance(token, str) or not isinstance(expires, int | float | None):
        raise ConfigError(f"{TOKEN_PROVIDER}={reference} must return a token, or a token and when it expires")
    if expires is None:
        return token, expiry(token)
    return token, expires / 1000 if expires > FIRST_MILLISECONDS else float(expires)


def from_file(url: str) -> tuple[str, float]:
    path = url2pathname(urllib.parse.urlsplit(url).path)
    try:
        with open(path, encoding="ascii") as file:
            token = file.read(MAX_ANSWER_BYTES).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConnectionLost(f"{TOKEN_ENDPOINT}={url} cannot be read: {error}") from None
    return token, expiry(token)


class _StayHere(urllib.request.HTTPRedirectHandler):
    """A redirection is an error: it would carry the secret to another address."""

    def redirect_request(self, *_: object) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Endpoint:
    url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str
    urlencode: bool
    timeout_s: float
    context: SSLContext | None

    def fetch(self) -> tuple[str, float]:
        """Client credentials (RFC 6749, 4.4)."""
        identity = (self.client_id, self.client_secret)
        if self.urlencode:
            identity = (urllib.parse.quote_plus(self.client_id), urllib.parse.quote_plus(self.client_secret))
        form = {"grant_type": "client_credentials", **({"scope": self.scope} if self.scope else {})}
        request = urllib.request.Request(
            self.url,
            data=urllib.parse.urlencode(form).encode(),
            headers={
                "Authorization": "Basic " + base64.b64encode(":".join(identity).encode()).decode(),
                "Accept": "application/json",
                "Content-Type": "application/x-www-form-urlencoded",
            },
        )
        asked_s = time.time()
        try:
            with self._opener().open(request, timeout=self.timeout_s) as answer:
                body = answer.read(MAX_ANSWER_BYTES)
        except urllib.error.HTTPError as error:
            why = _oauth_error(error.read(MAX_ANSWER_BYTES))
            kind = ConnectionLost if error.code in MAY_PASS or error.code >= 500 else AuthenticationFailed
            raise kind(f"{self.url} answered {error.code} {error.reason}{why}") from None
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise ConnectionLost(f"{self.url} cannot be reached: {reason}") from None
        return self._read(body, asked_s)

    def _opener(self) -> urllib.request.OpenerDirector:
        return urllib.request.build_opener(_StayHere, urllib.request.HTTPSHandler(context=self.context))

    def _read(self, body: bytes, asked_s: float) -> tuple[str, float]:
        try:
            said = json.loads(body)
        except ValueError:
            said = None
        token = said.get("access_token") if isinstance(said, dict) else None
        if not isinstance(token, str) or not token:
            raise AuthenticationFailed(f"{self.url} answered without an access_token")
        life_s = said.get("expires_in")
        if isinstance(life_s, int | float) and life_s > 0:
            return token, asked_s + life_s
        return token, expiry(token)


def expiry(token: str) -> float:
    """When a token expires by its own claim. A token that is no JWT is asked for again after an hour."""
    claims = claims_of(token)
    expires = claims.get("exp") if claims else None
    return float(expires) if isinstance(expires, int | float) else time.time() + UNKNOWN_LIFE_S


def claims_of(token: str) -> Mapping[str, object] | None:
    """What a JWT says, unverified; None if it is not one."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError):
        return None
    return claims if isinstance(claims, dict) else None


def _oauth_error(body: bytes) -> str:
    """`error` and `error_description` of RFC 6749, 5.2, if the endpoint gives them."""
    try:
        said = json.loads(body)
    except ValueError:
        return ""
    words = (
        [str(said[name]) for name in ("error", "error_description") if said.get(name)] if isinstance(said, dict) else []
    )
    return f": {', '.join(words)}"[:300] if words else ""
