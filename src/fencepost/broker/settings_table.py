"""Every broker and topic setting, with Kafka's names, types, ranges and defaults.

One default differs from Kafka's on purpose: `log.flush.interval.messages` is 1, because one broker has no replica to
lean on, so an acknowledged write has to be on the disk. Replication factors can only be 1 and default to it. The
smallest segment is 14 bytes, as in Kafka before 4.1, so that rolling and compaction can be tried out on little data.

A setting that can have no effect here is still accepted when people are used to passing it; its text says so.
"""

from fencepost.broker.setting import (
    INT_MAX,
    LONG_MAX,
    Change,
    boolean,
    double,
    integer,
    long,
    optional_integer,
    optional_long,
    optional_string,
    short,
    string,
    strings,
)

LIVE = Change.LIVE

COMPRESSIONS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")
POLICIES = ("compact", "delete")
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS

# fmt: off


class NodeTable:
    """Who the broker is and how it talks."""

    node_id = integer(1, "The id of this broker.", low=0)
    broker_id = integer(-1, "The older name of node.id.", low=-1)
    broker_rack = optional_string("The rack that metadata names for this broker.")
    advertised_listeners = optional_string(
        "The address that clients are told to connect to, as PLAINTEXT://host:port; the one listened on if not given.")
    socket_request_max_bytes = integer(104_857_600, "The largest request; a larger one closes the connection.", low=1)
    socket_receive_buffer_bytes = integer(102_400, "Without effect: left to the system.", low=-1)
    socket_send_buffer_bytes = integer(102_400, "Without effect: left to the system.", low=-1)
    socket_listen_backlog_size = integer(50, "Without effect: 1024 connections may wait to be accepted.", low=1)
    max_connections = integer(INT_MAX, "Connections at once; one more is closed.", low=0, change=LIVE)
    max_connections_per_ip = integer(INT_MAX, "Without effect: see max.connections.", low=0, change=LIVE)
    connections_max_idle_ms = long(600_000, "A connection that is silent for so long is closed.")
    queued_max_requests = integer(500, "Without effect: each connection has a limit of its own.", low=1)
    request_timeout_ms = integer(30_000, "Without effect: no request waits for another broker.")
    fetch_max_bytes = integer(57_671_680, "The most bytes that one fetch answers with.", low=1024)
    max_incremental_fetch_session_cache_slots = integer(1000, "Incremental fetch sessions that are kept.", low=0)
    max_request_partition_size_limit = integer(2000, "Partitions in one answer to DescribeTopicPartitions.", low=1)
    num_io_threads = integer(8, "Without effect: one event loop serves all requests.", low=1, change=LIVE)
    num_network_threads = integer(3, "Without effect: one event loop serves all connections.", low=1, change=LIVE)
    num_recovery_threads_per_data_dir = integer(2, "Without effect: logs are recovered one after the other.",
                                                low=1, change=LIVE)
    background_threads = integer(10, "Without effect: background work has its own few threads.", low=1, change=LIVE)


class TopicDefaultsTable:
    """Topics: how they come and go, and what those are given that say nothing else."""

    num_partitions = integer(1, "Partitions of a topic that is created without a number.", low=1)
    default_replication_factor = integer(1, "Replicas of a topic; one broker holds one.", low=1, high=1)
    min_insync_replicas = integer(1, "With more than 1, acks=all is refused: one broker is all replicas there are.",
                                  low=1, change=LIVE)
    auto_create_topics_enable = boolean(True, "Create a topic when a client asks for one that is not there.")
    delete_topic_enable = boolean(True, "Whether topics can be deleted.")
    auto_leader_rebalance_enable = boolean(True, "Without effect: one broker leads every partition.")
    unclean_leader_election_enable = boolean(False, "Without effect: one broker leads every partition.", change=LIVE)
    message_max_bytes = integer(1_048_588, "The largest record batch.", low=0, change=LIVE)
    compression_type = string("producer", "What batches are stored with; 'producer' keeps them as they came.",
                              choices=COMPRESSIONS, change=LIVE)
    compression_gzip_level = integer(-1, "Without effect: the codec's own level.", low=-1, high=9, change=LIVE)
    compression_lz4_level = integer(9, "Without effect: the codec's own level.", low=1, high=17, change=LIVE)
    compression_zstd_level = integer(3, "Without effect: the codec's own level.",
                                     low=-131_072, high=22, change=LIVE)


class LogTable:
    """What is on the disk, for how long, and how safely."""

    log_segment_bytes = integer(1_073_741_824, "A segment is rolled at this size.", low=14, change=LIVE)
    log_roll_ms = optional_long("A segment is rolled at this age; log.roll.hours if not given.", low=1, change=LIVE)
    log_roll_hours = integer(168, "A segment is rolled at this age.", low=1)
    log_roll_jitter_ms = optional_long("Without effect: segments are rolled at their age.", low=0, change=LIVE)
    log_roll_jitter_hours = integer(0, "Without effect: segments are rolled at their age.", low=0)
    log_retention_ms = optional_long("Records older than this go, a segment at a time; -1: never.", low=-1, change=LIVE)
    log_retention_minutes = optional_integer("log.retention.ms in minutes.", low=-1)
    log_retention_hours = integer(168, "log.retention.ms in hours.", low=-1)
    log_retention_bytes = long(-1, "The oldest segments of a partition go above this size; -1: none.", change=LIVE)
    log_retention_check_interval_ms = long(300_000, "How often retention is looked at.", low=1)
    log_cleanup_policy = strings(("delete",), "Whether old segments are deleted, compacted by key, or both.",
                                 choices=POLICIES, change=LIVE)
    log_cleaner_enable = boolean(True, "Whether compaction runs.")
    log_cleaner_threads = integer(1, "Without effect: one cleaner.", low=0, change=LIVE)
    log_cleaner_backoff_ms = long(15_000, "How long the cleaner sleeps when nothing is dirty.", low=0, change=LIVE)
    log_cleaner_dedupe_buffer_size = long(134_217_728, "Memory for the keys of one compaction.", low=1, change=LIVE)
    log_cleaner_delete_retention_ms = long(86_400_000, "How long tombstones and markers outlive their compaction.",
                                           low=0, change=LIVE)
    log_cleaner_min_cleanable_ratio = double(0.5, "Dirty share of a log at which it is compacted.",
                                             low=0, high=1, change=LIVE)
    log_cleaner_min_compaction_lag_ms = long(0, "A record is not compacted before this age.", low=0, change=LIVE)
    log_cleaner_max_compaction_lag_ms = long(LONG_MAX, "A record is compacted by this age.", low=1, change=LIVE)
    log_flush_interval_messages = long(
        1, "Records between two syncs to the disk. At 1, a write is acknowledged and readable once it would survive "
        "power loss; 9223372036854775807 is Kafka's default, which survives a killed process.", low=1, change=LIVE)
    log_flush_interval_ms = optional_long("The longest that a record waits for a sync.", low=0, change=LIVE)
    log_flush_scheduler_interval_ms = long(LONG_MAX, "What log.flush.interval.ms is when not given.")
    log_flush_offset_checkpoint_interval_ms = integer(60_000, "How often recovery points are written down.", low=0)
    log_flush_start_offset_checkpoint_interval_ms = integer(60_000, "How often log starts are written down.", low=0)
    log_index_interval_bytes = integer(4096, "Bytes of log between two index entries.", low=0, change=LIVE)
    log_index_size_max_bytes = integer(10_485_760, "A segment is rolled when an index has this size.",
                                       low=4, change=LIVE)
    log_message_timestamp_type = string("CreateTime", "Whose time a record carries: its producer's or the broker's.",
                                        choices=TIMESTAMP_TYPES, change=LIVE)
    log_message_timestamp_before_max_ms = long(LONG_MAX, "How far in the past a record's time may lie.",
                                               low=0, change=LIVE)
    log_message_timestamp_after_max_ms = long(3_600_000, "How far in the future a record's time may lie.",
                                              low=0, change=LIVE)
    log_segment_delete_delay_ms = long(60_000, "How long the file of a deleted segment stays.", low=0, change=LIVE)
    log_preallocate = boolean(False, "Without effect: files grow as they are written.", change=LIVE)


class TransactionTable:
    """Producers and transactions."""

    transaction_version = integer(2, "The transaction protocol: 2 (KIP-890) for clients that know it, or only the "
                                  "first (1 or 0, which differ in nothing here).", low=0, high=2)
    transaction_max_timeout_ms = integer(900_000, "The longest transaction timeout that a producer may ask for.", low=1)
    transactional_id_expiration_ms = integer(604_800_000, "A transactional id that is silent for so long is forgotten.",
                                             low=1)
    transaction_state_log_num_partitions = integer(50, "Partitions of __transaction_state; fixed once it exists.",
                                                   low=1)
    transaction_state_log_segment_bytes = integer(104_857_600, "Segment size of __transaction_state.", low=14)
    transaction_state_log_replication_factor = short(1, "Replicas of __transaction_state.", low=1, high=1)
    transaction_state_log_min_isr = integer(1, "min.insync.replicas of __transaction_state.", low=1, high=1)
    transaction_state_log_load_buffer_size = integer(
        5_242_880, "Without effect: segments are read one at a time.", low=1)
    transaction_abort_timed_out_transaction_cleanup_interval_ms = integer(
        10_000, "How often transactions past their timeout are looked for.", low=1)
    transaction_remove_expired_transaction_cleanup_interval_ms = integer(
        3_600_000, "How often expired transactional ids are looked for.", low=1)
    transaction_partition_verification_enable = boolean(
        True, "Check that a partition belongs to the transaction before writing to it (KIP-890).", change=LIVE)
    producer_id_expiration_ms = integer(86_400_000, "A partition forgets a producer that is silent for so long.",
                                        low=1, change=LIVE)
    producer_id_expiration_check_interval_ms = integer(600_000, "Without effect: done with retention.", low=1)


class GroupTable:
    """Consumer groups and their offsets."""

    group_min_session_timeout_ms = integer(6_000, "The shortest session timeout that a member may ask for.")
    group_max_session_timeout_ms = integer(1_800_000, "The longest session timeout that a member may ask for.")
    group_initial_rebalance_delay_ms = integer(0, "How long a new group waits for more members (3000 in Kafka).", low=0)
    group_max_size = integer(INT_MAX, "Members that a group may have.", low=1)
    offsets_topic_num_partitions = integer(50, "Partitions of __consumer_offsets; fixed once it exists.", low=1)
    offsets_topic_segment_bytes = integer(104_857_600, "Segment size of __consumer_offsets.", low=14)
    offsets_topic_replication_factor = short(1, "Replicas of __consumer_offsets.", low=1, high=1)
    offsets_topic_compression_codec = integer(0, "Compression of __consumer_offsets: 0, none.", low=0, high=0)
    offsets_load_buffer_size = integer(5_242_880, "Without effect: segments are read one at a time.", low=1)
    offsets_retention_minutes = integer(10_080, "Offsets of a group without members are kept for so long.", low=1)
    offsets_retention_check_interval_ms = long(600_000, "How often expired offsets are looked for.", low=1)
    offset_metadata_max_bytes = integer(4096, "The most metadata that a committed offset may carry.")
    offsets_commit_timeout_ms = integer(5_000, "Without effect: an offset commit waits until it is on the disk.", low=1)


class BrokerTable(NodeTable, TopicDefaultsTable, LogTable, TransactionTable, GroupTable):
    """All of the broker's settings."""


class TopicTable:
    """What a topic can have of its own. `inherits` names the broker settings that decide otherwise."""

    cleanup_policy = strings(("delete",), LogTable.log_cleanup_policy.doc,
                             choices=POLICIES, inherits={"log.cleanup.policy": 1})
    compression_type = string("producer", TopicDefaultsTable.compression_type.doc,
                              choices=COMPRESSIONS, inherits={"compression.type": 1})
    compression_gzip_level = integer(-1, TopicDefaultsTable.compression_gzip_level.doc,
                                     low=-1, high=9, inherits={"compression.gzip.level": 1})
    compression_lz4_level = integer(9, TopicDefaultsTable.compression_lz4_level.doc,
                                    low=1, high=17, inherits={"compression.lz4.level": 1})
    compression_zstd_level = integer(3, TopicDefaultsTable.compression_zstd_level.doc,
                                     low=-131_072, high=22, inherits={"compression.zstd.level": 1})
    delete_retention_ms = long(86_400_000, LogTable.log_cleaner_delete_retention_ms.doc,
                               low=0, inherits={"log.cleaner.delete.retention.ms": 1})
    file_delete_delay_ms = long(60_000, LogTable.log_segment_delete_delay_ms.doc,
                                low=0, inherits={"log.segment.delete.delay.ms": 1})
    flush_messages = long(1, LogTable.log_flush_interval_messages.doc,
                          low=1, inherits={"log.flush.interval.messages": 1})
    flush_ms = long(LONG_MAX, LogTable.log_flush_interval_ms.doc,
                    low=0, inherits={"log.flush.interval.ms": 1, "log.flush.scheduler.interval.ms": 1})
    follower_replication_throttled_replicas = strings((), "Without effect: nothing is replicated.")
    index_interval_bytes = integer(4096, LogTable.log_index_interval_bytes.doc,
                                   low=0, inherits={"log.index.interval.bytes": 1})
    leader_replication_throttled_replicas = strings((), "Without effect: nothing is replicated.")
    local_retention_bytes = long(-2, "Without effect: there is no remote storage.", low=-2)
    local_retention_ms = long(-2, "Without effect: there is no remote storage.", low=-2)
    max_compaction_lag_ms = long(LONG_MAX, LogTable.log_cleaner_max_compaction_lag_ms.doc,
                                 low=1, inherits={"log.cleaner.max.compaction.lag.ms": 1})
    max_message_bytes = integer(1_048_588, TopicDefaultsTable.message_max_bytes.doc,
                                low=0, inherits={"message.max.bytes": 1})
    message_timestamp_after_max_ms = long(3_600_000, LogTable.log_message_timestamp_after_max_ms.doc,
                                          low=0, inherits={"log.message.timestamp.after.max.ms": 1})
    message_timestamp_before_max_ms = long(LONG_MAX, LogTable.log_message_timestamp_before_max_ms.doc,
                                           low=0, inherits={"log.message.timestamp.before.max.ms": 1})
    message_timestamp_type = string("CreateTime", LogTable.log_message_timestamp_type.doc,
                                    choices=TIMESTAMP_TYPES, inherits={"log.message.timestamp.type": 1})
    min_cleanable_dirty_ratio = double(0.5, LogTable.log_cleaner_min_cleanable_ratio.doc,
                                       low=0, high=1, inherits={"log.cleaner.min.cleanable.ratio": 1})
    min_compaction_lag_ms = long(0, LogTable.log_cleaner_min_compaction_lag_ms.doc,
                                 low=0, inherits={"log.cleaner.min.compaction.lag.ms": 1})
    min_insync_replicas = integer(1, TopicDefaultsTable.min_insync_replicas.doc,
                                  low=1, inherits={"min.insync.replicas": 1})
    preallocate = boolean(False, LogTable.log_preallocate.doc, inherits={"log.preallocate": 1})
    remote_log_copy_disable = boolean(False, "Without effect: there is no remote storage.")
    remote_log_delete_on_disable = boolean(False, "Without effect: there is no remote storage.")
    remote_storage_enable = boolean(False, "There is no remote storage to be enabled.", choices=("false",))
    retention_bytes = long(-1, LogTable.log_retention_bytes.doc, inherits={"log.retention.bytes": 1})
    retention_ms = long(604_800_000, LogTable.log_retention_ms.doc, low=-1, inherits={
        "log.retention.ms": 1, "log.retention.minutes": MINUTE_MS, "log.retention.hours": HOUR_MS})
    segment_bytes = integer(1_073_741_824, LogTable.log_segment_bytes.doc, low=14, inherits={"log.segment.bytes": 1})
    segment_index_bytes = integer(10_485_760, LogTable.log_index_size_max_bytes.doc,
                                  low=4, inherits={"log.index.size.max.bytes": 1})
    segment_jitter_ms = long(0, LogTable.log_roll_jitter_ms.doc,
                             low=0, inherits={"log.roll.jitter.ms": 1, "log.roll.jitter.hours": HOUR_MS})
    segment_ms = long(604_800_000, "A segment is rolled at this age.",
                      low=1, inherits={"log.roll.ms": 1, "log.roll.hours": HOUR_MS})
    unclean_leader_election_enable = boolean(False, TopicDefaultsTable.unclean_leader_election_enable.doc,
                                             inherits={"unclean.leader.election.enable": 1})


#: Settings of Kafka that have another place here, and which.
ELSEWHERE = {
    "listeners": "give the address with --host and --port",
    "port": "give it with --port",
    "host.name": "give it with --host",
    "log.dir": "give the data directory as the argument of `fencepost up`",
    "log.dirs": "give the data directory as the argument of `fencepost up`",
    "process.roles": "this broker is its own controller, there is nothing to choose",
    "controller.quorum.voters": "this broker is its own controller, there is nothing to choose",
    "controller.quorum.bootstrap.servers": "this broker is its own controller, there is nothing to choose",
    "controller.listener.names": "this broker is its own controller, there is nothing to choose",
    "zookeeper.connect": "there is no ZooKeeper",
    "authorizer.class.name": "there is no security yet",
}
