"""A broker without sockets: requests go through their tables into the handlers, and the answers back out again."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fencepost.broker.authorizer import Authorizer
from fencepost.broker.denials import Denials
from fencepost.broker.dispatch import handlers
from fencepost.broker.settings import Settings
from fencepost.broker.topics import TopicRegistry
from fencepost.clock import ManualClock
from fencepost.errors import ErrorCode
from fencepost.log.disk import Disk, SystemDisk
from fencepost.log.origin import Origin
from fencepost.log.partition import PartitionLog
from fencepost.wire import messages
from fencepost.wire.records import Record, encode_batch
from tests.fakes import requests
from tests.fakes.worker import ManualWorker

NULL = messages.NULL_UUID


class World:
    def __init__(self, directory: Path, settings: dict[str, str] | None = None, disk: Disk | None = None) -> None:
        self.directory = directory
        self.given = settings or {}
        self.disk = disk or SystemDisk()
        self.clock = ManualClock()
        self.open()

    def open(self) -> None:
        self.worker = ManualWorker()
        self.settings = Settings.parse(self.given)
        self.topics = TopicRegistry(self.directory, self.settings, self.clock, self.disk, worker=self.worker)
        self.topics.open()
        with_acls = self.settings.authorizer_class_name
        self.node = SimpleNamespace(
            node_id=self.settings.node_id, settings=self.settings, topics=self.topics, clock=self.clock,
            authorizer=Authorizer(self.settings, self.topics.catalogue) if with_acls else None,
            denials=Denials(self.clock), handlers=handlers(), listeners=[requests.LISTENER],
        )  # fmt: skip

    def close(self) -> None:
        """A clean shutdown."""
        asyncio.run(self.topics.close())

    def crash(self) -> None:
        """The process is gone; only its lock has to be let go, because this process lives on."""
        self.topics._let_go()

    def restart(self) -> None:
        self.close()
        self.open()

    def ask(self, key: int, version: int | None = None, **request: Any) -> Any:
        version = handlers()[key].last if version is None else version
        return requests.received(key, version, requests.send(self.node, key, version, request))

    def append(self, topic: str, partition: int = 0, count: int = 1, *, sync: bool = True) -> PartitionLog:
        """Write single records and sync them."""
        log = self.topics.log(topic, partition)
        assert log is not None
        for number in range(count):
            record = Record(offset=0, timestamp=self.clock.now_ms(), key=b"k%d" % number, value=b"v")
            log.append(encode_batch([record]), Origin.CLIENT)
        if sync:
            self.worker.run()
        return log


def error(result: Any) -> tuple[str, str | None]:
    return ErrorCode(result.error_code).name, result.error_message
