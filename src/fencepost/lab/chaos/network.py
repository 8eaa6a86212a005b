"""A proxy between clients and brokers. It cuts, delays, holds back and loses frames, but never changes a record.

It has one listener for each broker, and puts its own addresses into the answers that name brokers (Metadata,
FindCoordinator, DescribeCluster). So brokers need no setting, and any cluster will do: TLS ends at the proxy, and
begins again behind it (`passage`). The client id in its requests tells whose a connection is.

Invariants: frames of one direction keep their order. What a client has sent is delivered even if it has hung up: a real
network may hold a request back until its sender has been replaced, and that is the case worth testing.
"""

import asyncio
import contextlib
import random
import struct
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from fencepost.errors import FencepostError, Malformed
from fencepost.lab.chaos.passage import Passage
from fencepost.lab.kit.servers import HOST
from fencepost.security.settings import ClientSecurity
from fencepost.wire import frame, messages
from fencepost.wire.terms import Address

T = TypeVar("T")
#: Changes a request on its way, for tests that show that a broken network is found.
Tamper = Callable[[frame.RequestHeader, bytes], bytes]

METADATA, FIND_COORDINATOR, DESCRIBE_CLUSTER = 3, 10, 60
NAMES_BROKERS = frozenset({METADATA, FIND_COORDINATOR, DESCRIBE_CLUSTER})
FRAMES_WAITING_MAX = 1000


@dataclass(frozen=True, slots=True)
class Weather:
    """What the network does to connections."""

    delay_ms: float = 0.0  #: each frame waits up to this long
    holds: bool = False  #: nothing passes
    loses_answers: bool = False
    unreachable: frozenset[str] = frozenset()  #: clients that are cut off


FAIR = Weather()
IN_THE_CLEAR = Passage(ClientSecurity())


class Network:
    """All ways from clients to brokers. Runs in its own thread. Every method may be called from any thread."""

    def __init__(self, seed: str = "", tamper: Tamper | None = None, passage: Passage = IN_THE_CLEAR) -> None:
        self.passage = passage
        self._rng = random.Random(seed)
        self.tamper = tamper
        self.weather = FAIR
        self._passes = asyncio.Event()
        self._passes.set()
        self._connections: set[_Connection] = set()
        self._ways: dict[Address, Address] = {}
        self._servers: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="chaos-network", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def way_to(self, broker: Address) -> Address:
        """The address at which clients reach that broker."""
        return self._call(self.open_way(broker))

    def change(self, weather: Weather) -> None:
        self._call(self._change(weather))

    def cut(self, clients: frozenset[str] | None = None) -> None:
        """Break connections: of these clients, or all. They may connect again."""
        self._call(self._cut(clients))

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    # -- in the loop -------------------------------------------------------------------------------------------------

    async def open_way(self, broker: Address) -> Address:
        if broker not in self._ways:

            async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                connection = _Connection(self, broker, reader, writer)
                self._connections.add(connection)
                try:
                    await connection.run()
                finally:
                    self._connections.discard(connection)

            server = await asyncio.start_server(connected, HOST, 0, ssl=self.passage.accepts)
            self._servers.append(server)
            self._ways[broker] = Address(HOST, server.sockets[0].getsockname()[1])
        return self._ways[broker]

    async def pass_on(self) -> None:
        """Returns when a frame may go on."""
        await self._passes.wait()
        if self.weather.delay_ms:
            await asyncio.sleep(self._rng.uniform(0, self.weather.delay_ms) / 1000)
            await self._passes.wait()

    async def _change(self, weather: Weather) -> None:
        had_lost = self.weather.loses_answers and not weather.loses_answers
        self.weather = weather
        if weather.holds:
            self._passes.clear()
        else:
            self._passes.set()
        if weather.unreachable:
            await self._cut(weather.unreachable)
        if had_lost:
            await self._cut(None)  # a client that misses an answer needs a broken connection to notice

    async def _cut(self, clients: frozenset[str] | None) -> None:
        for connection in list(self._connections):
            if clients is None or connection.client_id in clients:
                connection.cut()

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        self._passes.set()
        await self._cut(None)
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Connection:
    """One client's connection to one broker."""

    def __init__(
        self, network: Network, broker: Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.client_id = ""
        self._network = network
        self._broker = broker
        self._client_reader, self._client_writer = reader, writer
        self._broker_writer: asyncio.StreamWriter | None = None
        self._asked: dict[int, tuple[int, int]] = {}  #: correlation id → API key and version; answers that name brokers

    async def run(self) -> None:
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, Malformed):
                broker_reader, self._broker_writer = await self._connect()
                requests: asyncio.Queue[bytes | None] = asyncio.Queue(FRAMES_WAITING_MAX)
                answering = asyncio.create_task(self._answer(broker_reader))
                delivering = asyncio.create_task(self._deliver(requests, self._broker_writer))
                try:
                    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                        while True:
                            await requests.put(await _read_frame(self._client_reader))
                finally:
                    await requests.put(None)
                    await delivering  # also what is late
                    answering.cancel()
        finally:
            self.cut()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        context = self._network.passage.connects
        host = self._broker.host if context is not None else None
        return await asyncio.open_connection(*self._broker, ssl=context, server_hostname=host)

    def cut(self) -> None:
        for writer in (self._client_writer, self._broker_writer):
            if writer is not None:
                writer.transport.abort()

    async def _deliver(self, requests: "asyncio.Queue[bytes | None]", broker: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, Malformed):
            while (request := await requests.get()) is not None:
                header = frame.read_request_header(request)
                self.client_id = header.client_id or ""
                if self.client_id in self._network.weather.unreachable:
                    return self.cut()
                if header.api_key in NAMES_BROKERS:
                    self._asked[header.correlation_id] = header.api_key, header.version
                await self._network.pass_on()
                if self._network.tamper is not None:
                    request = self._network.tamper(header, request)
                broker.write(frame.SIZE.pack(len(request)) + request)
                await broker.drain()
        # From here on nobody reads the queue, and a full one would block the reading side for ever.
        while not requests.empty():
            requests.get_nowait()
        return None

    async def _answer(self, reader: asyncio.StreamReader) -> None:
        client = self._client_writer
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                while True:
                    answer = await _read_frame(reader)
                    asked = self._asked.pop(struct.unpack_from(">i", answer)[0], None)
                    if asked is not None:
                        answer = await self._rewrite(answer, *asked)
                    await self._network.pass_on()
                    if self._network.weather.loses_answers:
                        continue
                    client.write(frame.SIZE.pack(len(answer)) + answer)
                    await client.drain()
        finally:
            client.transport.abort()  # the broker hung up, so the client must notice

    async def _rewrite(self, answer: bytes, api_key: int, version: int) -> bytes:
        """The same answer with our addresses instead of the brokers'."""
        try:
            api = messages.api(api_key)
            flexible = version in api.response.flexible
            (correlation_id,) = struct.unpack_from(">i", answer)
            body = frame.skip_tags(answer, 4) if flexible else 4
            said = api.response.decode(version, answer, body)
            for entry in _brokers(said, api_key, version):
                if entry.host and entry.port > 0:
                    entry.host, entry.port = await self._network.open_way(Address(entry.host, entry.port))
            return bytes(frame.encode_response(api, version, correlation_id, vars(said)))[4:]
        except FencepostError:
            return answer  # an unknown version: the client may reach brokers directly


def _brokers(said: messages.Message, api_key: int, version: int) -> list[Any]:
    if api_key != FIND_COORDINATOR:
        return list(said.brokers)
    return list(said.coordinators) if version >= 4 else [said]


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = frame.SIZE.unpack(await reader.readexactly(frame.SIZE.size))
    return await reader.readexactly(size)
