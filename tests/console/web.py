"""`fencepost console` as a process, and a client that asks it as a browser would."""

import http.client
import json
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from confluent_kafka import Producer

from fencepost.child import Child
from tests import logins
from tests.conftest import WAIT_TIMEOUT_S, unique, wait_until
from tests.observe import stuck


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def found(self) -> Any:
        return json.loads(self.body)


class Page:
    """A running console."""

    def __init__(self, url: str, said: Callable[[], str]) -> None:
        self.url = url
        self.said = said
        self.host = url.removeprefix("http://").rstrip("/")

    def get(self, path: str, headers: Mapping[str, str] | None = None, /, **params: object) -> Answer:
        from urllib.parse import urlencode

        return self.send("GET", path + (f"?{urlencode(params)}" if params else ""), headers)

    def ask(self, question: str, /, **params: object) -> Any:
        answer = self.get(f"/api/{question}", None, **params)
        assert answer.status == 200, answer.body
        return answer.found

    def post(self, path: str, body: object, headers: Mapping[str, str] | None = None) -> Answer:
        return self.send("POST", path, {"Content-Type": "application/json", **(headers or {})}, json.dumps(body))

    def change(self, name: str, body: object) -> Answer:
        """As the page itself does it."""
        secret = self.ask("session")["change_secret"]
        own = {"Origin": f"http://{self.host}", "Sec-Fetch-Site": "same-origin", "X-Fencepost-Change": secret}
        return self.post(f"/api/{name}", body, own)

    def send(self, method: str, path: str, headers: Mapping[str, str] | None = None, body: str | None = None) -> Answer:
        connection = http.client.HTTPConnection(self.host, timeout=WAIT_TIMEOUT_S)
        try:
            connection.request(method, path, body, {"Host": self.host, **(headers or {})})
            got = connection.getresponse()
            return Answer(got.status, {name.lower(): value for name, value in got.getheaders()}, got.read())
        finally:
            connection.close()

    def updates(self, *channels: str) -> Iterator[dict[str, Any]]:
        """Of the live channels, as long as they are read."""
        connection = http.client.HTTPConnection(self.host, timeout=WAIT_TIMEOUT_S)
        try:
            connection.request("GET", f"/api/events?channels={','.join(channels)}")
            stream = connection.getresponse()
            while line := stream.readline():
                if line.startswith(b'data: {"channel"'):
                    yield json.loads(line.removeprefix(b"data: "))
        finally:
            connection.close()

    def await_row(self, channel: str, key: str, is_so: Callable[[dict[str, Any]], Any] = bool) -> dict[str, Any]:
        """The first state of a live row that is so."""
        found: list[dict[str, Any]] = []

        def read() -> None:
            for update in self.updates(channel):
                row = update["rows"].get(key) if update["channel"] == channel else None
                if row is not None and is_so(row):
                    found.append(row)
                    return

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        reader.join(WAIT_TIMEOUT_S)
        assert found, f"{channel} never had such a {key}"
        return found[0]


def make_log(page: Page, bootstrap: str, topic: str) -> Producer:
    """committed, plain, aborted, open, plain: in this order. Returns the producer of the open one."""

    def has_marker() -> bool:
        """Apache Kafka answers a commit before its marker is written."""
        batches = page.ask("strip", topic=topic, start=0)["batches"]
        return bool(batches) and batches[-1]["outcome"] in ("commit", "abort")

    stuck.commit(bootstrap, unique("done"), topic, "a", "b")
    wait_until(has_marker, "the marker is written")
    stuck.write(bootstrap, topic, "plain")
    stuck.abort(bootstrap, unique("gone"), topic, "c")
    wait_until(has_marker, "the marker is written")
    producer = stuck.begin(bootstrap, unique("open"), topic, "d", timeout_ms=600_000)
    stuck.write(bootstrap, topic, "behind")
    return producer


@contextmanager
def opened(bootstrap: str, *options: str, variables: Mapping[str, str] | None = None) -> Iterator[Page]:
    """A console on this cluster, on a free port."""
    settings = [word for name, value in logins.java(bootstrap).items() for word in ("-X", f"{name}={value}")]
    words = [*([] if "--listen" in options else ["--listen", "127.0.0.1:0"]), *settings, *options]
    log: deque[str] = deque(maxlen=500)
    lines: deque[str] = deque(maxlen=10)
    with Child(log, "the console", on_line=lines.append) as child:
        child.start([sys.executable, "-m", "fencepost.cli.main", "console", *words], variables)
        wait_until(lambda: lines or not child.is_running, "the console is up")
        assert lines, "".join(log)
        yield Page(lines[0].removeprefix("console on ").strip(), lambda: "".join([*lines, *log]))
        child.terminate(10)
    assert "Traceback" not in "".join(log), "".join(log)
