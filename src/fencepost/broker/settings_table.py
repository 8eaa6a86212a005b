"""The settings that the broker itself acts on, those without effect, and those that are given in another way.

Names, types, ranges and defaults are those of Apache Kafka 4.1. Where a default differs on purpose, the row says what
Kafka has (`kafka`), and the guide lists it. The settings of logs, groups and transactions are declared beside the code
that acts on them: `log/config.py`, `coordinator/group/settings.py`, `coordinator/txn/settings.py`.
"""

from fencepost.log.config import MIN_SEGMENT_BYTES
from fencepost.security.names import PROTOCOLS
from fencepost.setting import INT_MAX, Change, Table, boolean, integer, long, optional_string, short, string, strings

LIVE = Change.LIVE

# fmt: off


class NodeSettings(Table):
    """The broker's identity, its connections, the topics that it creates, its periodic work."""

    node_id = integer(1, "The id of this broker.", low=0, kafka="none, it must be given")
    broker_id = integer(-1, "The older name of node.id.", low=-1)
    broker_rack = optional_string("The rack that metadata names for this broker.")
    socket_request_max_bytes = integer(104_857_600, "The largest request; a larger one closes the connection.", low=1)
    max_connections = integer(INT_MAX, "Connections at once; one more is closed.", low=0, change=LIVE)
    connections_max_idle_ms = long(600_000, "A connection that is silent for this long is closed.")
    fetch_max_bytes = integer(57_671_680, "The most bytes that one fetch answers with.", low=1024)
    max_incremental_fetch_session_cache_slots = integer(1000, "Incremental fetch sessions that are kept.", low=0)
    max_request_partition_size_limit = integer(2000, "Partitions in one answer to DescribeTopicPartitions.", low=1)

    num_partitions = integer(1, "Partitions of a topic that is created without a number.", low=1)
    auto_create_topics_enable = boolean(True, "Create a topic when a client asks for one that does not exist.")
    delete_topic_enable = boolean(True, "Whether topics can be deleted.")
    # Kafka accepts smaller segments for internal topics than for others, and then cannot create these topics.
    offsets_topic_num_partitions = integer(50, "Partitions of __consumer_offsets; fixed once it exists.", low=1)
    offsets_topic_segment_bytes = integer(
        104_857_600, "Segment size of __consumer_offsets.", low=MIN_SEGMENT_BYTES)
    transaction_state_log_num_partitions = integer(
        50, "Partitions of __transaction_state; fixed once it exists.", low=1)
    transaction_state_log_segment_bytes = integer(
        104_857_600, "Segment size of __transaction_state.", low=MIN_SEGMENT_BYTES)

    log_retention_check_interval_ms = long(300_000, "How often retention is checked.", low=1)
    log_cleaner_enable = boolean(True, "Whether compaction runs.")
    log_cleaner_backoff_ms = long(15_000, "How long the cleaner sleeps when nothing is dirty.", low=0, change=LIVE)
    log_flush_offset_checkpoint_interval_ms = integer(60_000, "How often recovery points are written.", low=0)
    log_flush_start_offset_checkpoint_interval_ms = integer(60_000, "How often log starts are written.", low=0)


_NO_REPLICAS = "one broker holds the only replica."
_NO_OTHERS = "one broker speaks to no other."
_CONTENT = "the content of a file says what it is."
_NO_REMOTE = "there is no remote storage."
_LEVEL = "the codec's own level is used."


class BrokerSettingsWithoutEffect(Table):
    """Settings of the broker that are checked and described and change nothing, with the reason."""

    auto_leader_rebalance_enable = boolean(True, _NO_REPLICAS)
    background_threads = integer(10, "background work has its own few threads.", low=1, change=LIVE)
    default_replication_factor = integer(1, _NO_REPLICAS, low=1, high=1)
    log_cleaner_threads = integer(1, "there is one cleaner.", low=0, change=LIVE)
    num_io_threads = integer(8, "one event loop serves all requests.", low=1, change=LIVE)
    num_network_threads = integer(3, "one event loop serves all connections.", low=1, change=LIVE)
    num_recovery_threads_per_data_dir = integer(2, "the broker chooses.", low=1, change=LIVE)
    offsets_commit_timeout_ms = integer(5_000, "an offset commit waits until it is on the disk.", low=1)
    offsets_load_buffer_size = integer(5_242_880, "segments are read one at a time.", low=1)
    offsets_topic_compression_codec = integer(0, "offsets are not compressed.", low=0, high=0)
    offsets_topic_replication_factor = short(1, _NO_REPLICAS, low=1, high=1, kafka="3")
    producer_id_expiration_check_interval_ms = integer(600_000, "done with retention.", low=1)
    queued_max_requests = integer(500, "each connection has a limit of its own.", low=1)
    request_timeout_ms = integer(30_000, "no request waits for another broker.")
    sasl_mechanism_inter_broker_protocol = string("GSSAPI", _NO_OTHERS)
    security_inter_broker_protocol = string("PLAINTEXT", _NO_OTHERS, choices=PROTOCOLS)
    socket_listen_backlog_size = integer(50, "1024 connections may wait to be accepted.", low=1)
    socket_receive_buffer_bytes = integer(102_400, "the system decides.", low=-1)
    socket_send_buffer_bytes = integer(102_400, "the system decides.", low=-1)
    ssl_keystore_type = string("JKS", _CONTENT, choices=("JKS", "PKCS12", "PEM"))
    ssl_truststore_type = string("JKS", _CONTENT, choices=("JKS", "PKCS12", "PEM"))
    transaction_state_log_load_buffer_size = integer(5_242_880, "segments are read one at a time.", low=1)
    transaction_state_log_min_isr = integer(2, "as min.insync.replicas.", low=1)
    transaction_state_log_replication_factor = short(1, _NO_REPLICAS, low=1, high=1, kafka="3")


class TopicSettingsWithoutEffect(Table):
    """The same for topics. Tools that copy topics read all settings of one cluster and give them to the other."""

    compression_gzip_level = integer(-1, _LEVEL, low=-1, high=9, broker=("compression.gzip.level",))
    compression_lz4_level = integer(9, _LEVEL, low=1, high=17, broker=("compression.lz4.level",))
    compression_zstd_level = integer(3, _LEVEL, low=-131_072, high=22, broker=("compression.zstd.level",))
    file_delete_delay_ms = long(
        60_000, "the files of a deleted segment are removed at once.",
        low=0, broker=("log.segment.delete.delay.ms",))
    follower_replication_throttled_replicas = strings((), "nothing is replicated.")
    leader_replication_throttled_replicas = strings((), "nothing is replicated.")
    local_retention_bytes = long(-2, _NO_REMOTE, low=-2, broker=("log.local.retention.bytes",))
    local_retention_ms = long(-2, _NO_REMOTE, low=-2, broker=("log.local.retention.ms",))
    min_insync_replicas = integer(
        1, "the only replica is enough for acks=all. Kafka too caps this at the number of replicas.",
        low=1, broker=("min.insync.replicas",))
    preallocate = boolean(False, "files grow as they are written.", broker=("log.preallocate",))
    remote_log_copy_disable = boolean(False, _NO_REMOTE)
    remote_log_delete_on_disable = boolean(False, _NO_REMOTE)
    remote_storage_enable = boolean(False, _NO_REMOTE, choices=("false",))
    segment_jitter_ms = long(
        0, "segments are rolled at their age.", low=0, broker=("log.roll.jitter.ms", "log.roll.jitter.hours"))
    unclean_leader_election_enable = boolean(False, _NO_REPLICAS, broker=("unclean.leader.election.enable",))


#: Settings of Kafka that are given in another way here.
ELSEWHERE = {
    "port": "give it with --port",
    "host.name": "give it with --host",
    "log.dir": "give the data directory as the argument of `fencepost up`",
    "log.dirs": "give the data directory as the argument of `fencepost up`",
    "process.roles": "this broker is its own controller, there is nothing to choose",
    "controller.quorum.voters": "this broker is its own controller, there is nothing to choose",
    "controller.quorum.bootstrap.servers": "this broker is its own controller, there is nothing to choose",
    "controller.listener.names": "this broker is its own controller, there is nothing to choose",
    "zookeeper.connect": "there is no ZooKeeper",
}
