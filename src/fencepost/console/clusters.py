"""Connections for the console: short timeouts, one `Cluster` per thread that asks, and never more than a few.

A person waits for each answer, so an unreachable broker is an answer, too, and soon.
"""

import asyncio
import contextlib
import dataclasses
import functools
import queue
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from fencepost.client.cluster import Cluster
from fencepost.client.settings import ClientSettings
from fencepost.errors import ConnectionLost, GaveUp

T = TypeVar("T")

THREADS = 4
ANSWER_S_MAX = 20.0
CHANGE_S_MAX = 40.0  #: a change also waits for its proof
CONNECT_MS_MAX, REQUEST_MS_MAX, OPERATION_MS_MAX = 3_000, 10_000, 3_000


def patient_settings(given: Mapping[str, str]) -> ClientSettings:
    """The user's, with timeouts of a person who looks at a page."""
    settings = ClientSettings.parse(given)
    return dataclasses.replace(
        settings,
        client_id=given.get("client.id", "fencepost-console"),
        connect_timeout_ms=min(settings.connect_timeout_ms, CONNECT_MS_MAX),
        request_timeout_ms=min(settings.request_timeout_ms, REQUEST_MS_MAX),
        api_timeout_ms=min(settings.api_timeout_ms, OPERATION_MS_MAX),
    )


class Pool:
    """Answers questions of the page in threads."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="console")
        self._idle: queue.LifoQueue[Cluster] = queue.LifoQueue()

    async def ask(self, question: Callable[[Cluster], T], timeout_s: float = ANSWER_S_MAX) -> T:
        """Raises TimeoutError if it takes too long. Then the thread goes on until its own timeouts end it."""
        loop = asyncio.get_running_loop()
        asked = loop.run_in_executor(self._threads, functools.partial(self._answer, question))
        return await asyncio.wait_for(asked, timeout_s)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        with contextlib.suppress(queue.Empty):
            while True:
                self._idle.get_nowait().close()

    def _answer(self, question: Callable[[Cluster], T]) -> T:
        with self._borrowed() as cluster:
            return question(cluster)

    @contextlib.contextmanager
    def _borrowed(self) -> Iterator[Cluster]:
        try:
            cluster = self._idle.get_nowait()
        except queue.Empty:
            cluster = Cluster(self._settings)
        try:
            yield cluster
        except (ConnectionLost, GaveUp):
            cluster.close()  # the next one looks for brokers again
            raise
        finally:
            self._idle.put(cluster)
