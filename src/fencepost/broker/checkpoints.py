"""When the offsets that recovery needs are written down: regularly, and at once where an answer depends on it.

The regular writing happens on a background thread. The lock lets a later, more urgent writing wait for it and then have
the last word: a topic that is deleted and created again under its name must never find its predecessor's offsets.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterable

from fencepost.clock import Clock, Handle
from fencepost.errors import Malformed
from fencepost.log import checkpoint
from fencepost.log.checkpoint import TopicPartition
from fencepost.log.disk import Disk
from fencepost.log.flush import Worker
from fencepost.log.partition import PartitionLog

logger = logging.getLogger(__name__)

Offsets = dict[TopicPartition, int]


class Checkpoints:
    def __init__(self, disk: Disk, data_dir: str, logs: Callable[[], Iterable[PartitionLog]]) -> None:
        self._disk = disk
        self._recovery_path = os.path.join(data_dir, checkpoint.RECOVERY_POINTS)
        self._starts_path = os.path.join(data_dir, checkpoint.LOG_STARTS)
        self._logs = logs
        self._lock = threading.Lock()
        self._generation = 0
        self._timer: Handle | None = None
        self.recovery_points: Offsets = {}
        self.log_starts: Offsets = {}

    def load(self) -> None:
        """What the last broker wrote. A file that cannot be read only means more to recover."""
        self.recovery_points = self._load(self._recovery_path)
        self.log_starts = self._load(self._starts_path)

    def write(self) -> None:
        """Write what has changed; it is durable when this returns. Raises OSError."""
        recovery_points, log_starts = self._collect()
        with self._lock:
            self._generation += 1
            self._replace(recovery_points, log_starts)

    def every(self, interval_ms: int, clock: Clock, worker: Worker) -> None:
        """Write regularly on a background thread, until `stop`."""

        def due() -> None:
            recovery_points, log_starts = self._collect()
            generation = self._generation

            def work() -> None:
                with self._lock:
                    if generation == self._generation:
                        self._replace(recovery_points, log_starts)

            worker.submit(work, _report)
            self._timer = clock.call_later(interval_ms, due)

        self._timer = clock.call_later(interval_ms, due)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _load(self, path: str) -> Offsets:
        try:
            return checkpoint.read_offsets(self._disk, path)
        except Malformed as error:
            logger.warning("%s; logs are recovered from their start", error)
            return {}

    def _collect(self) -> tuple[Offsets, Offsets]:
        recovery_points: Offsets = {}
        log_starts: Offsets = {}
        for log in self._logs():
            if log.recovery_point > 0:
                recovery_points[log.topic, log.partition] = log.recovery_point
            if log.log_start_offset > 0:
                log_starts[log.topic, log.partition] = log.log_start_offset
        return recovery_points, log_starts

    def _replace(self, recovery_points: Offsets, log_starts: Offsets) -> None:
        # The starts first: recovering more than needed is harmless, bringing deleted records back is not.
        if log_starts != self.log_starts:
            checkpoint.write_offsets(self._disk, self._starts_path, log_starts)
            self.log_starts = log_starts
        if recovery_points != self.recovery_points:
            checkpoint.write_offsets(self._disk, self._recovery_path, recovery_points)
            self.recovery_points = recovery_points


def _report(error: BaseException | None) -> None:
    if error is not None:
        logger.error("offset checkpoints could not be written: %s", error)
