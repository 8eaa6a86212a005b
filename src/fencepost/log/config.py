"""What can be set for one partition's log. Names and defaults are those of Kafka's topic settings.

The only default that differs is `flush_messages`: 1, so that what was acknowledged survives power loss. Kafka leans on
replicas for that; one node has none.
"""

from dataclasses import dataclass

FOREVER = 2**63 - 1

DELETE = "delete"
COMPACT = "compact"
CREATE_TIME = "CreateTime"
LOG_APPEND_TIME = "LogAppendTime"
PRODUCER_COMPRESSION = "producer"


@dataclass(slots=True)
class LogConfig:
    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * 24 * 60 * 60 * 1000
    segment_index_bytes: int = 10 * 1024 * 1024
    index_interval_bytes: int = 4096
    retention_bytes: int = -1
    retention_ms: int = 7 * 24 * 60 * 60 * 1000
    cleanup_policy: frozenset[str] = frozenset({DELETE})
    max_message_bytes: int = 1024 * 1024 + 12
    message_timestamp_type: str = CREATE_TIME
    message_timestamp_before_max_ms: int = FOREVER
    message_timestamp_after_max_ms: int = 60 * 60 * 1000
    compression_type: str = PRODUCER_COMPRESSION
    delete_retention_ms: int = 24 * 60 * 60 * 1000
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = FOREVER
    file_delete_delay_ms: int = 60 * 1000
    flush_messages: int = 1
    flush_ms: int = FOREVER
    producer_id_expiration_ms: int = 24 * 60 * 60 * 1000
    #: Looked at by Produce: with acks=all, more than there are replicas is refused.
    min_insync_replicas: int = 1
    #: Memory for the cleaner's map from key to newest offset (Kafka's `log.cleaner.dedupe.buffer.size` per run).
    cleaner_dedupe_buffer_bytes: int = 32 * 1024 * 1024

    @property
    def compacts(self) -> bool:
        return COMPACT in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        return DELETE in self.cleanup_policy

    @property
    def max_segment_ms(self) -> int:
        """After this time a segment is closed: what is in the active one cannot be compacted."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compacts else self.segment_ms

    @property
    def durable_acks(self) -> bool:
        """Whether an append counts as written only once it is synced."""
        return self.flush_messages == 1
