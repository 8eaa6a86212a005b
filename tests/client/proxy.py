"""Between a client and a broker: passes everything on, until a request comes that it has been told to lose.

`lose_answer` lets the broker carry a request out and keeps the answer; `lose_request` keeps the request. Either way the
client's connection is cut, as by a network that fails at the worst moment.
"""

import contextlib
import enum
import socket
import struct
from collections.abc import Iterator
from typing import Any, Self

from fencepost.client import Cluster
from fencepost.client.connection import Connection
from fencepost.client.settings import Address
from tests.fakes.frames import HANG_UP, FrameServer, Respond, read_frame


class Loses(enum.Enum):
    REQUEST = enum.auto()
    ANSWER = enum.auto()


class Network:
    """All proxies, one for each broker, and what they lose."""

    def __init__(self) -> None:
        self.loses: dict[int, Loses] = {}
        self.lost = 0
        self._proxies: dict[Address, Proxy] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for proxy in self._proxies.values():
            proxy.__exit__()

    def lose(self, api_key: int, what: Loses) -> None:
        """Every request of this kind, until `heal`."""
        self.loses[api_key] = what

    def heal(self) -> None:
        self.loses.clear()

    def way_to(self, broker: Address) -> Address:
        if broker not in self._proxies:
            self._proxies[broker] = Proxy(self, broker)
        return self._proxies[broker].address


class Proxy(FrameServer):
    def __init__(self, network: Network, target: Address) -> None:
        self._network = network
        self._target = target
        super().__init__()

    @contextlib.contextmanager
    def connected(self) -> Iterator[Respond]:
        with socket.create_connection(self._target) as broker:

            def pass_on(request: bytes) -> Any:
                loses = self._network.loses.get(struct.unpack_from(">h", request)[0])
                self._network.lost += loses is not None
                if loses is Loses.REQUEST:
                    return HANG_UP
                broker.sendall(struct.pack(">i", len(request)) + request)
                answer = read_frame(broker)
                return HANG_UP if loses is Loses.ANSWER else struct.pack(">i", len(answer)) + answer

            yield pass_on


class ProxiedCluster(Cluster):
    """Reaches every broker through its proxy."""

    def __init__(self, network: Network, bootstrap: str) -> None:
        super().__init__({"bootstrap.servers": bootstrap, "retry.backoff.ms": 1})
        self._network = network

    def connect(self, address: Address) -> Connection:
        return super().connect(self._network.way_to(address))

    def borrow(self, address: Address) -> Connection:
        return super().borrow(self._network.way_to(address))

    def _connect_any(self) -> Connection:
        return self.connect(self.settings.bootstrap[0])
