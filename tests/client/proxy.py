"""Between a client and a broker: passes everything on, until a request comes that it has been told to lose.

`lose_answer` lets the broker carry a request out and keeps the answer; `lose_request` keeps the request. Either way the
client's connection is cut, as by a network that fails at the worst moment.
"""

import contextlib
import enum
import socket
import struct
import threading
from typing import Self

from fencepost.client import Cluster
from fencepost.client.connection import Connection
from fencepost.client.settings import Address


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
            proxy.close()

    def lose(self, api_key: int, what: Loses) -> None:
        """Every request of this kind, until `heal`."""
        self.loses[api_key] = what

    def heal(self) -> None:
        self.loses.clear()

    def way_to(self, broker: Address) -> Address:
        if broker not in self._proxies:
            self._proxies[broker] = Proxy(self, broker)
        return self._proxies[broker].address


class Proxy:
    def __init__(self, network: Network, target: Address) -> None:
        self._network = network
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address(*self._listener.getsockname())
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError, struct.error), client, socket.create_connection(self._target) as broker:
            while True:
                request = _frame(client)
                loses = self._network.loses.get(struct.unpack_from(">h", request, 4)[0])
                if loses is Loses.REQUEST:
                    self._network.lost += 1
                    return
                broker.sendall(request)
                answer = _frame(broker)
                if loses is Loses.ANSWER:
                    self._network.lost += 1
                    return
                client.sendall(answer)


def _frame(stream: socket.socket) -> bytes:
    head = _exactly(stream, 4)
    return head + _exactly(stream, struct.unpack(">i", head)[0])


def _exactly(stream: socket.socket, count: int) -> bytes:
    out = b""
    while len(out) < count:
        got = stream.recv(count - len(out))
        if not got:
            raise ConnectionResetError
        out += got
    return out


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
