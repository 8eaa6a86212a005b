"""GSSAPI (RFC 4752): where a client's Kerberos tickets come from, and the conversation in which it shows one.

::

    client                                      broker
    the ticket for SERVICE@HOST            ->
                                           <-   the proof that the broker could read it
    nothing                                ->
                                           <-   the security layers that it offers, wrapped
    no layer, no other identity, wrapped   ->
                                           <-   nothing

Kafka has no security layer after the login: TLS does that. Tickets come from a keytab or a ticket cache, both by the
system's Kerberos library over the package `gssapi`. A cache belongs to those who fill it: it is read at each login.
With a keytab the library keeps the tickets in this process, and gets a new one when half of a ticket's life is over.
They are forgotten when they turn out to be useless: when the library could not renew them in time (it tries twice a
minute, and would go on with one that has ended), and when a login fails (the broker may have new keys).
"""

import hashlib
import importlib
import threading
from collections import Counter
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from fencepost.errors import AuthenticationFailed, ClientError, ConfigError, ConnectionLost, Malformed

SERVICE_NAME = "sasl.kerberos.service.name"
NEEDS = (
    "GSSAPI needs the package `gssapi`: pip install 'fencepost[kerberos]'; pip builds it from the Kerberos library's "
    "headers (Debian: apt-get install gcc python3-dev libkrb5-dev)"
)
#: A broker says nothing of its reasons, which are in its log.
IF_REFUSED = f"is {SERVICE_NAME} the brokers', do the clocks agree, and has the broker's keytab the newest key?"
MAX_MESSAGE_BYTES = 64 * 1024
#: The bit of "no security layer" in what a broker offers, and in the answer.
NO_LAYER = 1
KEYTAB_MAGIC = (b"\x05\x01", b"\x05\x02")

#: The library replaces the tickets of a process in more than one step.
_lock = threading.Lock()
#: How often the tickets of a login were forgotten: a part of the name under which the library keeps them.
_forgotten: Counter["Login"] = Counter()


class Reason(IntEnum):
    """Errors of the Kerberos library that a person can do something about (its table begins at -1765328384)."""

    CLIENT_UNKNOWN = -1765328378
    SERVICE_UNKNOWN = -1765328377
    CLIENT_REVOKED = -1765328366
    KEY_EXPIRED = -1765328361
    PREAUTH_FAILED = -1765328360
    BAD_INTEGRITY = -1765328353
    TICKET_EXPIRED = -1765328352
    CLOCK_SKEW = -1765328347
    CONFIG_FORMAT = -1765328248
    CLOCK_SKEW_OF_KDC = -1765328236
    NO_TICKET = -1765328243
    NO_KDC_NAMED = -1765328230
    KDC_UNREACHABLE = -1765328228
    NO_CACHE = -1765328189


@dataclass(frozen=True, slots=True)
class Login:
    """What Krb5LoginModule is told. A ticket cache comes before a keytab, if both are given."""

    service: str
    principal: str  #: empty: that of the ticket cache
    keytab: str | None
    cache: str | None  #: None: not used; empty: the default one of this machine

    @classmethod
    def parse(cls, options: Mapping[str, str], service: str) -> "Login":
        """From the module's options and `sasl.kerberos.service.name`. Raises ConfigError."""
        own = options.get("serviceName", "")
        if own and service and own != service:
            raise ConfigError(f"sasl.jaas.config has serviceName={own!r}, but {SERVICE_NAME} is {service!r}")
        if not own and not service:
            raise ConfigError(f"{SERVICE_NAME} is missing: the first part of the brokers' principal, often kafka")
        uses_keytab, uses_cache = (options.get(name, "").lower() == "true" for name in ("useKeyTab", "useTicketCache"))
        if "keyTab" in options and not uses_keytab:
            raise ConfigError("sasl.jaas.config: keyTab needs useKeyTab=true")
        if "ticketCache" in options and not uses_cache:
            raise ConfigError("sasl.jaas.config: ticketCache needs useTicketCache=true")
        if not uses_keytab and not uses_cache:
            raise ConfigError(
                'sasl.jaas.config: Krb5LoginModule needs useKeyTab=true keyTab="..." principal="...", '
                "or useTicketCache=true"
            )
        if uses_keytab and not (options.get("keyTab") and options.get("principal")):
            raise ConfigError('sasl.jaas.config: useKeyTab=true needs keyTab="..." and principal="..."')
        return cls(
            own or service,
            options.get("principal", ""),
            options["keyTab"].removeprefix("FILE:") if uses_keytab else None,
            options.get("ticketCache", "") if uses_cache else None,
        )


def converse(login: Login, host: str) -> Generator[bytes, bytes, None]:
    """One login to the broker at `host`.

    Raises ConnectionLost if the failure may pass, AuthenticationFailed or ConfigError if it will not.
    """
    gssapi = _package()
    context, token = _begin(gssapi, login, f"{login.service}@{host}")
    try:
        while not context.complete:
            answer = yield token
            token = context.step(_bounded(answer)) or b""
        answer = yield token
        yield context.wrap(choose_layer(context.unwrap(_bounded(answer)).message), False).message
    except GeneratorExit:  # the broker refused, or is gone
        _forgotten[login] += 1
        raise
    except gssapi.exceptions.GSSError as error:
        raise AuthenticationFailed(
            f"the broker's message does not belong to this login ({_text(error)}): is this the right cluster?"
        ) from None


def choose_layer(offer: bytes) -> bytes:
    """The answer to the layers that a broker offers: none of them."""
    if len(offer) != 4:
        raise Malformed(f"the offer of security layers has {len(offer)} bytes, not 4")
    if not offer[0] & NO_LAYER:
        raise AuthenticationFailed("the broker insists on a security layer of SASL, which Kafka has not: use SASL_SSL")
    return bytes([NO_LAYER, 0, 0, 0])


def failure(login: Login, target: str, code: int, text: str) -> ClientError:
    """What to do if there is no ticket for `target`: `code` and `text` are the Kerberos library's."""
    who = login.principal or "the principal"
    where = f"ticket cache {login.cache}" if login.cache else "default ticket cache"
    by_keytab = "use a keytab (useKeyTab=true), which renews by itself"
    kinit = f"run `kinit {login.principal}".rstrip() + f"` on this machine, as this user, or {by_keytab}"
    if code == Reason.KDC_UNREACHABLE:
        return ConnectionLost(f"Kerberos: {text}: are the KDCs in krb5.conf right, and reachable from this machine?")
    if code in (Reason.NO_CACHE, Reason.NO_TICKET) and login.keytab is not None:
        advice = f"keytab {login.keytab} has no key of {who}: `klist -k {login.keytab}` tells whose keys it has"
    elif code in (Reason.NO_CACHE, Reason.NO_TICKET):
        advice = f"there is no ticket in the {where}: {kinit}"
    elif code in (Reason.CLOCK_SKEW, Reason.CLOCK_SKEW_OF_KDC):
        advice = f"{text}: set this machine's clock by that of the KDC and the brokers"
    elif code in (Reason.PREAUTH_FAILED, Reason.BAD_INTEGRITY):
        advice = f"the key of {who} in keytab {login.keytab} is no longer the KDC's: export the keytab again"
    else:
        table: dict[int, str] = {
            Reason.TICKET_EXPIRED: f"the ticket in the {where} has expired: {kinit}",
            Reason.CLIENT_UNKNOWN: f"{text}: is the principal in sasl.jaas.config right?",
            Reason.CLIENT_REVOKED: f"{who} is locked at the KDC: have it unlocked",
            Reason.KEY_EXPIRED: f"the password of {who} has expired: renew it, and export the keytab again",
            Reason.SERVICE_UNKNOWN: f"the KDC has no principal for {target} ({text}): is {SERVICE_NAME} right, and is "
            "the broker addressed by the host name in its principal?",
            Reason.NO_KDC_NAMED: f"{text}: put the realm into krb5.conf on this machine, or set KRB5_CONFIG",
            Reason.CONFIG_FORMAT: f"{text}: correct krb5.conf on this machine",
        }
        advice = table.get(code, f"there is no ticket for {target}: {text}")
    return AuthenticationFailed(f"Kerberos: {advice}")


# -- the library


class _Context(Protocol):
    """What is used of `gssapi.SecurityContext`."""

    @property
    def complete(self) -> bool: ...
    def step(self, token: bytes | None = None) -> bytes | None: ...
    def wrap(self, message: bytes, encrypt: bool) -> Any: ...
    def unwrap(self, message: bytes) -> Any: ...


def _package() -> ModuleType:
    try:
        return importlib.import_module("gssapi")
    except (ImportError, OSError) as error:  # OSError: the package is there, the system's library is not
        raise ConfigError(f"{NEEDS} ({error})") from None


def _begin(gssapi: ModuleType, login: Login, target: str) -> tuple[_Context, bytes]:
    """A context with a ticket for `target`, and its first message."""
    if login.cache is not None and login.keytab is not None:
        try:
            return _first(gssapi, login, target, None)
        except gssapi.exceptions.GSSError:
            pass  # as in Java, where the keytab is for when the cache has no ticket
    try:
        return _first(gssapi, login, target, login.keytab)
    except gssapi.exceptions.GSSError as error:
        if login.keytab is None or _code(error) != Reason.TICKET_EXPIRED:
            raise failure(login, target, _code(error), _text(error)) from None
        _forgotten[login] += 1
    try:
        return _first(gssapi, login, target, login.keytab)
    except gssapi.exceptions.GSSError as error:
        raise failure(login, target, _code(error), _text(error)) from None


def _first(gssapi: ModuleType, login: Login, target: str, keytab: str | None) -> tuple[_Context, bytes]:
    kerberos, names, flags = gssapi.MechType.kerberos, gssapi.NameType, gssapi.RequirementFlag
    store = _store(login, keytab)
    with _lock:
        principal = gssapi.Name(login.principal, names.kerberos_principal) if login.principal else None
        context: _Context = gssapi.SecurityContext(
            name=gssapi.Name(target, names.hostbased_service),
            creds=gssapi.Credentials(name=principal, usage="initiate", mechs=[kerberos], store=store),
            usage="initiate",
            mech=kerberos,
            flags=flags.mutual_authentication | flags.integrity,
        )
        return context, context.step() or b""


def _store(login: Login, keytab: str | None) -> dict[str, str] | None:
    """Where the library finds tickets, or finds keys and keeps tickets: in memory, per login."""
    if keytab is None:
        return {"ccache": login.cache} if login.cache else None
    try:
        with Path(keytab).open("rb") as file:
            magic = file.read(2)
    except OSError as error:
        raise ConfigError(f"keyTab={keytab} cannot be read on this machine: {error.strerror}") from None
    if magic not in KEYTAB_MAGIC:
        raise ConfigError(f"keyTab={keytab} is not a keytab: kadmin's ktadd or ktutil makes one")
    name = hashlib.sha256(f"{login} {_forgotten[login]}".encode()).hexdigest()
    return {"client_keytab": f"FILE:{keytab}", "ccache": f"MEMORY:fencepost-{name}"}


def _bounded(message: bytes) -> bytes:
    if len(message) > MAX_MESSAGE_BYTES:
        raise Malformed(f"a GSSAPI message of {len(message)} bytes")
    return message


def _code(error: Any) -> int:
    """The Kerberos library's code, which it has as a signed number."""
    code: int = error.min_code
    return code - (1 << 32) if code >> 31 else code


def _text(error: Any) -> str:
    """What the Kerberos library says, or GSSAPI above it, without their numbers."""
    details: list[str] = error.get_all_statuses(error.min_code, False) if error.min_code else []
    said = [text for text in details if text and text not in ("Success", "Unknown error")]
    return ", ".join(said or error.get_all_statuses(error.maj_code, True))
