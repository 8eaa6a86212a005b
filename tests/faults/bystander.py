"""A well-behaved client that must notice nothing of what a bad one does."""

import threading
import time
from types import TracebackType
from typing import Self

from fencepost.client.raw import visible_records
from fencepost.wire.terms import Isolation
from tests.conftest import wait_until
from tests.faults.raw import Address, Kafka

#: A loaded machine may be slow, but a request that waits this long was held up by the bad client.
LATENCY_S_MAX = 10.0


class Bystander:
    """Writes a value and reads it back, over and over, on one connection that must never break."""

    def __init__(self, address: Address, topic: str) -> None:
        self._client = Kafka(address, timeout_s=LATENCY_S_MAX)
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.rounds = 0
        self.latency_s_max = 0.0
        self.failure: BaseException | None = None

    def __enter__(self) -> Self:
        try:
            self._client.create_topic(self._topic)
        except BaseException:
            self._client.close()
            raise
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join(2 * LATENCY_S_MAX)
        self._client.close()

    def has_noticed_nothing(self) -> None:
        """Two more rounds from here on, and no failure so far."""
        wanted = self.rounds + 2
        wait_until(lambda: self.rounds >= wanted or self.failure is not None, "the other client goes on")
        if self.failure is not None:
            raise AssertionError(f"the other client failed after {self.rounds} rounds") from self.failure

    def _run(self) -> None:
        offset = 0
        try:
            while not self._stop.is_set():
                before = time.monotonic()
                value = f"round {self.rounds}"
                offset = self._client.write(self._topic, 0, [value])
                result = self._client.fetch_once(self._topic, 0, offset, Isolation.READ_COMMITTED, max_wait_ms=3000)
                found, _ = visible_records(bytes(result.records), offset, [], [])
                if [record.value for record in found] != [value.encode()]:
                    raise AssertionError(f"wrote {value} at {offset} and read {found}")
                self.latency_s_max = max(self.latency_s_max, time.monotonic() - before)
                self.rounds += 1
                self._stop.wait(0.01)
        except BaseException as error:
            self.failure = error
            self._client.close()
