"""SASL on the broker's side: one login a connection, repeated when it is renewed.

Invariants: no answer tells whether a user exists, by text or by the work done for it; a renewed login has the same
mechanism and principal; and what a client may send before it is known is small.
"""

import hashlib
import hmac
import logging
from collections.abc import Callable, Generator, Mapping
from typing import NamedTuple, Protocol

from fencepost.broker.principals import Principal, user
from fencepost.errors import ErrorCode, KafkaError, Malformed
from fencepost.security import bearer, plain, scram

log = logging.getLogger("fencepost.authentication")

MAX_FRAME_BYTES = 512 * 1024  #: Kafka's sasl.server.max.receive.size
INVALID = "Authentication failed: Invalid username or password"


class Known(NamedTuple):
    """Who a token is for, and when it ends (ms since the epoch)."""

    principal: Principal
    expires_ms: int | None


class Done(NamedTuple):
    """The last answer of a conversation, and whom it was held with."""

    answer: bytes
    principal: Principal
    expires_ms: int | None = None


#: Is sent what the client says and yields what to answer. What it yields first is not sent.
Conversation = Generator[bytes | Done, bytes, None]


class LoginRefused(Exception):
    """The text goes to the client."""


class Users(Protocol):
    def password(self, name: str) -> str | None:
        """Of a user of PLAIN."""

    def credential(self, name: str, mechanism: scram.Mechanism) -> scram.Credential | None: ...

    def stand_in(self, name: str, mechanism: scram.Mechanism) -> scram.Credential:
        """For a user that there is not: see `scram.unknown_user`."""


class TokenCheck(Protocol):
    def __call__(self, token: str) -> Known:
        """Raises LoginRefused."""


def plain_conversation(users: Users) -> Conversation:
    message = yield b""
    authorize_as, name, password = plain.decode(message)
    expected = users.password(name)
    # The same work whether or not the user exists: digests are of one length, passwords are not.
    fits = hmac.compare_digest(*(hashlib.sha256(text.encode()).digest() for text in (password, expected or "")))
    if not fits or expected is None:
        raise LoginRefused(INVALID)
    if authorize_as not in ("", name):
        raise LoginRefused(
            "Authentication failed: Client requested an authorization id that is different from username"
        )
    yield Done(b"", user(name))


def scram_conversation(users: Users, mechanism: scram.Mechanism) -> Conversation:
    message = yield b""
    first = scram.read_first(message)
    stand_in = users.stand_in(first.user, mechanism)  # made in any case: the work must not tell
    found = None if first.is_token else users.credential(first.user, mechanism)
    server = scram.Server(first, found or stand_in)
    message = yield server.first
    answer = server.final(message)
    if answer is None or found is None or first.authorize_as not in ("", first.user):
        raise LoginRefused(
            f"Authentication failed during authentication due to invalid credentials with SASL mechanism "
            f"{mechanism.mechanism}"
        )
    yield Done(answer, user(first.user))


def bearer_conversation(check: TokenCheck) -> Conversation:
    message = yield b""
    presented = bearer.decode(message)
    try:
        known = check(presented.token)
    except LoginRefused as refused:
        log.info("a token was refused: %s", refused)
        yield bearer.encode_refusal("invalid_token")
        raise LoginRefused('{"status":"invalid_token"}') from None
    if presented.authorize_as not in ("", known.principal.name):
        raise LoginRefused("Authentication failed: Client requested an authorization id that is not the token's")
    yield Done(b"", known.principal, known.expires_ms)


Mechanisms = Mapping[str, Callable[[], Conversation]]


class Login:
    """The SASL state of one connection."""

    def __init__(self, mechanisms: Mechanisms, now_ms: Callable[[], int], max_reauth_ms: int) -> None:
        self._mechanisms = mechanisms
        self._now_ms = now_ms
        self._max_reauth_ms = max_reauth_ms
        self._mechanism = ""
        self._conversation: Conversation | None = None
        self._established: tuple[str, Principal] | None = None
        self._expires_ms: int | None = None

    @property
    def principal(self) -> Principal | None:
        return self._established[1] if self._established else None

    def is_over(self) -> bool:
        return self._expires_ms is not None and self._now_ms() > self._expires_ms

    def handshake(self, mechanism: str) -> ErrorCode:
        if self._conversation is not None:
            return ErrorCode.ILLEGAL_SASL_STATE
        if mechanism not in self._mechanisms:
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM
        if self._established is not None and self._established[0] != mechanism:
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM
        self._mechanism = mechanism
        self._conversation = self._mechanisms[mechanism]()
        next(self._conversation)
        return ErrorCode.NONE

    @property
    def offered(self) -> list[str]:
        return [*self._mechanisms]

    def authenticate(self, message: bytes) -> tuple[bytes, int]:
        """The answer and, once the login is done, for how long it is good in ms (0 for ever). Raises KafkaError."""
        if self._conversation is None:
            raise KafkaError(
                ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate request received after successful authentication"
            )
        try:
            answer = self._conversation.send(message)
        except LoginRefused as refused:
            raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, str(refused)) from None
        except Malformed as error:
            raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, f"Authentication failed: {error}") from None
        except Exception as error:  # a mistake of ours or of a library: it must not leave a login half done
            log.exception("a login with %s failed", self._mechanism)
            raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, "Authentication failed") from error
        if isinstance(answer, Done):
            return answer.answer, self._establish(answer)
        return answer, 0

    def _establish(self, known: Done) -> int:
        if self._established is not None and self._established[1] != known.principal:
            raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, "Cannot change principals during re-authentication")
        self._conversation = None
        self._established = (self._mechanism, known.principal)
        now_ms = self._now_ms()
        lives = [self._max_reauth_ms] if self._max_reauth_ms > 0 else []
        if known.expires_ms is not None:
            # It may be over already, and accepted because clocks differ. Then the login is over too, as in Kafka.
            lives.append(max(0, known.expires_ms - now_ms))
        life_ms = min(lives, default=0)
        self._expires_ms = now_ms + life_ms if lives else None
        return life_ms
