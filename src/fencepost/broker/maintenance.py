"""What a broker does when nobody asks: retention, compaction, expiry, idle connections. Each on its own interval."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from fencepost.log import cleaner, maintenance

if TYPE_CHECKING:
    from fencepost.broker.node import Node

log = logging.getLogger("fencepost.maintenance")

IDLE_CHECK_MS = 10_000


class Maintenance:
    def __init__(self, node: "Node") -> None:
        self._node = node
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        settings = self._node.settings
        self._every(lambda: settings.log_retention_check_interval_ms, "retention", self._retention)
        self._every(lambda: settings.log_cleaner_backoff_ms, "compaction", self._compaction)
        self._every(lambda: IDLE_CHECK_MS, "idle connections", self._idle_connections)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _every(self, interval_ms: Callable[[], int], what: str, job: Callable[[], Awaitable[None]]) -> None:
        async def run() -> None:
            while True:
                await asyncio.sleep(interval_ms() / 1000)
                try:
                    await job()
                except Exception:
                    log.exception("%s failed; it is tried again at the next turn", what)

        self._tasks.append(asyncio.get_running_loop().create_task(run(), name=f"fencepost {what}"))

    async def _retention(self) -> None:
        for partition in self._node.topics.logs():
            maintenance.maintain(partition, compact=self._node.settings.log_cleaner_enable)
            await asyncio.sleep(0)  # with thousands of partitions, others get their turn in between

    async def _compaction(self) -> None:
        if not self._node.settings.log_cleaner_enable:
            return
        for partition in self._node.topics.logs():
            if cleaner.is_due(partition):
                cleaner.clean(partition)
            await asyncio.sleep(0)

    async def _idle_connections(self) -> None:
        self._node.close_idle_connections()
