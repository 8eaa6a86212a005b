"""Asking a handler without a connection: a request goes in as bytes and its answer comes out as bytes."""

import asyncio
from typing import Any

from fencepost.broker.dispatch import Call, Waiting, handlers
from fencepost.broker.listeners import Listener
from fencepost.broker.session import Session
from fencepost.security.names import Protocol
from fencepost.wire.terms import Address

LISTENER = Listener("PLAINTEXT", Protocol.PLAINTEXT, Address("127.0.0.1", 9092))


def send(broker: Any, key: int, version: int, fields: dict[str, Any]) -> Any:
    """What the handler returns."""
    entry = handlers()[key]
    assert entry.first <= version <= entry.last and entry.function is not None
    request = entry.api.request.decode(version, bytes(entry.api.request.encode(version, fields)))
    return entry.function(Call(broker, key, version, 1, "client", Session("/127.0.0.1", LISTENER, None), request))


def received(key: int, version: int, answer: Any) -> Any:
    """The response as a client reads it."""
    response = handlers()[key].api.response
    return response.decode(version, bytes(response.encode(version, answer)))


async def ask(broker: Any, key: int, version: int, fields: dict[str, Any]) -> Any:
    answer = send(broker, key, version, fields)
    if isinstance(answer, Waiting):
        done = asyncio.Event()
        answer.when_done(done.set)
        await done.wait()
        answer = answer.result()
    return received(key, version, answer)
