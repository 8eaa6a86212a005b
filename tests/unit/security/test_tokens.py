"""Tokens: where they come from, when they are renewed, and what a failure says."""

import base64
import itertools
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from fencepost.errors import AuthenticationFailed, ClientError, ConfigError, ConnectionLost
from fencepost.security import bearer, tokens
from fencepost.security.names import TOKEN_ENDPOINT
from fencepost.security.settings import ClientSecurity
from fencepost.security.tokens import Tokens, Window

OAUTH = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
CLIENT = "sasl.oauthbearer.client.credentials.client."
WINDOW = Window(factor=0.8, jitter=0.0, min_period_s=60, buffer_s=300)


def jwt(**claims: object) -> str:
    parts = ({"alg": "none"}, claims)
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + ".x"


def presented(settings: dict[str, str]) -> str:
    """The token that a connection with these settings would present."""
    return bearer.decode(next(ClientSecurity.parse({**OAUTH, **settings}).converse("localhost"))).token


class Endpoint(HTTPServer):
    """A token endpoint. `answers` are (status, body) in order; the last one is repeated."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[tuple[int, object]] = []
        self.asked: list[tuple[str, dict[str, list[str]]]] = []
        self.moved_to = ""
        self.url = f"http://127.0.0.1:{self.server_port}/token"


class _Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers.get("Content-Length", 0))).decode())
        identity = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
        self.server.asked.append((identity, form))
        status, body = self.server.answers[0] if len(self.server.answers) == 1 else self.server.answers.pop(0)
        self.send_response(status)
        if self.server.moved_to:
            self.send_header("Location", self.server.moved_to)
        self.end_headers()
        self.wfile.write(body if isinstance(body, bytes) else json.dumps(body).encode())

    def do_GET(self) -> None:
        self.do_POST()

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_client_credentials_are_exchanged_for_a_token_once(endpoint: Endpoint) -> None:
    endpoint.answers = [(200, {"access_token": "abc", "expires_in": 3600})]
    settings = {
        TOKEN_ENDPOINT: endpoint.url,
        CLIENT + "id": "me",
        CLIENT + "secret": "s:e c",
        "sasl.oauthbearer.scope": "kafka",
    }
    assert [presented(settings), presented(settings)] == ["abc", "abc"]
    assert endpoint.asked == [("me:s:e c", {"grant_type": ["client_credentials"], "scope": ["kafka"]})]
    presented({**settings, "sasl.oauthbearer.header.urlencode": "true"})
    assert endpoint.asked[-1][0] == "me:s%3Ae+c"


def test_the_login_module_may_hold_the_credentials_and_extensions(endpoint: Endpoint) -> None:
    endpoint.answers = [(200, {"access_token": jwt(exp=time.time() + 999)})]
    login = 'OAuthBearerLoginModule required clientId="me" clientSecret="s" scope="k" extension_logicalCluster="lkc-1";'
    settings = {**OAUTH, TOKEN_ENDPOINT: endpoint.url, "sasl.jaas.config": login}
    message = next(ClientSecurity.parse(settings).converse("localhost"))
    assert bearer.decode(message).extensions == {"logicalCluster": "lkc-1"}
    assert endpoint.asked == [("me:s", {"grant_type": ["client_credentials"], "scope": ["k"]})]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (
            (401, {"error": "invalid_client", "error_description": "no such client"}),
            "401 .*: invalid_client, no such client",
        ),
        ((500, b"\xff<html>"), "answered 500"),
        ((200, b"nothing"), "without an access_token"),
        ((200, {"access_token": 7}), "without an access_token"),
        ((200, {"access_token": jwt(exp=1)}), "already expired"),
    ],
)
def test_an_endpoint_that_gives_no_token_is_named_without_the_secret(
    endpoint: Endpoint, answer: tuple[int, object], error: str
) -> None:
    endpoint.answers = [answer]
    with pytest.raises(ClientError, match=error) as caught:
        presented({TOKEN_ENDPOINT: endpoint.url, CLIENT + "id": "me", CLIENT + "secret": "hunter2"})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_an_endpoint_that_has_moved_is_not_followed_with_the_secret(endpoint: Endpoint, status: int) -> None:
    endpoint.answers = [(status, {}), (200, {"access_token": "abc"})]
    endpoint.moved_to = endpoint.url + "/elsewhere"
    with pytest.raises(ClientError, match=f"answered {status}"):
        presented({TOKEN_ENDPOINT: endpoint.url, CLIENT + "id": "me", CLIENT + "secret": "s"})
    assert len(endpoint.asked) == 1


def test_an_endpoint_that_is_down_is_named() -> None:
    with pytest.raises(ConnectionLost, match=r"http://127.0.0.1:9/token cannot be reached: .*refused"):
        presented({TOKEN_ENDPOINT: "http://127.0.0.1:9/token", CLIENT + "id": "a", CLIENT + "secret": "b"})
    with pytest.raises(ConfigError, match=r"needs .*client.id and .*client.secret"):
        presented({TOKEN_ENDPOINT: "http://127.0.0.1:9/token"})


def test_a_token_may_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a token"
    path.write_text(jwt(exp=time.time() + 999) + "\n")
    assert presented({TOKEN_ENDPOINT: path.as_uri()}) == path.read_text().strip()
    with pytest.raises(ConnectionLost, match="cannot be read"):
        presented({TOKEN_ENDPOINT: (tmp_path / "none").as_uri()})


def plain_token() -> str:
    return "from-python"


def token_for_a_minute() -> tuple[str, float]:
    return "short", time.time() + 60


def token_as_aws_gives_it() -> tuple[str, int]:
    return "msk", int(time.time() * 1000) + 900_000


def no_token() -> object:
    return None


def raises() -> str:
    raise RuntimeError("no metadata service")


def test_a_token_may_come_from_a_function() -> None:
    for function, token in [
        (plain_token, "from-python"),
        (token_for_a_minute, "short"),
        (token_as_aws_gives_it, "msk"),
    ]:
        assert presented({"token_provider": f"{__name__}:{function.__name__}"}) == token
    _, expires_s = tokens.from_function(f"{__name__}:{token_as_aws_gives_it.__name__}")
    assert 890 < expires_s - time.time() < 901


@pytest.mark.parametrize(
    ("reference", "error"),
    [
        ("no_such_module:f", "cannot be imported on this machine: No module named"),
        (f"{__name__}:missing", "cannot be imported on this machine: .*missing"),
        (f"{__name__}:no_token", "must return a token"),
        (f"{__name__}:raises", "raised RuntimeError: no metadata service"),
        ("no colon", "must be MODULE:FUNCTION"),
    ],
)
def test_says_what_is_wrong_with_a_function(reference: str, error: str) -> None:
    with pytest.raises((ConfigError, ConnectionLost), match=error):
        presented({"token_provider": reference})


def test_a_token_is_renewed_before_it_expires_and_kept_while_renewing_fails() -> None:
    now, failing, count = 0.0, False, itertools.count()

    def fetch() -> tuple[str, float]:
        if failing:
            raise AuthenticationFailed("down")
        return f"t{next(count)}", now + 1000

    shared = Tokens(fetch, WINDOW)

    def get(at: float) -> str:
        nonlocal now
        now = at
        return shared.get(lambda: now)[0]

    assert [get(0), get(699)] == ["t0", "t0"]
    assert get(701) == "t1"  # 300 s before the end, though 80 % would be at 800 s
    failing = True
    assert [get(1500), get(1501), get(1690)] == ["t1", "t1", "t1"]
    with pytest.raises(AuthenticationFailed, match="down"):
        get(1700)
    failing = False
    assert get(1701) == "t2"


def test_a_short_lived_token_is_renewed_at_its_share_of_life() -> None:
    assert WINDOW.renewal(0, 100) == 80
    assert WINDOW.renewal(0, 400) == 100
    assert WINDOW.renewal(0, 10_000) == 8_000
