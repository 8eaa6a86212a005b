"""Answers over TLS through real sockets and a real loop: whole and in order for a client that reads at any pace, and
little memory for one that does not read."""

import asyncio
import contextlib
import functools
import os
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import uvloop

from fencepost.broker.connection import Connection
from fencepost.broker.connection_limits import ConnectionLimits
from fencepost.broker.encryption import CHUNK_BYTES, Encryption
from fencepost.broker.outbox import TURN_BYTES, Outbox
from fencepost.broker.settings import Settings
from fencepost.clock import ManualClock
from fencepost.log.disk import SystemDisk
from fencepost.log.slices import FileSlice
from fencepost.security import tls
from fencepost.security.authority import Authority
from fencepost.security.stores import Identity

LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]
#: More than sockets hold, and more than one turn.
STORED = os.urandom(1024 * 1024) * (3 * TURN_BYTES // (1024 * 1024) + 1)
#: TLS adds to each record of 16 KB.
ENCRYPTED_CHUNK_BYTES = CHUNK_BYTES + 64 * (CHUNK_BYTES // 16384)
PATIENCE_S = 20


class Answering:
    """The connection inside: answers each byte that comes with `parts`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, parts: Callable[[], list[Any]]) -> None:
        self._loop = loop
        self._parts = parts
        self._buffer = bytearray(65536)
        self.transport: Any = None
        self.outbox: Outbox
        self.drained = 0
        self.broken: list[str] = []
        self.lost = loop.create_future()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.outbox = Outbox(transport, self._loop, self._drained, lambda reason, level: self.broken.append(reason))

    def connection_lost(self, error: Exception | None) -> None:
        self.outbox.close()
        self.lost.set_result(None)

    def get_buffer(self, hint: int) -> memoryview:
        return memoryview(self._buffer)

    def buffer_updated(self, count: int) -> None:
        for _ in range(count):
            self.outbox.add(self._parts())
        self.outbox.flush()

    def _drained(self) -> None:
        self.drained += 1


class Meeting:
    """A broker's end in a loop and, for threads, clients that have shaken hands with it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, parts: Callable[[], list[Any]]) -> None:
        self.loop = loop
        self._parts = parts
        self.clock = ManualClock()
        authority = Authority()
        certified = authority.issue("broker", ["localhost"])
        identity = Identity(certified.key_pem(), certified.certificate_pem())
        self._ours = tls.server_context(None, identity, ("TLSv1.2", "TLSv1.3"), (), "none")
        self._trust = authority.certificate_pem()
        self._clients: list[ssl.SSLSocket] = []
        self.raw: Any = None

    async def meet(self, version: str = "TLSv1.3") -> tuple[Answering, ssl.SSLSocket]:
        theirs = tls.client_context(self._trust, None, (version,), (), check_hostname=True)
        with socket.create_server(("127.0.0.1", 0)) as listening:
            there = socket.create_connection(listening.getsockname())
            here, _ = listening.accept()
        inner = Answering(self.loop, self._parts)
        limits = ConnectionLimits(Settings.parse({}), self.clock)
        encryption = Encryption(cast(Connection, inner), self._ours, (), self.clock, limits)
        self.raw, _ = await self.loop.connect_accepted_socket(lambda: encryption, here)
        there.settimeout(PATIENCE_S)
        wrap = functools.partial(theirs.wrap_socket, there, server_hostname="localhost", suppress_ragged_eofs=False)
        client = await self.loop.run_in_executor(None, wrap)
        self._clients.append(client)
        await until(lambda: inner.transport is not None)
        return inner, client

    async def thread(self, work: Callable[..., Any], *args: Any) -> Any:
        return await self.loop.run_in_executor(None, work, *args)

    def close(self) -> None:
        for client in self._clients:
            client.close()


async def until(condition: Callable[[], object]) -> None:
    for _ in range(PATIENCE_S * 1000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise TimeoutError


def receive(client: ssl.SSLSocket, count: int, pause_s: float = 0.0) -> bytes:
    found = bytearray()
    while len(found) < count and (piece := client.recv(min(65536, count - len(found)))):
        found += piece
        time.sleep(pause_s)
    return bytes(found)


def receive_all(client: ssl.SSLSocket) -> bytes:
    """Until the broker says goodbye; ssl.SSLEOFError if it leaves without."""
    return receive(client, 10**12)


@pytest.fixture(params=LOOPS, ids=["asyncio", "uvloop"])
def loop(request: pytest.FixtureRequest) -> Iterator[asyncio.AbstractEventLoop]:
    made = request.param()
    yield made
    made.run_until_complete(made.shutdown_default_executor())
    made.close()


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Callable[[], list[Any]]]:
    """An answer from a file, with something before and after it."""
    disk = SystemDisk()
    file = disk.open(str(tmp_path / "stored"), create=True)
    file.pwrite(STORED, 0)
    yield lambda: [b"before", FileSlice(file, 0, len(STORED)), b"after"]
    file.close()


@contextlib.contextmanager
def meeting(loop: asyncio.AbstractEventLoop, parts: Callable[[], list[Any]]) -> Iterator[Meeting]:
    made = Meeting(loop, parts)
    try:
        yield made
    finally:
        made.close()


WHOLE = b"before" + STORED + b"after"


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize("pause_s", [0.0, 0.001])
def test_a_large_answer_arrives_whole_at_any_pace(
    loop: asyncio.AbstractEventLoop, stored: Callable[[], list[Any]], version: str, pause_s: float
) -> None:
    async def run(met: Meeting) -> None:
        inner, client = await met.meet(version)
        await met.thread(client.sendall, b"12")
        assert await met.thread(receive, client, 2 * len(WHOLE), pause_s) == WHOLE + WHOLE
        assert not inner.outbox.unsent
        assert inner.drained
        assert not inner.broken

    with meeting(loop, stored) as met:
        loop.run_until_complete(run(met))


def test_an_answer_from_memory_arrives_whole_as_well(loop: asyncio.AbstractEventLoop) -> None:
    async def run(met: Meeting) -> None:
        _, client = await met.meet()
        await met.thread(client.sendall, b"1")
        assert await met.thread(receive, client, len(STORED)) == STORED

    with meeting(loop, lambda: [STORED]) as met:
        loop.run_until_complete(run(met))


def test_a_client_that_does_not_read_costs_one_chunk_and_does_not_hold_up_another(
    loop: asyncio.AbstractEventLoop, stored: Callable[[], list[Any]]
) -> None:
    async def run(met: Meeting) -> None:
        silent, client = await met.meet()
        transport = met.raw
        await met.thread(client.sendall, b"1")
        await until(transport.get_write_buffer_size)
        for _ in range(3):
            _, reading = await met.meet()
            await met.thread(reading.sendall, b"1")
            assert await met.thread(receive, reading, len(WHOLE)) == WHOLE
        assert silent.outbox.unsent
        assert 0 < transport.get_write_buffer_size() <= ENCRYPTED_CHUNK_BYTES
        assert await met.thread(receive, client, len(WHOLE)) == WHOLE

    with meeting(loop, stored) as met:
        loop.run_until_complete(run(met))


def test_what_was_taken_before_a_close_still_arrives_and_then_a_goodbye(
    loop: asyncio.AbstractEventLoop, stored: Callable[[], list[Any]]
) -> None:
    async def run(met: Meeting) -> None:
        inner, client = await met.meet()
        await met.thread(client.sendall, b"1")
        await until(met.raw.get_write_buffer_size)
        inner.transport.close()
        arrived = await met.thread(receive_all, client)
        assert len(arrived) >= CHUNK_BYTES
        assert WHOLE.startswith(arrived)
        await asyncio.wait_for(inner.lost, PATIENCE_S)

    with meeting(loop, stored) as met:
        loop.run_until_complete(run(met))


def test_a_client_that_takes_nothing_after_a_close_is_let_go(
    loop: asyncio.AbstractEventLoop, stored: Callable[[], list[Any]]
) -> None:
    async def run(met: Meeting) -> None:
        inner, client = await met.meet()
        await met.thread(client.sendall, b"1")
        await until(met.raw.get_write_buffer_size)
        inner.transport.close()
        await asyncio.sleep(0.05)
        assert not inner.lost.done()
        met.clock.advance(60_000)
        await asyncio.wait_for(inner.lost, PATIENCE_S)

    with meeting(loop, stored) as met:
        loop.run_until_complete(run(met))


@pytest.mark.parametrize("is_reading", [True, False])
def test_a_client_that_leaves_in_the_middle_costs_its_connection_only(
    loop: asyncio.AbstractEventLoop, stored: Callable[[], list[Any]], is_reading: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def run(met: Meeting) -> None:
        inner, client = await met.meet()
        await met.thread(client.sendall, b"1")
        if is_reading:
            await met.thread(receive, client, CHUNK_BYTES)
        else:
            await asyncio.sleep(0.05)
        client.close()
        await asyncio.wait_for(inner.lost, PATIENCE_S)
        _, other = await met.meet()
        await met.thread(other.sendall, b"1")
        assert await met.thread(receive, other, len(WHOLE)) == WHOLE

    with meeting(loop, stored) as met:
        loop.run_until_complete(run(met))
    assert not caplog.records


def test_a_client_that_closes_its_half_only_is_let_go(
    loop: asyncio.AbstractEventLoop, stored: Callable[[], list[Any]]
) -> None:
    async def run(met: Meeting) -> None:
        inner, client = await met.meet()
        client.shutdown(socket.SHUT_WR)
        await asyncio.wait_for(inner.lost, PATIENCE_S)

    with meeting(loop, stored) as met:
        loop.run_until_complete(run(met))
