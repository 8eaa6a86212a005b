"""Logs brokers that cannot be reached: which, since when, what is waiting for them, and when they are back.

A process has one `Outages` per cluster, for all its `Cluster`s and threads, so an outage is logged once. `Cluster`
reports every attempt to connect, and `Retry` every wait. Both are needed: a broker that is down while nothing waits for
it is not worth a warning.
"""

import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from threading import Lock

from fencepost.client.settings import ClientSettings
from fencepost.errors import ConnectionLost
from fencepost.wire.terms import Address

logger = logging.getLogger(__name__)

WARN_AFTER_S = 5.0
WARN_AGAIN_AFTER_S = 30.0
#: An address that was not tried for this long may have been back meanwhile. Its next failure begins another outage.
FORGET_AFTER_S = 60.0


@dataclass(slots=True)
class _Failing:
    since_s: float
    last_s: float
    reason: str
    is_told: bool = False  #: in a warning, so its return is news too


class Outages:
    """Of one cluster. For many threads."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = Lock()
        self._failing: dict[Address, _Failing] = {}
        self._told_s: float | None = None  #: when the last warning of this outage was given

    @contextlib.contextmanager
    def connecting(self, address: Address) -> Iterator[None]:
        """Around an attempt to connect."""
        began_s = self._monotonic()
        try:
            yield
        except ConnectionLost as error:
            self._failed(address, began_s, str(error).removeprefix(f"{address}: "))
            raise
        self._reached(address)

    def waiting(self, what: str, left_s: float, since_s: float) -> None:
        """Called before `what` is retried, for at most `left_s` more. The last attempt began at `since_s`."""
        with self._lock:
            now_s = self._monotonic()
            missed = {address: each for address, each in self._failing.items() if each.last_s >= since_s}
            lasts_s = max((now_s - each.since_s for each in missed.values()), default=0.0)
            if not missed or lasts_s < WARN_AFTER_S:
                return
            if self._told_s is not None and now_s - self._told_s < WARN_AGAIN_AFTER_S:
                return
            self._told_s = now_s
            for each in missed.values():
                each.is_told = True
            who = ", ".join(f"{address} ({each.reason})" for address, each in missed.items())
        logger.warning(
            "no connection to broker %s for %.0f s; retrying for another %.0f s: %s", who, lasts_s, left_s, what
        )

    def _failed(self, address: Address, began_s: float, reason: str) -> None:
        with self._lock:
            now_s = self._monotonic()
            old = [known for known, each in self._failing.items() if began_s - each.last_s > FORGET_AFTER_S]
            for known in old:
                del self._failing[known]
            if not self._failing:
                self._told_s = None
            each = self._failing.setdefault(address, _Failing(began_s, now_s, reason))
            each.last_s, each.reason = now_s, reason

    def _reached(self, address: Address) -> None:
        with self._lock:
            back = self._failing.pop(address, None)
            now_s = self._monotonic()
            if back is None or not back.is_told or now_s - back.last_s > FORGET_AFTER_S:
                return
            # Brokers that still fail count as the next outage.
            self._told_s = None
            for each in self._failing.values():
                each.is_told = False
        # A warning like the one that it ends: readers of the first want to see this one.
        logger.warning("broker %s is reachable again after %.0f s", address, now_s - back.since_s)


_of_clusters: dict[tuple[Address, ...], Outages] = {}
os.register_at_fork(after_in_child=_of_clusters.clear)  # another process sees for itself, with locks of its own


def outages_of(settings: ClientSettings) -> Outages:
    """Call this each time, because a forked process starts without it."""
    return _of_clusters.setdefault(settings.bootstrap, Outages())
