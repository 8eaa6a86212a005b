"""A cluster whose connections break at the worst moment: at a request that a test wants to be lost.

Either the request does not reach the broker, or the broker carries it out and its answer is lost.
"""

import enum
from typing import Any

from fencepost.client import Cluster
from fencepost.client.connection import Connection, Pending
from fencepost.errors import ConnectionLost
from fencepost.wire.codec import Message
from fencepost.wire.terms import Address


class Loses(enum.Enum):
    REQUEST = enum.auto()
    ANSWER = enum.auto()


class LossyCluster(Cluster):
    def __init__(self, bootstrap: str) -> None:
        super().__init__({"bootstrap.servers": bootstrap, "retry.backoff.ms": 1})
        self.loses: dict[int, Loses] = {}  #: every request with this API key
        self.lost = 0

    def _open(self, address: Address) -> Connection:
        return _LossyConnection(self, address)


class _LossyConnection(Connection):
    def __init__(self, cluster: LossyCluster, address: Address) -> None:
        self._cluster = cluster
        super().__init__(address, cluster.settings)

    def request(self, api_key: int, *rest: Any) -> Pending:
        self._lose(api_key, Loses.REQUEST)
        return super().request(api_key, *rest)

    def receive(self, pending: Pending, **more: Any) -> Message:
        answer = super().receive(pending, **more)
        self._lose(pending.api_key, Loses.ANSWER)
        return answer

    def _lose(self, api_key: int, what: Loses) -> None:
        if self._cluster.loses.get(api_key) is what:
            self._cluster.lost += 1
            self.close()
            raise ConnectionLost(f"{self.address} is out of reach")
