"""Writes the offsets that recovery needs: regularly, and at once if an answer depends on it.

The regular write runs on a background thread. A write at once waits for it and then wins: a topic that is deleted and
created again must never get the offsets of the topic before it.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterable
from operator import attrgetter

from fencepost.clock import Clock, Periodic
from fencepost.errors import Malformed
from fencepost.log import checkpoint
from fencepost.log.disk import Disk
from fencepost.log.flush import Worker
from fencepost.log.partition import PartitionLog
from fencepost.wire.terms import TopicPartition

logger = logging.getLogger(__name__)

Offsets = dict[TopicPartition, int]

#: Files, and which attribute of a log each keeps. The starts are written first: recovering or compacting more than
#: needed is harmless, bringing deleted records back is not.
FILES = {
    checkpoint.LOG_STARTS: "log_start_offset",
    checkpoint.RECOVERY_POINTS: "recovery_point",
    checkpoint.CLEANER_OFFSETS: "cleaned_offset",
}


class Checkpoints:
    def __init__(self, disk: Disk, data_dir: str, logs: Callable[[], Iterable[PartitionLog]]) -> None:
        self._disk = disk
        self._data_dir = data_dir
        self._logs = logs
        self._lock = threading.Lock()
        self._generation = 0
        self._regular: Periodic | None = None
        self._written: dict[str, Offsets] = {}

    def of(self, place: TopicPartition) -> dict[str, int]:
        """What was written for a log, by its attributes."""
        return {attribute: self._written[name].get(place, 0) for name, attribute in FILES.items()}

    def load(self) -> None:
        """Read what the last broker wrote. If a file cannot be read, there is only more to recover or to compact."""
        for name in FILES:
            self._written[name] = self._load(os.path.join(self._data_dir, name))

    def write(self) -> None:
        """Write what has changed; it is durable when this returns. Raises OSError."""
        offsets = self._collect()
        with self._lock:
            self._generation += 1
            self._replace(offsets)

    def every(self, interval_ms: int, clock: Clock, worker: Worker) -> None:
        """Write regularly on a background thread, until `stop`."""

        def due() -> None:
            offsets = self._collect()
            generation = self._generation

            def work() -> None:
                with self._lock:
                    if generation == self._generation:
                        self._replace(offsets)

            worker.submit(work, _report)

        self._regular = Periodic(clock, lambda: interval_ms, due)
        self._regular.start()

    def stop(self) -> None:
        if self._regular is not None:
            self._regular.stop()

    def _load(self, path: str) -> Offsets:
        try:
            return checkpoint.read_offsets(self._disk, path)
        except Malformed as error:
            logger.warning("%s; logs are recovered from their start", error)
            return {}

    def _collect(self) -> dict[str, Offsets]:
        logs = list(self._logs())
        return {name: _positive(logs, attrgetter(attribute)) for name, attribute in FILES.items()}

    def _replace(self, offsets: dict[str, Offsets]) -> None:
        for name in FILES:
            if offsets[name] != self._written[name]:
                checkpoint.write_offsets(self._disk, os.path.join(self._data_dir, name), offsets[name])
                self._written[name] = offsets[name]


def _positive(logs: Iterable[PartitionLog], offset: Callable[[PartitionLog], int]) -> Offsets:
    return {TopicPartition(log.topic, log.partition): offset(log) for log in logs if offset(log) > 0}


def _report(error: BaseException | None) -> None:
    if error is not None:
        logger.error("offset checkpoints could not be written: %s", error)
