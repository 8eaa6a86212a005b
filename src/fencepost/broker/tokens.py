"""Signed tokens of OAUTHBEARER: who issued them, for whom, until when.

Keys come from a JWKS, a file or an address (`sasl.oauthbearer.jwks.endpoint.url`). When a token names a key that is not
among them, they are read again in the background: that token is refused, the next one may pass, as in Kafka. This
happens at most every `REREAD_MS`, so garbage causes no traffic.
"""

import base64
import json
import logging
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fencepost.broker.logins import Known, LoginRefused
from fencepost.broker.principals import user
from fencepost.errors import ConfigError

log = logging.getLogger("fencepost.authentication")

NEEDS = "OAUTHBEARER needs the packages `pyjwt` and `cryptography`: pip install 'fencepost[security]'"
#: Asymmetric ones: a broker that took a shared secret could be given its own public key as one.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
REREAD_MS = 10_000
MAX_JWKS_BYTES = 1 << 20
#: Everybody waits while a token is read, and anybody may send one.
MAX_TOKEN_CHARS = 16 * 1024
TIMEOUT_S = 5.0
KEY_ID_CHARACTERS = 100  #: of what a client says is its key, in the log


@dataclass(frozen=True, slots=True)
class Expected:
    audience: tuple[str, ...]
    issuer: str | None
    clock_skew_s: int
    subject_claim: str


def _decode64(part: bytes) -> bytes:
    return base64.urlsafe_b64decode(part + b"=" * (-len(part) % 4))


Background = Callable[[Callable[[], None]], None]


class SignedTokens:
    def __init__(self, url: str, expected: Expected, now_ms: Callable[[], int], background: Background) -> None:
        """Reads the keys, or raises ConfigError. `background` runs a function that may take seconds on a thread."""
        try:
            import jwt
        except ImportError:
            raise ConfigError(NEEDS) from None
        self._jwt = jwt
        self._url = url
        self._expected = expected
        self._now_ms = now_ms
        self._background = background
        self._read_ms = now_ms()
        self._keys = self._read()

    def check(self, token: str) -> Known:
        """Raises LoginRefused, with a reason for the broker's log."""
        expected = self._expected
        try:
            claims = self._jwt.decode(
                token,
                self._signer(token),
                algorithms=ALGORITHMS,
                audience=expected.audience or None,
                issuer=expected.issuer,
                leeway=expected.clock_skew_s,
                options={"require": ["exp", expected.subject_claim], "verify_aud": bool(expected.audience)},
            )
        except (self._jwt.PyJWTError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise LoginRefused(str(error)) from None
        name = claims[expected.subject_claim]
        if not isinstance(name, str) or not name:
            raise LoginRefused(f"the claim {expected.subject_claim} is empty")
        return Known(user(name), int(claims["exp"]) * 1000)

    def _signer(self, token: str) -> Any:
        """The key that signed it. PyJWT would read all of a token, slowly, before it looks at the signature."""
        if len(token) > MAX_TOKEN_CHARS:
            raise LoginRefused(f"it has {len(token)} characters; {MAX_TOKEN_CHARS} are accepted")
        signed, _, signature = token.encode().rpartition(b".")
        header = json.loads(_decode64(signed.partition(b".")[0]))
        if header.get("alg") not in ALGORITHMS:
            raise LoginRefused("its alg is none of those that are accepted")
        key = self._key(header.get("kid"))
        if not self._jwt.get_algorithm_by_name(header["alg"]).verify(signed, key, _decode64(signature)):
            raise LoginRefused("its signature is wrong")
        return key

    def _key(self, key_id: str | None) -> Any:
        keys = self._keys
        if key_id is None and len(keys) == 1:
            return next(iter(keys.values()))
        if key_id not in keys:
            if self._now_ms() - self._read_ms > REREAD_MS:
                self._read_ms = self._now_ms()
                self._background(self._read_again)
            raise LoginRefused(f"it is signed with the unknown key {str(key_id)[:KEY_ID_CHARACTERS]!r}")
        return keys[key_id]

    def _read(self) -> dict[str | None, Any]:
        try:
            with urllib.request.urlopen(self._url, timeout=TIMEOUT_S) as answer:
                keys = self._jwt.PyJWKSet.from_dict(json.loads(answer.read(MAX_JWKS_BYTES))).keys
        # PyJWT takes for granted that objects and strings are where they should be.
        except (OSError, ValueError, TypeError, AttributeError, RecursionError, self._jwt.PyJWTError) as error:
            raise ConfigError(f"sasl.oauthbearer.jwks.endpoint.url={self._url} cannot be read: {error}") from None
        return {key.key_id: key.key for key in keys}

    def _read_again(self) -> None:
        try:
            self._keys = self._read()
        except ConfigError as error:
            log.warning("the known keys stay: %s", error)
