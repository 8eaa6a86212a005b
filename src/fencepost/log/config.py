"""What can be set for a partition's log: the topic settings that have an effect, and the broker settings that it needs.

`broker` names the settings of the broker that decide where the topic does not; they are made from these rows, so that
they cannot differ in type, range or default.
"""

from fencepost.setting import LONG_MAX, Change, Table, double, integer, long, optional_integer, string, strings

FOREVER = LONG_MAX

DELETE = "delete"
COMPACT = "compact"
CREATE_TIME = "CreateTime"
LOG_APPEND_TIME = "LogAppendTime"
PRODUCER_COMPRESSION = "producer"
MIN_SEGMENT_BYTES = 1 << 20

# fmt: off


class TopicSettings(Table):
    """What a topic can have of its own."""

    cleanup_policy = strings(
        (DELETE,), "Whether old segments are deleted, compacted by key, or both.",
        choices=(COMPACT, DELETE), broker=("log.cleanup.policy",))
    compression_type = string(
        PRODUCER_COMPRESSION, "What batches are stored with; 'producer' keeps them as they came.",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", PRODUCER_COMPRESSION), broker=("compression.type",))
    delete_retention_ms = long(
        86_400_000, "How long tombstones and markers outlive their compaction.",
        low=0, broker=("log.cleaner.delete.retention.ms",))
    flush_messages = long(
        1, "Records between two syncs to the disk. At 1, a write is acknowledged and readable once it would survive "
        "power loss; 9223372036854775807 is Kafka's default, which survives a killed process.",
        low=1, broker=("log.flush.interval.messages",), kafka=str(LONG_MAX))
    flush_ms = long(
        FOREVER, "The longest that a record waits for a sync.",
        low=0, broker=("log.flush.interval.ms", "log.flush.scheduler.interval.ms"))
    index_interval_bytes = integer(
        4096, "Bytes of log between two index entries.", low=0, broker=("log.index.interval.bytes",))
    internal_segment_bytes = optional_integer(
        "For tests: a segment is rolled at this size, whatever segment.bytes says.",
        low=14, broker=("internal.segment.bytes",), internal=True)
    max_compaction_lag_ms = long(
        FOREVER, "A record is compacted by this age.", low=1, broker=("log.cleaner.max.compaction.lag.ms",))
    max_message_bytes = integer(1_048_588, "The largest record batch.", low=0, broker=("message.max.bytes",))
    message_timestamp_after_max_ms = long(
        3_600_000, "How far in the future a record's time may lie.",
        low=0, broker=("log.message.timestamp.after.max.ms",))
    message_timestamp_before_max_ms = long(
        FOREVER, "How far in the past a record's time may lie.", low=0, broker=("log.message.timestamp.before.max.ms",))
    message_timestamp_type = string(
        CREATE_TIME, "Whose time a record carries: its producer's or the broker's.",
        choices=(CREATE_TIME, LOG_APPEND_TIME), broker=("log.message.timestamp.type",))
    min_cleanable_dirty_ratio = double(
        0.5, "Dirty share of a log at which it is compacted.",
        low=0, high=1, broker=("log.cleaner.min.cleanable.ratio",))
    min_compaction_lag_ms = long(
        0, "A record is not compacted before this age.", low=0, broker=("log.cleaner.min.compaction.lag.ms",))
    retention_bytes = long(
        -1, "The oldest segments of a partition go above this size; -1: none.", broker=("log.retention.bytes",))
    retention_ms = long(
        604_800_000, "Records older than this go, a segment at a time; -1: never.",
        low=-1, broker=("log.retention.ms", "log.retention.minutes", "log.retention.hours"))
    segment_bytes = integer(
        1 << 30, "A segment is rolled at this size.", low=MIN_SEGMENT_BYTES, broker=("log.segment.bytes",))
    segment_index_bytes = integer(
        10_485_760, "A segment is rolled when an index has this size.", low=4, broker=("log.index.size.max.bytes",))
    segment_ms = long(604_800_000, "A segment is rolled at this age.", low=1, broker=("log.roll.ms", "log.roll.hours"))


class LogConfig(TopicSettings):
    """What a topic has, with the broker settings that a log needs besides."""

    log_cleaner_dedupe_buffer_size = long(
        134_217_728, "Memory for the keys of one compaction.", low=1, change=Change.LIVE)
    producer_id_expiration_ms = integer(
        86_400_000, "A partition forgets a producer that wrote nothing for this time.", low=1, change=Change.LIVE)

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
