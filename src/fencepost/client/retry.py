"""When to retry, how long to wait before, and when to give up.

Owns the lists of error codes that mean "again". A retry is only right if the request may safely be carried out twice.
Every caller of `Retry` has to know that.
"""

import random
import time
from collections.abc import Callable

from fencepost.client.outages import outages_of
from fencepost.client.settings import ClientSettings
from fencepost.errors import ErrorCode, GaveUp

#: Our metadata is stale.
LEADER_MOVED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.LISTENER_NOT_FOUND,
    }
)
#: Another broker coordinates now, or will soon.
COORDINATOR_MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
#: The same broker will succeed in a moment.
BUSY = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
)
#: Another producer has taken over the transactional id, or the transaction timed out.
FENCED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})

JITTER = 0.2


def known_code(number: int) -> ErrorCode:
    """A newer broker may have codes that we do not know."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


class Retry:
    """The retries of one operation: `wait` sleeps longer each time, and raises GaveUp when the time is over."""

    def __init__(
        self,
        what: str,
        settings: ClientSettings,
        timeout_s: float | None = None,
        *,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.what = what
        self._settings = settings
        self._timeout_s = settings.api_timeout_ms / 1000 if timeout_s is None else timeout_s
        self._pause_s = settings.retry_backoff_ms / 1000
        self._pause_max_s = settings.retry_backoff_max_ms / 1000
        self._sleep = sleep
        self._monotonic = monotonic
        self._tried_s = monotonic()  #: when the last attempt began
        self._deadline = self._tried_s + self._timeout_s

    @property
    def left_s(self) -> float:
        return self._deadline - self._monotonic()

    def wait(self, reason: object) -> None:
        """Sleep before the next attempt. `reason` is why the last one failed."""
        left_s = self.left_s
        if left_s <= 0:
            raise GaveUp(f"{self.what}: gave up after {self._timeout_s:g} s; the last answer was: {describe(reason)}")
        if not isinstance(reason, ErrorCode):  # an error code means that a broker answered
            outages_of(self._settings).waiting(self.what, left_s, self._tried_s)
        pause_s = self._pause_s * random.uniform(1 - JITTER, 1 + JITTER)
        self._pause_s = min(2 * self._pause_s, self._pause_max_s)
        self._sleep(min(pause_s, left_s))
        self._tried_s = self._monotonic()


def describe(reason: object) -> str:
    return reason.name if isinstance(reason, ErrorCode) else str(reason)
