"""The answerer of HTTP: what it serves, and what it does to those who send something else."""

import http.client
import socket
from collections.abc import Iterator

import pytest

from fencepost.metrics import http as answerer
from fencepost.spark.metrics.serving import Serving
from fencepost.wire.terms import Address
from tests.commands import fencepost

TEXT = "# HELP a_total What it is.\n# TYPE a_total counter\na_total 1\n"


@pytest.fixture
def serving() -> Iterator[Serving]:
    with Serving(Address("127.0.0.1", 0), lambda: TEXT) as served:
        yield served


def address(serving: Serving) -> tuple[str, int]:
    host, _, port = serving.url.removeprefix("http://").removesuffix("/metrics").partition(":")
    return host, int(port)


def said_to(serving: Serving, request: bytes) -> bytes:
    """Everything that comes until the connection is closed."""
    with socket.create_connection(address(serving), timeout=10) as client:
        client.sendall(request)
        return b"".join(iter(lambda: client.recv(65536), b""))


def test_one_connection_serves_many_scrapes(serving: Serving) -> None:
    client = http.client.HTTPConnection(*address(serving), timeout=10)
    for path in ("/metrics", "/metrics?name=a_total"):
        client.request("GET", path)
        answer = client.getresponse()
        assert (answer.status, answer.read().decode()) == (200, TEXT)
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    client.request("HEAD", "/metrics")
    answer = client.getresponse()
    assert (answer.status, answer.headers["Content-Length"], answer.read()) == (200, str(len(TEXT)), b"")
    client.close()


@pytest.mark.parametrize(
    ("request_line", "status"),
    [("GET / HTTP/1.1", 404), ("POST /metrics HTTP/1.1", 405), ("GET /metrics", 400), ("GET /metrics HTTP/3", 400)],
)
def test_other_requests_are_refused(serving: Serving, request_line: str, status: int) -> None:
    answer = said_to(serving, f"{request_line}\r\nConnection: close\r\n\r\n".encode())
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:9464", 200),
        ("127.0.0.1", 200),
        ("[::1]:9464", 200),
        ("evil.example", 421),
        ("evil.example:9464", 421),
    ],
)
def test_on_the_loopback_a_name_that_somebody_else_made_resolve_to_it_is_refused(
    serving: Serving, host: str, status: int
) -> None:
    answer = said_to(serving, f"GET /metrics HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())


@pytest.mark.parametrize("more", ["Content-Length: 5", "Transfer-Encoding: chunked"])
def test_a_body_is_refused(serving: Serving, more: str) -> None:
    assert said_to(serving, f"GET /metrics HTTP/1.1\r\n{more}\r\n\r\n".encode()).startswith(b"HTTP/1.1 400 ")


def test_two_requests_at_once_are_refused(serving: Serving) -> None:
    assert said_to(serving, b"GET /metrics HTTP/1.1\r\n\r\n" * 2).startswith(b"HTTP/1.1 400 ")


def test_a_request_without_end_costs_a_few_kilobytes(serving: Serving) -> None:
    answer = said_to(serving, b"GET /metrics HTTP/1.1\r\n" + b"X: " + b"y" * answerer.REQUEST_BYTES)
    assert answer.startswith(b"HTTP/1.1 431 ")


def test_a_client_that_sends_nothing_is_let_go(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answerer, "FIRST_REQUEST_MS", 50)
    assert said_to_quietly(serving) == b""


def said_to_quietly(serving: Serving) -> bytes:
    with socket.create_connection(address(serving), timeout=10) as client:
        try:
            return client.recv(1)
        except ConnectionResetError:
            return b""


def test_connections_are_few(serving: Serving) -> None:
    held = [socket.create_connection(address(serving), timeout=10) for _ in range(answerer.CONNECTIONS_MAX)]
    assert said_to_quietly(serving) == b""
    held[0].sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
    assert held[0].recv(12) == b"HTTP/1.1 200"
    for each in held:
        each.close()


def test_metrics_that_cannot_be_written_are_an_error_and_no_end(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> str:
        raise ZeroDivisionError

    with Serving(Address("127.0.0.1", 0), fail) as served:
        for _ in range(2):
            assert said_to(served, b"GET /metrics HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 500 ")
    assert "cannot be written" in caplog.text


@pytest.mark.parametrize("where", ["a port that is taken", "no..host:1"])
def test_an_address_that_cannot_be_is_named_and_not_the_brokers(serving: Serving, where: str):
    given = ":".join(map(str, address(serving))) if "taken" in where else where
    refused = fencepost("up", "--port", "0", "--metrics", given)
    assert refused.returncode == 1 and "Traceback" not in refused.stderr
    assert f"Error: metrics cannot be served at {given}" in refused.stderr
