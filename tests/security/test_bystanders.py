"""What strangers do before they are known costs nobody else anything: wrong logins, handshakes that never end."""

import asyncio
import base64
import contextlib
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Self

import pytest

from fencepost.client.cluster import Cluster
from fencepost.security import bearer, plain
from fencepost.wire import messages
from tests.conftest import wait_until
from tests.security.conftest import Secured

METADATA, SASL_HANDSHAKE, SASL_AUTHENTICATE = 3, 17, 36
WRONG_LOGINS, AT_ONCE = 1000, 100
HALF_OPEN = 1000
#: The header of a token that is signed with the broker's key, or says so.
KNOWN_KEY = base64.urlsafe_b64encode(b'{"alg":"RS256","kid":"known"}').decode().rstrip("=")
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Bystander:
    """Asks for something, over and over, on one secured connection."""

    def __init__(self, settings: dict[str, str]) -> None:
        self._settings = settings
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.rounds = 0
        self.slowest_s = 0.0
        self.failure: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        self.goes_on()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(60)

    def goes_on(self) -> None:
        wanted = self.rounds + 3
        wait_until(lambda: self.rounds >= wanted or self.failure is not None, "the bystander is served")
        if self.failure is not None:
            raise AssertionError("the bystander noticed something") from self.failure

    def _run(self) -> None:
        try:
            with Cluster(self._settings) as cluster:
                connection = cluster.any()
                while not self._over.is_set():
                    before_s = time.monotonic()
                    connection.call(METADATA, {"topics": []})
                    self.slowest_s = max(self.slowest_s, time.monotonic() - before_s)
                    self.rounds += 1
                    self._over.wait(0.005)
                assert cluster.any() is connection, "its connection was lost"
        except BaseException as error:
            self.failure = error


@pytest.fixture
def bystander(secured: Secured) -> Iterator[Bystander]:
    with Bystander(secured.settings("SASL_SSL", **secured.login("SCRAM-SHA-512"))) as watching:
        yield watching


def cpu_s(pid: int) -> float:
    """What a process has computed. Other than a latency, this does not depend on who else uses the machine."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND


async def ask(stream: Stream, api_key: int, **fields: Any) -> Any:
    reader, writer = stream
    api = messages.api(api_key)
    body = struct.pack(">hhihs", api_key, 1, 1, 1, b"x") + api.request.encode(1, fields)
    writer.write(struct.pack(">i", len(body)) + body)
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return api.response.decode(1, await reader.readexactly(size), 4)


async def wrong_plain(stream: Stream, number: int) -> Any:
    name = ("alice", "nobody")[number % 2]
    return await ask(stream, SASL_AUTHENTICATE, auth_bytes=plain.encode(name, "x" * 60_000))


async def wrong_scram(stream: Stream, number: int) -> Any:
    name = ("alice", "nobody")[number % 2]
    first = await ask(stream, SASL_AUTHENTICATE, auth_bytes=f"n,,n={name},r=abc".encode())
    nonce = bytes(first.auth_bytes).split(b",")[0]
    proof = base64.b64encode(bytes(64))  # made up, so that the test need not compute what a password costs
    return await ask(stream, SASL_AUTHENTICATE, auth_bytes=b"c=biws," + nonce + b",p=" + proof)


async def wrong_token(stream: Stream, number: int) -> Any:
    token = f"{KNOWN_KEY}.{'a' * 16_000}.{'a' * 342}"
    refused = await ask(stream, SASL_AUTHENTICATE, auth_bytes=bearer.encode(token))
    assert b"invalid_token" in bytes(refused.auth_bytes)
    return await ask(stream, SASL_AUTHENTICATE, auth_bytes=b"\x01")


WRONG: dict[str, Callable[[Stream, int], Any]] = {
    "PLAIN": wrong_plain,
    "SCRAM-SHA-512": wrong_scram,
    "OAUTHBEARER": wrong_token,
}


@pytest.mark.parametrize("mechanism", WRONG)
def test_a_thousand_wrong_logins_cost_nobody_a_second(secured: Secured, bystander: Bystander, mechanism: str) -> None:
    async def try_once(number: int, turn: asyncio.Semaphore) -> None:
        async with turn:
            stream = await asyncio.open_connection("127.0.0.1", secured.ports["SASL_PLAINTEXT"])
            assert (await ask(stream, SASL_HANDSHAKE, mechanism=mechanism)).error_code == 0
            assert (await WRONG[mechanism](stream, number)).error_code != 0
            assert await stream[0].read() == b"", "the connection is over"
            stream[1].close()
            await stream[1].wait_closed()

    async def attack() -> None:
        turn = asyncio.Semaphore(AT_ONCE)
        await asyncio.gather(*(try_once(number, turn) for number in range(WRONG_LOGINS)))

    before_s = cpu_s(secured.server.pid)
    asyncio.run(attack())
    computed_s = cpu_s(secured.server.pid) - before_s
    bystander.goes_on()
    print(f"{mechanism}: {computed_s:.2f} s computed, the bystander waited {1000 * bystander.slowest_s:.0f} ms at most")
    assert computed_s < 2, "with what the bystander asks for, and on a slow machine"


def test_a_thousand_handshakes_that_never_end_hurt_nobody(secured: Secured, bystander: Bystander) -> None:
    with contextlib.ExitStack() as stack:
        for number in range(HALF_OPEN):
            protocol = ("SSL", "SASL_SSL", "SASL_PLAINTEXT")[number % 3]
            rough = stack.enter_context(socket.create_connection(("127.0.0.1", secured.ports[protocol]), 30))
            rough.sendall(b"\x16\x03\x01\x02\x00"[: number % 5])
        bystander.goes_on()
        with Bystander(secured.settings("SASL_SSL", **secured.login("PLAIN"))) as newcomer:
            newcomer.goes_on()
    bystander.goes_on()
