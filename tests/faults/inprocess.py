"""A broker inside the test process, on a disk that the test provides, for faults that a separate process cannot have.

The event loop runs on a thread; clients connect as to any other broker. `crash` ends it the way a power failure does:
nothing is closed, nothing is written; threads that were at work are waited for because the disk under them is off.
"""

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from fencepost.broker.node import Node
from fencepost.broker.settings import Settings
from fencepost.lab.kit.servers import SHORT_CYCLES
from fencepost.log.disk import Disk
from tests.faults.raw import Address, Kafka


class BrokerThread:
    def __init__(self, data_dir: Path, disk: Disk, settings: Mapping[str, str] | None = None) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(lambda loop, context: None)
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._ended = False
        self.node = Node(data_dir, Settings.parse({**SHORT_CYCLES, **(settings or {})}), port=0, disk=disk)
        try:
            self._run(self.node.start())
        except BaseException:
            self._end_loop()
            raise
        self.address: Address = self.node.listeners[0].bound

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """In good order, unless the test has failed."""
        if kind is None:
            self.stop()
        self.crash()

    def client(self, timeout_s: float = 15.0) -> Kafka:
        return Kafka(self.address, timeout_s=timeout_s)

    def stop(self) -> None:
        """In good order."""
        if not self._ended:
            self._run(self.node.stop())
            self._end_loop()

    def crash(self) -> None:
        """At once. The directory's lock is given up, as the end of a process would."""
        if not self._ended:
            self._run(self._let_go())
            self._end_loop()

    async def _let_go(self) -> None:
        for server in self.node._servers:
            server.close()
        for connection in list(self.node._connections):
            connection._closed = True
            connection._transport.abort()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        executor = self.node.topics._executor
        if executor is not None:
            await asyncio.to_thread(executor.shutdown, cancel_futures=True)
        if self.node.topics._lock is not None:
            self.node.topics._lock.release()

    def _run(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def _end_loop(self) -> None:
        self._ended = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()
