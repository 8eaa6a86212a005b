"""The broker's periodic work: retention, compaction, idle connections. Each has its own interval."""

from typing import TYPE_CHECKING

from fencepost.clock import Periodic, give_way
from fencepost.log import cleaner, maintenance

if TYPE_CHECKING:
    from fencepost.broker.node import Node

IDLE_CHECK_MS = 10_000


class Maintenance:
    def __init__(self, node: "Node") -> None:
        self._node = node
        settings, clock = node.settings, node.clock
        self._jobs = (
            Periodic(clock, lambda: settings.log_retention_check_interval_ms, self._retention),
            Periodic(clock, lambda: settings.log_cleaner_backoff_ms, self._compaction),
            Periodic(clock, lambda: IDLE_CHECK_MS, node.close_idle_connections),
        )

    def start(self) -> None:
        for job in self._jobs:
            job.start()

    def stop(self) -> None:
        for job in self._jobs:
            job.stop()

    async def _retention(self) -> None:
        for partition in self._node.topics.logs():
            maintenance.maintain(partition, compact=self._node.settings.log_cleaner_enable)
            await give_way()  # there may be thousands of partitions

    async def _compaction(self) -> None:
        if not self._node.settings.log_cleaner_enable:
            return
        for partition in self._node.topics.logs():
            if cleaner.is_due(partition):
                cleaner.clean(partition)
            await give_way()
