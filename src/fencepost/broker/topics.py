"""The topics of this broker and the logs of their partitions.

The catalogue says which topics exist; this module opens their logs, keeps them in step with it, and is the only one
that makes or removes them. Invariants: a change is durable before anybody can see it; a log belongs to a topic of the
catalogue; finding a log is one dict lookup.

A partition that was never written has no directory. Its log is opened at the first request for it.
"""

import asyncio
import logging
import operator
import os
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from fencepost.broker import topic_names
from fencepost.broker.catalogue import Catalogue, Topic
from fencepost.broker.checkpoints import Checkpoints
from fencepost.broker.data_directory import Identity, load_identity, random_uuid
from fencepost.broker.partition_directories import find_partitions
from fencepost.broker.settings import Settings, Source
from fencepost.clock import Clock
from fencepost.errors import ConfigError, ErrorCode, InvariantBroken, KafkaError
from fencepost.log import checkpoint
from fencepost.log.config import LogConfig
from fencepost.log.counts import LogCounts
from fencepost.log.disk import Disk, Lock, make_directory
from fencepost.log.flush import ThreadWorker, Worker
from fencepost.log.partition import PartitionLog
from fencepost.wire.terms import CONSUMER_OFFSETS, INTERNAL_TOPICS, TopicPartition

__all__ = ["Topic", "TopicRegistry"]

logger = logging.getLogger(__name__)
Result = TypeVar("Result")

#: How many syncs are under way at once. Disks merge flushes that wait together: 32 threads take half the time of 8.
DISK_THREADS = 32
#: How many recovered logs are synced together. Each has a file open until then.
SYNC_LOGS = 1000


class TopicRegistry:
    def __init__(
        self,
        data_dir: Path,
        settings: Settings,
        clock: Clock,
        disk: Disk,
        *,
        on_progress: Callable[[PartitionLog], None] | None = None,
        worker: Worker | None = None,
        rng: random.Random | None = None,
        counts: LogCounts | None = None,
    ) -> None:
        self.data_dir = data_dir
        self._directory = str(data_dir)
        self._settings = settings
        self._clock = clock
        self._disk = disk
        self._on_progress = on_progress
        self.worker = worker
        self._counts = counts or LogCounts()
        self._rng = rng or random.SystemRandom()
        self._executor: ThreadPoolExecutor | None = None
        self._lock: Lock | None = None
        self.catalogue = Catalogue(disk, self._directory)  #: to be read; it is changed here only
        self._checkpoints = Checkpoints(disk, self._directory, self.logs)
        self._identity: Identity | None = None
        self._by_id: dict[bytes, Topic] = {}
        self._spelled: dict[str, str] = {}  # collision key to the topic that has it
        self._logs: dict[tuple[str, int], PartitionLog] = {}
        self._logs_by_id: dict[tuple[bytes, int], PartitionLog] = {}
        self._configs: dict[str, LogConfig] = {}
        self._on_delete: list[Callable[[Topic], None]] = []

    # -- opening and closing -----------------------------------------------------------------------------------------

    def open(self) -> None:
        """Lock the directory, read the catalogue, recover the logs. The event loop must be running.

        Raises DataDirectoryLocked, ConfigError, Malformed, or KafkaError for a log that cannot be recovered.
        """
        make_directory(self._disk, self._directory)
        self._lock = self._disk.lock(self._directory)
        try:
            self._open()
        except BaseException:
            self._let_go()
            raise

    def _open(self) -> None:
        self._identity = load_identity(self._disk, self._directory, self._settings.node_id, self._rng)
        if self.worker is None:
            self._executor = ThreadPoolExecutor(DISK_THREADS, thread_name_prefix="fencepost-disk")
            self.worker = ThreadWorker(asyncio.get_running_loop(), self._executor)
        self.catalogue.open()
        self._take_over_settings()
        for topic in self.catalogue.topics.values():
            self._know(topic)
        self._open_logs()
        self._settings.on_change(self._settings_changed)
        settings = self._settings
        intervals_ms = (
            settings.log_flush_offset_checkpoint_interval_ms, settings.log_flush_start_offset_checkpoint_interval_ms
        )  # fmt: skip
        self._checkpoints.every(max(min(intervals_ms), 1), self._clock, self.worker)

    async def close(self) -> None:
        """Close every log; the next start has nothing to recover unless the disk failed."""
        self._checkpoints.stop()
        closing = [self._closing(log) for log in self.logs()]
        if self._executor is not None:
            closed = await asyncio.to_thread(self._side_by_side, closing)
        else:
            closed = self._side_by_side(closing)
        clean = self._lock is not None and all(closed)
        try:
            if self._lock is not None:
                self._checkpoints.write()
            if clean:
                checkpoint.mark_clean_shutdown(self._disk, self._directory)
        except OSError as error:
            logger.error("the shutdown is not clean: %s", error)
        if self._executor is not None:
            # Deleted files may still be removed there. The loop goes on, because it takes the results.
            await asyncio.to_thread(self._executor.shutdown)
        self._let_go()

    def _closing(self, log: PartitionLog) -> Callable[[], bool]:
        """Do the quick part of closing a log. The slow part says whether the log has nothing to recover."""
        if log.failed:
            return lambda: False
        try:
            finish = log.prepare_close()
        except OSError as error:
            _complain(log, error)
            return lambda: False

        def close() -> bool:
            try:
                if finish is not None:
                    finish()
            except OSError as error:
                _complain(log, error)
                return False
            return True

        return close

    def _side_by_side(self, jobs: Iterable[Callable[[], Result]]) -> list[Result]:
        """Run jobs that wait for the disk, on threads if there are any. Raises the error of the first that fails."""
        run = map if self._executor is None else self._executor.map
        return list(run(operator.call, jobs))

    def _let_go(self) -> None:
        self.catalogue.close()
        self._logs.clear()
        self._logs_by_id.clear()
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _take_over_settings(self) -> None:
        for source in (Source.BROKER, Source.CLUSTER):
            try:
                self._settings.set_dynamic(source, self.catalogue.altered.get(source, {}))
            except ConfigError as error:
                logger.error("altered settings are ignored: %s", error)
        for feature, level in self.catalogue.features.items():
            self._settings.restore_feature(feature, level)

    def _open_logs(self) -> None:
        self._checkpoints.load()
        clean = checkpoint.take_clean_shutdown(self._disk, self._directory)
        syncs: list[Callable[[], None]] = []
        for topic, partition in find_partitions(self._disk, self._directory, self.catalogue):
            self._open_log(topic, partition, clean_shutdown=clean, run=syncs.append)
            if len(syncs) >= SYNC_LOGS:
                self._side_by_side(syncs)
                syncs.clear()
        self._side_by_side(syncs)
        self._checkpoints.write()  # without the offsets of what is gone
        self.catalogue.tidy()

    def _open_log(
        self,
        topic: Topic,
        partition: int,
        *,
        clean_shutdown: bool,
        run: Callable[[Callable[[], None]], object] = operator.call,
    ) -> PartitionLog:
        if self.worker is None:
            raise InvariantBroken("the topics are not open")
        place = TopicPartition(topic.name, partition)
        log = PartitionLog.open(
            self._disk,
            os.path.join(self._directory, f"{topic.name}-{partition}"),
            topic.name,
            partition,
            topic.id,
            self._config_of(topic),
            self._clock,
            self.worker,
            clean_shutdown=clean_shutdown,
            on_progress=self._on_progress,
            run=run,
            counts=self._counts,
            **self._checkpoints.of(place),
        )
        self._logs[place] = log
        self._logs_by_id[topic.id, partition] = log
        return log

    # -- looking up --------------------------------------------------------------------------------------------------

    @property
    def identity(self) -> Identity:
        if self._identity is None:
            raise InvariantBroken("the topics are not open")
        return self._identity

    @property
    def cluster_id(self) -> str:
        return self.identity.cluster_id

    def get(self, name: str) -> Topic | None:
        return self.catalogue.topics.get(name)

    def by_id(self, topic_id: bytes) -> Topic | None:
        return self._by_id.get(topic_id)

    def all(self) -> list[Topic]:
        return list(self.catalogue.topics.values())

    def log(self, topic: str, partition: int) -> PartitionLog | None:
        """The log of a partition, None when there is no such partition."""
        log = self._logs.get((topic, partition))
        return log if log is not None else self._first_asked(self.catalogue.topics.get(topic), partition)

    def log_by_id(self, topic_id: bytes, partition: int) -> PartitionLog | None:
        log = self._logs_by_id.get((topic_id, partition))
        return log if log is not None else self._first_asked(self._by_id.get(topic_id), partition)

    def existing_log(self, topic: str, partition: int) -> PartitionLog:
        """The log of a partition. UNKNOWN_TOPIC_OR_PARTITION if there is no such partition."""
        log = self.log(topic, partition)
        if log is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return log

    def logs(self) -> list[PartitionLog]:
        """Every log that has been opened, which is every one that has records."""
        return list(self._logs.values())

    def logs_of(self, topic: Topic) -> list[PartitionLog]:
        """The open logs of one topic."""
        found = (self._logs.get((topic.name, partition)) for partition in range(topic.partitions))
        return [log for log in found if log is not None]

    def _first_asked(self, topic: Topic | None, partition: int) -> PartitionLog | None:
        if topic is None or not topic.has(partition) or self._lock is None:
            return None
        try:
            return self._open_log(topic, partition, clean_shutdown=False)
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{topic.name}-{partition}: {error}") from error

    # -- changing ----------------------------------------------------------------------------------------------------

    def check_new(self, name: str, config: Mapping[str, str | None]) -> None:
        """KafkaError if a topic of this name or with these settings cannot be created."""
        topic_names.validate(name)
        if name == topic_names.CLUSTER_METADATA:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
        if name in self.catalogue.topics:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        other = self._spelled.get(topic_names.collision_key(name))
        if other is not None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")
        try:
            self._settings.check_topic(config)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None

    def create(self, name: str, partitions: int, config: Mapping[str, str]) -> Topic:
        """Make one topic; it is durable when this returns."""
        self.check_new(name, config)
        (topic,) = self.create_all([self.new(name, partitions, config)])
        return topic

    def new(self, name: str, partitions: int, config: Mapping[str, str]) -> Topic:
        """A topic for `create_all`. An internal topic also gets the settings that its coordinator needs."""
        if name in INTERNAL_TOPICS:
            config = {**self._internal_config(name), **config}
        return Topic(name, random_uuid(self._rng), partitions, dict(config))

    def create_all(self, topics: Iterable[Topic]) -> list[Topic]:
        """Make topics that passed `check_new`, all with one sync."""
        made = list(topics)
        self.catalogue.write([topic.line() for topic in made])
        for topic in made:
            self._know(topic)
        return made

    def ensure_internal(self, name: str) -> Topic:
        """The topic of a coordinator. It is created if it does not exist."""
        topic = self.catalogue.topics.get(name)
        if topic is not None:
            return topic
        if name not in INTERNAL_TOPICS:
            raise InvariantBroken(f"{name} is not an internal topic")
        settings = self._settings
        offsets = name == CONSUMER_OFFSETS
        count = settings.offsets_topic_num_partitions if offsets else settings.transaction_state_log_num_partitions
        return self.create(name, count, {})

    def delete_all(self, names: Sequence[str]) -> None:
        """Remove topics with their records. If one does not exist, UNKNOWN_TOPIC_OR_PARTITION, and none is removed."""
        topics = [self._existing(name) for name in names]
        self.catalogue.write([{"gone": {"name": topic.name, "id": topic.id.hex()}} for topic in topics])
        for topic in topics:
            self._forget(topic)
            for log in self.logs_of(topic):
                del self._logs[topic.name, log.partition], self._logs_by_id[topic.id, log.partition]
                try:
                    log.delete()
                except OSError as error:  # the next start removes what is left
                    logger.error("%s-%d is deleted, but its files remain: %s", topic.name, log.partition, error)
            for listener in self._on_delete:
                listener(topic)
        self.checkpoint()

    def on_delete(self, listener: Callable[[Topic], None]) -> None:
        """Call `listener` with every topic that was deleted."""
        self._on_delete.append(listener)

    def add_partitions(self, name: str, total: int) -> Topic:
        """`total` is more than the topic has."""
        topic = self._existing(name)
        return self._replace(Topic(topic.name, topic.id, total, topic.config))

    def set_config(self, name: str, overrides: Mapping[str, str]) -> Topic:
        """Replace a topic's own settings with ones that passed `check_topic`. Open logs use them at once."""
        topic = self._existing(name)
        changed = self._replace(Topic(topic.name, topic.id, topic.partitions, dict(overrides)))
        self._configs.pop(name, None)
        for log in self.logs_of(changed):
            log.config = self._config_of(changed)
        return changed

    def set_broker_config(self, source: Source, values: Mapping[str, str | None]) -> None:
        """Alter the broker's settings, durably. The values passed `check_dynamic`."""
        self.catalogue.write([{"altered": {"source": int(source), "values": dict(values)}}])
        self._settings.set_dynamic(source, values)

    def set_feature(self, feature: str, level: int) -> None:
        """Alter the level of a feature, durably."""
        catalogue = self.catalogue
        levels = {**catalogue.features, feature: level}
        catalogue.write([{"features": {"epoch": catalogue.features_epoch + 1, "levels": levels}}])
        self._settings.set_feature(feature, level)

    def reserve_producer_ids(self, count: int) -> range:
        """Ids that were never handed out before."""
        first = self.catalogue.next_producer_id
        self.catalogue.write([{"producer_ids": first + count}])
        return range(first, first + count)

    def checkpoint(self) -> None:
        """Write durably where logs begin and where recovery starts, for instance after records were deleted."""
        try:
            self._checkpoints.write()
        except OSError as error:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"the offset checkpoints could not be written: {error}"
            ) from error

    # -- inside ------------------------------------------------------------------------------------------------------

    def _existing(self, name: str) -> Topic:
        topic = self.catalogue.topics.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
        return topic

    def _replace(self, topic: Topic) -> Topic:
        self.catalogue.write([topic.line()])
        self._know(topic)
        return topic

    def _know(self, topic: Topic) -> None:
        self._by_id[topic.id] = topic
        self._spelled[topic_names.collision_key(topic.name)] = topic.name

    def _forget(self, topic: Topic) -> None:
        del self._by_id[topic.id]
        self._configs.pop(topic.name, None)
        self._spelled.pop(topic_names.collision_key(topic.name), None)

    def _config_of(self, topic: Topic) -> LogConfig:
        config = self._configs.get(topic.name)
        if config is None:
            config = self._configs[topic.name] = self._settings.log_config(topic.config)
        return config

    def _settings_changed(self) -> None:
        self._configs.clear()
        for (name, _), log in self._logs.items():
            log.config = self._config_of(self.catalogue.topics[name])

    def _internal_config(self, name: str) -> dict[str, str]:
        settings = self._settings
        offsets = name == CONSUMER_OFFSETS
        size = settings.offsets_topic_segment_bytes if offsets else settings.transaction_state_log_segment_bytes
        compression = "producer" if offsets else "uncompressed"
        return {"cleanup.policy": "compact", "segment.bytes": str(size), "compression.type": compression}


def _complain(log: PartitionLog, error: OSError) -> None:
    logger.error("%s-%d was not closed cleanly: %s", log.topic, log.partition, error)
