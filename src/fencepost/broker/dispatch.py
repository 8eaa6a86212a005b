"""Which function answers which request. A handler declares its key and versions beside its code; ApiVersions is
derived.

A handler is given a `Call` and returns the response as a dict, or a `Waiting` if the answer comes later. An `async`
function is a handler that always waits. A raw handler (Produce, Fetch) gets the bytes and returns the encoded parts
itself.
"""

import asyncio
import enum
import functools
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fencepost.broker.acl import ANYTHING, CLUSTER_NAME, SUPPORTED, Operation, Resource, refusal
from fencepost.broker.error_places import ErrorPlaces
from fencepost.errors import InvariantBroken
from fencepost.wire import messages

if TYPE_CHECKING:
    from fencepost.broker.node import Node
    from fencepost.broker.session import Session

Response = Mapping[str, Any]
Parts = list[Sized]


class OnDisconnect(enum.Enum):
    """What happens to a waiting request when its client goes away."""

    FINISH = enum.auto()  #: it goes on: a commit, for instance, must not stop half-way
    CANCEL = enum.auto()  #: it ends: it only waits for others, and no client is left to answer


class Waiting:
    """An answer that comes later, through `release` or `fail`.

    `abandon` is called if the client goes away first; without it the work goes on. Later requests of the connection
    wait too, which keeps the order that Kafka promises. If the work is done and only the disk is awaited,
    `holds_back` is False: later requests are served, so that many share one sync, and their answers queue behind.
    """

    __slots__ = ("_answer", "_error", "_when_done", "abandon", "done", "ends", "holds_back")

    def __init__(
        self, abandon: Callable[[], object] | None = None, *, holds_back: bool = True, ends: bool = False
    ) -> None:
        """`ends` says that this is the last answer: the connection is closed after it."""
        self.abandon = abandon
        self.holds_back = holds_back
        self.ends = ends
        self.done = False
        self._answer: Any = None
        self._error: BaseException | None = None
        self._when_done: Callable[[], None] | None = None

    @classmethod
    def on(cls, work: Coroutine[Any, Any, Any], on_disconnect: OnDisconnect = OnDisconnect.FINISH) -> "Waiting":
        """Wait for what `work` returns."""
        task = asyncio.ensure_future(work)
        waiting = cls(task.cancel if on_disconnect is OnDisconnect.CANCEL else None)
        task.add_done_callback(waiting._take)
        return waiting

    def release(self, answer: Any) -> None:
        """`answer` is what the handler would have returned at once."""
        self._answer = answer
        self._finish()

    def fail(self, error: BaseException) -> None:
        self._error = error
        self._finish()

    def when_done(self, callback: Callable[[], None]) -> None:
        self._when_done = callback
        if self.done:
            callback()

    def result(self) -> Any:
        """The answer, or the error raised."""
        if self._error is not None:
            raise self._error
        return self._answer

    def _take(self, task: "asyncio.Task[Any]") -> None:
        if task.cancelled():
            self.fail(asyncio.CancelledError())
        elif (error := task.exception()) is not None:
            self.fail(error)
        else:
            self.release(task.result())

    def _finish(self) -> None:
        self.done = True
        if self._when_done is not None:
            self._when_done()


class Call:
    """One request on its way through its handler, which asks here what the client may do."""

    __slots__ = ("api_key", "began_ns", "broker", "client_id", "correlation_id", "request", "session", "version")

    def __init__(
        self,
        broker: "Node",
        api_key: int,
        version: int,
        correlation_id: int,
        client_id: str | None,
        session: "Session",
        request: Any = None,
        began_ns: int = 0,
    ) -> None:
        self.broker = broker
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.session = session
        self.request = request
        self.began_ns = began_ns

    def note_errors(self, codes: Iterable[int]) -> None:
        """For metrics. A raw handler tells the codes other than 0 in its answer; those of others are found in it."""
        self.broker.counts.apis[self.api_key].errors.update(map(int, codes))

    def may(self, operation: Operation, resource: Resource, name: str = CLUSTER_NAME, *, quietly: bool = False) -> bool:
        """Whether the client may do this. A denial is logged, unless the client did not ask for this (`quietly`)."""
        authorizer = self.broker.authorizer
        if authorizer is None or authorizer.allows(self.session.who, self.session.address, operation, resource, name):
            return True
        if not quietly:
            self.broker.denials.note(self, operation, resource, name)
        return False

    def may_some(self, operation: Operation, resource: Resource) -> bool:
        """Whether there is any resource of this kind that the client may do this to."""
        authorizer, session = self.broker.authorizer, self.session
        if authorizer is None or authorizer.allows_some(session.who, session.address, operation, resource):
            return True
        self.broker.denials.note(self, operation, resource, ANYTHING)
        return False

    def require(self, operation: Operation, resource: Resource, name: str = CLUSTER_NAME) -> None:
        """KafkaError, with the code for this kind of resource, unless the client may do this."""
        if not self.may(operation, resource, name):
            raise refusal(resource)

    def operations(self, resource: Resource, name: str = CLUSTER_NAME) -> int:
        """All that the client may do to a resource, each operation a bit."""
        return sum(1 << each for each in SUPPORTED[resource] if self.may(each, resource, name, quietly=True))


Answer = Response | Waiting
RawAnswer = Parts | Waiting | None  #: None: no answer at all


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
    def error_places(self) -> ErrorPlaces:
        return ErrorPlaces(self.api.response.fields)

    @functools.cached_property
    def first_flexible(self) -> int:
        """From this version on there are tagged fields after the request's header."""
        flexible = self.api.request.flexible
        return flexible.first if flexible.first <= flexible.last else self.last + 1


_REGISTRY: dict[int, Handler] = {}


def handler(
    key: int, versions: tuple[int, int], on_disconnect: OnDisconnect = OnDisconnect.FINISH
) -> Callable[[Callable[[Call], Any]], Callable[[Call], Any]]:
    """Register a function that takes a decoded request and returns the response's fields.

    `on_disconnect` says what happens to an `async` one when its client goes away.
    """

    def register(function: Callable[[Call], Any]) -> Callable[[Call], Any]:
        waits = inspect.iscoroutinefunction(function)
        answer = (lambda call: Waiting.on(function(call), on_disconnect)) if waits else function
        _add(Handler(key, *versions, answer, None))
        return function

    return register


def raw_handler(key: int, versions: tuple[int, int]) -> Callable[[Callable[..., RawAnswer]], Callable[..., RawAnswer]]:
    """Register a function that takes the request's bytes and returns encoded parts."""

    def register(function: Callable[..., RawAnswer]) -> Callable[..., RawAnswer]:
        _add(Handler(key, *versions, None, function))
        return function

    return register


@functools.cache
def handlers() -> Mapping[int, Handler]:
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
