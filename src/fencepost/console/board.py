"""What the page shows now, by channel; writers are threads, readers are event streams.

A channel is rows by key, and a head for what is not a row (rates, percentiles). A reader has a version and gets what
changed since, or everything if that is too long ago. So a slow reader costs nothing, and a fast one gets little.

Invariant: memory is bounded. A channel keeps its rows and the changes of its last `KEPT` versions, however many readers
there are and however long it runs.
"""

import asyncio
import enum
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

Row = Mapping[str, Any]  #: as it goes to the page
KEPT = 32
ASKED_S = 10.0
HEALTH = "health"  #: the channel that tells how the others fare


class Condition(enum.StrEnum):
    LOADING = "loading"
    GOOD = "good"
    FAILING = "failing"  #: what is shown is from before


@dataclass(frozen=True, slots=True)
class Change:
    version: int
    rows: Mapping[str, Row]
    gone: frozenset[str]


@dataclass(frozen=True, slots=True)
class Update:
    """For one reader. If `is_whole`, rows that are not in it are gone."""

    channel: str
    version: int
    is_whole: bool
    rows: Mapping[str, Row]
    gone: frozenset[str]
    head: Row

    def as_dict(self) -> dict[str, Any]:
        return {
            "channel": self.channel,
            "version": self.version,
            "whole": self.is_whole,
            "rows": self.rows,
            "gone": sorted(self.gone),
            "head": self.head,
        }


@dataclass(slots=True)
class _Channel:
    version: int = 0
    rows: dict[str, Row] = field(default_factory=dict)
    head: Row = field(default_factory=dict)
    changes: deque[Change] = field(default_factory=lambda: deque(maxlen=KEPT))


class Watcher:
    """One reader: woken when any channel changes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._changed = asyncio.Event()

    def wake(self) -> None:
        """From any thread."""
        try:
            self._loop.call_soon_threadsafe(self._changed.set)
        except RuntimeError:  # its loop has ended, and so will it
            pass

    async def wait(self, timeout_s: float) -> None:
        try:
            await asyncio.wait_for(self._changed.wait(), timeout_s)
        except TimeoutError:
            return
        self._changed.clear()


class Board:
    """For many threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._channels: dict[str, _Channel] = {}
        self._watchers: set[Watcher] = set()
        self._asked_s = float("-inf")
        self.is_closed = False

    def close(self) -> None:
        """Readers end. For a signal handler: it takes no lock."""
        self.is_closed = True
        for watcher in tuple(self._watchers):
            watcher.wake()

    @property
    def is_watched(self) -> bool:
        """Whether somebody looks: a reader, or somebody who asked for details a moment ago."""
        return bool(self._watchers) or time.monotonic() - self._asked_s < ASKED_S

    def was_asked(self) -> None:
        self._asked_s = time.monotonic()

    def publish(self, channel: str, rows: Mapping[str, Row], head: Row) -> None:
        """Replace what the channel shows. Nobody is woken if it is the same."""
        with self._lock:
            known = self._channels.setdefault(channel, _Channel())
            changed = {key: row for key, row in rows.items() if known.rows.get(key) != row}
            gone = frozenset(known.rows.keys() - rows.keys())
            if known.version and not changed and not gone and known.head == head:
                return
            known.version += 1
            known.rows = dict(rows)
            known.head = dict(head)
            known.changes.append(Change(known.version, changed, gone))
            watchers = list(self._watchers)
        for watcher in watchers:
            watcher.wake()

    def report(self, channel: str, condition: Condition, problem: str = "", took_ms: int | None = None) -> None:
        """How sampling of a channel went."""
        with self._lock:
            health = self._channels.setdefault(HEALTH, _Channel())
            rows = dict(health.rows)
        before = rows.get(channel, {})
        is_good = condition is Condition.GOOD
        rows[channel] = {
            "condition": condition,
            "problem": problem,
            "good_ms": now_ms() if is_good else before.get("good_ms"),
            "took_ms": took_ms if took_ms is not None else before.get("took_ms"),
        }
        self.publish(HEALTH, rows, {})

    def since(self, channel: str, version: int) -> Update | None:
        """What a reader that has this version lacks; None if nothing."""
        with self._lock:
            known = self._channels.get(channel)
            if known is None or known.version == version:
                return None
            missed = [each for each in known.changes if each.version > version]
            if version == 0 or len(missed) != known.version - version:
                return Update(channel, known.version, True, known.rows, frozenset(), known.head)
            touched = {key for each in missed for key in (*each.rows, *each.gone)}
            rows = {key: known.rows[key] for key in touched if key in known.rows}
            gone = frozenset(touched - known.rows.keys())
            return Update(channel, known.version, False, rows, gone, known.head)

    def rows(self, channel: str) -> Mapping[str, Row]:
        with self._lock:
            known = self._channels.get(channel)
            return {} if known is None else known.rows

    def head(self, channel: str) -> Row:
        with self._lock:
            known = self._channels.get(channel)
            return {} if known is None else known.head

    def watch(self, watcher: Watcher) -> None:
        with self._lock:
            self._watchers.add(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        with self._lock:
            self._watchers.discard(watcher)


def now_ms() -> int:
    return time.time_ns() // 1_000_000
