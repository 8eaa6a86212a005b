"""Who may ask the console: no other site, no other name, nobody without the token, and no change unless allowed."""

import pathlib
import re
import socket

import pytest
from click.testing import CliRunner

from fencepost.cli.main import main
from fencepost.console.app import STREAMS_MAX
from fencepost.console.server import Options, with_token
from fencepost.wire.terms import Address
from tests.conftest import WAIT_TIMEOUT_S, wait_until
from tests.console.web import Page, opened

STATIC = pathlib.Path(__file__).parents[2] / "src" / "fencepost" / "console" / "static"


@pytest.fixture(scope="module")
def guarded(bootstrap: str, tmp_path_factory: pytest.TempPathFactory):
    token = tmp_path_factory.mktemp("token") / "token"
    token.write_text("open sesame\n")
    with opened(bootstrap, "--listen", "0.0.0.0:0", "--token-file", str(token)) as started:
        yield started


def test_everything_comes_from_the_console_itself(page: Page):
    answer = page.get("/")
    assert answer.status == 200 and b"main.js" in answer.body
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src 'self'" in policy and "unsafe" not in policy
    assert answer.headers["x-frame-options"] == "DENY"
    for path in STATIC.rglob("*.*"):
        text = path.read_text().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"(https?:)?//[a-z0-9]+\.[a-z]", text), path
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text), path
        assert page.get(f"/static/{path.relative_to(STATIC)}").status == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:80", "localhost.evil.example", ""])
def test_a_name_that_is_not_ours_is_refused(page: Page, host: str):
    """A page elsewhere can make its name resolve to this machine (DNS rebinding)."""
    assert page.get("/api/session", {"Host": host}).status == 421
    assert page.get("/", {"Host": host}).status == 421


def test_our_own_names_and_addresses_are_known(page: Page):
    port = page.host.rpartition(":")[2]
    for host in ("localhost", f"localhost:{port}", "127.0.0.1", f"[::1]:{port}", socket.gethostname()):
        assert page.get("/api/session", {"Host": host}).status == 200, host


@pytest.mark.parametrize("path", ["/api/session", "/api/records?topic=x", "/api/events"])
def test_another_site_reads_nothing(page: Page, path: str):
    for site in ("cross-site", "same-site"):
        assert page.get(path, {"Sec-Fetch-Site": site}).status == 403


def test_another_site_changes_nothing(page: Page):
    secret = page.ask("session")["change_secret"]
    own = {"Origin": f"http://{page.host}", "Sec-Fetch-Site": "same-origin", "X-Fencepost-Change": secret}
    body = {"id": "nobody", "producer": 1, "epoch": 1}
    # It gets through: there is no such id. A coordinator that was never asked before may take a while.
    wait_until(lambda: page.post("/api/abort", body, own).status == 404, "the change gets through")
    assert page.post("/api/abort", body, {**own, "Origin": "http://evil.example"}).status == 403
    assert page.post("/api/abort", body, {**own, "Origin": "null"}).status == 403
    assert page.post("/api/abort", body, {**own, "Sec-Fetch-Site": "cross-site"}).status == 403
    assert page.post("/api/abort", body, {**own, "X-Fencepost-Change": "x"}).status == 403
    assert page.post("/api/abort", body, {k: v for k, v in own.items() if k != "X-Fencepost-Change"}).status == 403
    assert page.post("/api/abort", body, {k: v for k, v in own.items() if k != "Origin"}).status == 403
    assert page.post("/api/abort", body, {**own, "Content-Type": "text/plain"}).status == 400
    assert page.send("PUT", "/api/abort", own, "{}").status in (403, 405)


def test_a_change_of_an_impossible_name_gets_a_reason(page: Page):
    for name in ("\ud800", "x" * 40_000):
        assert page.change("abort", {"id": name, "producer": 1, "epoch": 0}).status == 400


def test_without_the_option_it_only_looks(guarded: Page):
    with_token = {"Authorization": "Bearer open sesame"}
    session = guarded.get("/api/session", with_token).found
    assert session["may_change"] is False
    own = {**with_token, "Origin": f"http://{guarded.host}", "X-Fencepost-Change": session["change_secret"]}
    answer = guarded.post("/api/abort", {"id": "x", "producer": 1, "epoch": 1}, own)
    assert answer.status == 403 and "--allow-changes" in answer.found["problem"]


def test_a_token_is_demanded_and_never_logged(guarded: Page):
    assert guarded.get("/api/session").status == 401
    assert guarded.get("/api/events").status == 401
    assert guarded.get("/").status == 303 and guarded.get("/login").status == 200
    own = {"Origin": f"http://{guarded.host}"}
    assert guarded.post("/login", {"token": "wrong"}, own).status == 401
    assert guarded.post("/login", {"token": "open sesame"}, {"Origin": "http://evil.example"}).status == 403
    answer = guarded.post("/login", {"token": "open sesame"}, own)
    cookie = answer.headers["set-cookie"]
    assert answer.status == 200 and "HttpOnly" in cookie and "SameSite=strict" in cookie
    assert cookie.startswith(
        f"fencepost_console_{guarded.host.rpartition(':')[2]}="
    )  # cookies are for all ports of a host
    session = {"Cookie": cookie.partition(";")[0]}
    assert guarded.get("/api/session", session).status == 200
    assert guarded.post("/logout", {}, {**own, **session}).status == 200
    assert guarded.get("/api/session", session).status == 401
    assert "sesame" not in guarded.said()


@pytest.mark.parametrize(
    ("body", "status"),
    [("{", 400), ("[]", 400), ("[" * 60_000, 400), ("x" * 70_000, 400), ("{}", 401), ('{"token": "\\ud800"}', 401)],
)
def test_a_strange_login_is_refused_without_an_error_in_the_log(guarded: Page, body: str, status: int):
    assert guarded.send("POST", "/login", {"Content-Type": "application/json"}, body).status == status
    assert "Traceback" not in guarded.said()


def test_pages_that_come_at_once_are_counted_and_forgotten(page: Page):
    where = Address(page.host.rpartition(":")[0], int(page.host.rpartition(":")[2]))
    asked = [socket.create_connection(where, WAIT_TIMEOUT_S) for _ in range(STREAMS_MAX + 8)]
    for each in asked:
        each.sendall(f"GET /api/events HTTP/1.1\r\nHost: {page.host}\r\n\r\n".encode())
    statuses = [each.recv(12).decode().split()[1] for each in asked]
    for each in asked:
        each.close()
    assert statuses.count("503") >= 8 and set(statuses) == {"200", "503"}

    def is_free() -> bool:
        try:
            return bool(next(iter(page.updates("health"))))
        except StopIteration:  # refused
            return False

    wait_until(is_free, "the pages that went away are forgotten")


def test_beyond_this_machine_there_is_always_a_token():
    here, there = Address("127.0.0.1", 0), Address("0.0.0.0", 0)
    assert with_token(Options({}, here)).token is None
    made = with_token(Options({}, there)).token
    assert made and made != with_token(Options({}, there)).token
    assert made not in repr(Options({}, there, made))
    assert with_token(Options({}, Address("console.example", 0))).token


def test_a_token_that_is_easily_guessed_is_refused(tmp_path: pathlib.Path):
    (tmp_path / "token").write_text("1234")
    refused = CliRunner().invoke(main, ["console", "--token-file", str(tmp_path / "token")])
    assert refused.exit_code == 2 and "8 characters" in refused.output and "1234" not in refused.output


def test_a_token_file_that_is_no_text_is_a_wrong_argument(tmp_path: pathlib.Path):
    (tmp_path / "token").write_bytes(b"\xff" * 20)
    refused = CliRunner().invoke(main, ["console", "--token-file", str(tmp_path / "token")])
    assert refused.exit_code == 2 and "cannot be read as text" in refused.output
