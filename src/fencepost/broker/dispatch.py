"""Which function answers which request. A handler declares its key and versions beside its code; ApiVersions is
derived.

A handler is given a `Call` and returns the response as a dict, or an awaitable of one when it has to wait; while it
waits, later requests of the same connection wait too, which keeps the order that Kafka promises. A raw handler
(Produce, Fetch) gets the bytes and returns the encoded parts itself.
"""

import functools
import importlib
import pkgutil
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fencepost.errors import InvariantBroken
from fencepost.wire import messages
from fencepost.wire.fetch import Sized

if TYPE_CHECKING:
    from fencepost.broker.node import Node

Response = Mapping[str, Any]
Parts = list[Sized]


class Reply:
    """An encoded answer that may be sent once `ready`: its work is done, only its durability is awaited.

    Requests behind it on the same connection go on meanwhile, so that many share one sync of the disk.
    """

    __slots__ = ("on_ready", "parts", "ready")

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.ready = False
        self.on_ready: Callable[[], None] | None = None

    def release(self) -> None:
        self.ready = True
        if self.on_ready is not None:
            self.on_ready()


class Call:
    """One request on its way through its handler."""

    __slots__ = ("broker", "client_host", "client_id", "correlation_id", "request", "version")

    def __init__(
        self,
        broker: "Node",
        version: int,
        correlation_id: int,
        client_id: str | None,
        client_host: str,
        request: Any = None,
    ) -> None:
        self.broker = broker
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.client_host = client_host
        self.request = request


Answer = Response | Awaitable[Response]
RawAnswer = Parts | Reply | Awaitable["Parts | Reply | None"] | None  #: None: no answer at all


@dataclass
class Handler:
    key: int
    first: int
    last: int
    function: Callable[[Call], Answer] | None
    raw: Callable[[Call, memoryview, int], RawAnswer] | None

    @functools.cached_property
    def api(self) -> messages.Api:
        """Its tables are read with the first request: most runs of a broker need few of them."""
        api = messages.api(self.key)
        if self.first not in api.request.versions or self.last not in api.request.versions:
            raise InvariantBroken(f"the handler of {api.name} serves versions that have no table")
        return api

    @functools.cached_property
    def first_flexible(self) -> int:
        """From this version on there are tagged fields after the request's header."""
        flexible = self.api.request.flexible
        return flexible.first if flexible.first <= flexible.last else self.last + 1


_REGISTRY: dict[int, Handler] = {}


def handler(key: int, versions: tuple[int, int]) -> Callable[[Callable[[Call], Any]], Callable[[Call], Any]]:
    """Register a function that takes a decoded request and returns the response's fields."""

    def register(function: Callable[[Call], Any]) -> Callable[[Call], Any]:
        _add(Handler(key, *versions, function, None))
        return function

    return register


def raw_handler(key: int, versions: tuple[int, int]) -> Callable[[Callable[..., RawAnswer]], Callable[..., RawAnswer]]:
    """Register a function that takes the request's bytes and returns encoded parts."""

    def register(function: Callable[..., RawAnswer]) -> Callable[..., RawAnswer]:
        _add(Handler(key, *versions, None, function))
        return function

    return register


def handlers() -> dict[int, Handler]:
    """Every handler by API key; importing them registers them."""
    from fencepost.broker import handlers as package

    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return dict(sorted(_REGISTRY.items()))


def announced(registry: Mapping[int, Handler]) -> Iterator[dict[str, int]]:
    """What ApiVersions says, straight from the handlers."""
    for entry in registry.values():
        # Old librdkafka takes a broker whose Produce does not begin at 0 for one without message format 2.
        first = 0 if entry.key == 0 else entry.first
        yield {"api_key": entry.key, "min_version": first, "max_version": entry.last}


def _add(entry: Handler) -> None:
    if entry.key in _REGISTRY:
        raise InvariantBroken(f"API {entry.key} has two handlers")
    _REGISTRY[entry.key] = entry
