"""Who may ask the console, and for what. Every request passes here before anything else sees it.

- **The Host header** must be an address or a name that we know. A page elsewhere can make its own name resolve to this
  machine (DNS rebinding), but it cannot choose another name than its own.
- **Another site** can change nothing and read nothing. Changes need our own Origin and a secret in a header, which only
  a page of ours can read, and browsers say with Sec-Fetch-Site where a request comes from.
- **A token** is needed if one is set, and one must be set to listen beyond this machine. It is exchanged for a cookie
  that scripts cannot read and other sites do not send.

Invariant: no secret is ever in a URL or a log line.
"""

import enum
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fencepost.hosts import LOCAL_NAMES, is_known_host

CHANGE_HEADER = "x-fencepost-change"
SESSIONS_MAX = 256
#: Everything comes from us, nothing is evaluated, and strings never become markup.
POLICY = (
    "default-src 'none'; "
    "script-src 'self'; "
    "style-src 'self'; "
    "img-src 'self' data:; "
    "connect-src 'self'; "
    "manifest-src 'self'; "
    "base-uri 'none'; "
    "form-action 'none'; "
    "frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
OPEN_PATHS = ("/static/", "/login")  #: hold no data of the cluster


class Changes(enum.Enum):
    REFUSED = enum.auto()
    ALLOWED = enum.auto()


@dataclass(frozen=True, slots=True)
class Rules:
    names: frozenset[str] = LOCAL_NAMES  #: hosts beside addresses, in lower case
    token: str | None = field(default=None, repr=False)
    changes: Changes = Changes.REFUSED
    port: int = 0

    @classmethod
    def make(cls, names: Iterable[str], token: str | None, changes: Changes, port: int) -> "Rules":
        return cls(LOCAL_NAMES | {name.lower() for name in names}, token, changes, port)

    @property
    def cookie(self) -> str:
        """Browsers send cookies to every port of a host, so each console has its own."""
        return f"fencepost_console_{self.port}"


class Sessions:
    """Logins, the oldest forgotten first. They end with the process."""

    def __init__(self, rules: Rules) -> None:
        self._token = rules.token
        self.cookie = rules.cookie
        self._open: OrderedDict[str, None] = OrderedDict()
        self.change_secret = secrets.token_urlsafe(24)

    def log_in(self, token: str) -> str | None:
        """A session's id, or None if the token is wrong."""
        if not self.is_token(token):
            return None
        session = secrets.token_urlsafe(32)
        self._open[session] = None
        while len(self._open) > SESSIONS_MAX:
            self._open.popitem(last=False)
        return session

    def is_token(self, given: str) -> bool:
        if self._token is None:
            return False
        # JSON can spell half a surrogate pair, and a variable's bytes need not be UTF-8
        return hmac.compare_digest(*(each.encode(errors="surrogatepass") for each in (given, self._token)))

    def log_out(self, session: str) -> None:
        self._open.pop(session, None)

    def admits(self, headers: Headers) -> bool:
        if self._token is None:
            return True
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self.is_token(given.strip()):
            return True
        return self.session_of(headers) in self._open

    def session_of(self, headers: Headers) -> str:
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self.cookie)
        except CookieError:
            return ""
        return "" if found is None else found.value


class Gate:
    """The outermost part of the application."""

    def __init__(self, app: ASGIApp, rules: Rules, sessions: Sessions) -> None:
        self._app = app
        self._rules = rules
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # a web socket: we have none
            await send({"type": "websocket.close", "code": 1008})
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-cache" if scope["path"].startswith("/static/") else "no-store")
            await send(message)

        refusal = self._refusal(scope)
        await (self._app if refusal is None else refusal)(scope, receive, with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        path, is_change = scope["path"], scope["method"] not in ("GET", "HEAD")
        if not is_known_host(headers.get("host", ""), self._rules.names):
            return refuse(421, "this console does not answer to that host name; see --allow-host")
        is_foreign = headers.get("sec-fetch-site", "none") not in ("same-origin", "none")
        if is_foreign and (is_change or path.startswith("/api/")):
            return refuse(403, "requests of other sites are refused")
        if is_change and not _is_own_origin(headers, scope):
            return refuse(403, "changes are only taken from the console's own page")
        if path.startswith(OPEN_PATHS):
            return None
        if not self._sessions.admits(headers):
            return RedirectResponse("/login", 303) if path == "/" else refuse(401, "log in first")
        if is_change and path.startswith("/api/"):
            given = headers.get(CHANGE_HEADER, "")
            if not hmac.compare_digest(given.encode(), self._sessions.change_secret.encode()):
                return refuse(403, f"{CHANGE_HEADER} is missing or old: reload the page")
            if self._rules.changes is Changes.REFUSED:
                return refuse(403, "this console only looks; start it with --allow-changes")
        return None


def refuse(status: int, problem: str) -> JSONResponse:
    return JSONResponse({"problem": problem}, status)


def _is_own_origin(headers: Headers, scope: Scope) -> bool:
    """Browsers send Origin with every change. Others that do not are no browsers, and have no cookie to abuse."""
    origin = headers.get("origin")
    if origin is None:
        return "sec-fetch-site" not in headers
    _, _, host = origin.partition("://")
    return host.lower() == headers.get("host", "").lower()
