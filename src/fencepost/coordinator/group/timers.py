"""The deadlines of groups, by name: setting one that runs already sets it anew."""

import enum
from collections.abc import Callable

from fencepost.clock import Clock, Handle


class Deadline(enum.Enum):
    SESSION = "a member has been heard of"
    JOIN = "the members of a group have joined again"
    SYNC = "the members of a generation have asked for their assignment"


class Timers:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._running: dict[tuple[Deadline, str, str], Handle] = {}

    def start(
        self, what: Deadline, group_id: str, delay_ms: int, callback: Callable[[], None], member_id: str = ""
    ) -> None:
        key = (what, group_id, member_id)
        self.cancel(what, group_id, member_id)

        def fire() -> None:
            del self._running[key]
            callback()

        self._running[key] = self._clock.call_later(delay_ms, fire)

    def cancel(self, what: Deadline, group_id: str, member_id: str = "") -> None:
        handle = self._running.pop((what, group_id, member_id), None)
        if handle is not None:
            handle.cancel()

    def cancel_all(self, group_id: str | None = None) -> None:
        """Those of one group, or of all."""
        for key in [key for key in self._running if group_id is None or key[1] == group_id]:
            self._running.pop(key).cancel()

    def __len__(self) -> int:
        return len(self._running)
