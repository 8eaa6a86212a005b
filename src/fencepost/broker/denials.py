"""The log of denials, `fencepost.authorizer`: one line each, at most `LINES_MAX` in `WINDOW_MS`.

The rest is counted, and the count logged when the window ends. So a client that asks a million times for what it may
not have costs neither a disk nor memory, and an administrator still sees that it does. Names come from clients: they
are cut and escaped, so that nobody can write lines of their own.
"""

import logging
from typing import TYPE_CHECKING

from fencepost.broker.acl import Operation, Resource
from fencepost.clock import Clock, Handle

if TYPE_CHECKING:
    from fencepost.broker.dispatch import Call

log = logging.getLogger("fencepost.authorizer")

WINDOW_MS = 10_000
LINES_MAX = 100
NAME_CHARACTERS = 249  #: as long as a topic's name can be


class Denials:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lines = 0
        self._left_out = 0
        self._window: Handle | None = None
        self._last: object = None

    def note(self, call: "Call", operation: Operation, resource: Resource, name: str) -> None:
        """One line for a request that asks for many partitions of the same topic."""
        this = (call.session, call.correlation_id, operation, resource, name)
        if this == self._last:
            return
        self._last = this
        if self._window is None:
            self._window = self._clock.call_later(WINDOW_MS, self._end_window)
        if self._lines >= LINES_MAX:
            self._left_out += 1
            return
        self._lines += 1
        log.info(
            "denied principal=%s host=%s operation=%s resource=%s:%s request=%s",
            _shown(str(call.session.who)), call.session.address, operation.name, resource.name, _shown(name),
            call.broker.handlers[call.api_key].api.name.title().replace("_", ""),
        )  # fmt: skip

    def close(self) -> None:
        """Log what is still to be said."""
        if self._window is not None:
            self._window.cancel()
            self._end_window()

    def _end_window(self) -> None:
        if self._left_out:
            log.info("%d more denials in the last %d s were left out", self._left_out, WINDOW_MS // 1000)
        self._lines = self._left_out = 0
        self._window = None


def _shown(name: str) -> str:
    cut = name if len(name) <= NAME_CHARACTERS else name[:NAME_CHARACTERS] + "..."
    return cut if cut.isprintable() else cut.encode("unicode_escape").decode()
