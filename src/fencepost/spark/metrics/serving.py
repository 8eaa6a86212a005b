"""Serves metrics from a program that has no event loop of its own: on a thread with one."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Self

from fencepost.clock import SystemClock
from fencepost.errors import ConfigError
from fencepost.metrics.http import MetricsServer
from fencepost.wire.terms import Address

START_TIMEOUT_S = 10.0


class Serving:
    """Listens when it is made, until `close`, or until the process ends. `render` is called on the thread."""

    def __init__(self, address: Address, render: Callable[[], str]) -> None:
        self._loop = asyncio.new_event_loop()
        self._server = MetricsServer(render, address, SystemClock())
        self._thread = threading.Thread(target=self._loop.run_forever, name="fencepost-metrics", daemon=True)
        self._thread.start()
        self._at_close: list[Callable[[], object]] = []
        try:
            asyncio.run_coroutine_threadsafe(self._server.listen(), self._loop).result(START_TIMEOUT_S)
        except ConfigError:
            self.close()
            raise

    @property
    def url(self) -> str:
        return self._server.url

    def when_closed(self, call: Callable[[], object]) -> None:
        self._at_close.append(call)

    def close(self) -> None:
        if self._loop.is_closed():
            return
        for call in self._at_close:
            with contextlib.suppress(Exception):  # the session may have ended
                call()
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(START_TIMEOUT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _stop(self) -> None:
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
