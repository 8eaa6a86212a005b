"""Kafka's client settings by name, as of Kafka 4.1: which exist, and which are refused and why.

A known setting that is not refused is accepted even if it has no effect here (`linger.ms`), so that options for Spark's
own connector keep working. The settings of TLS and SASL are in `fencepost.security.names`.
"""

KNOWN = frozenset({
    # of all clients
    "bootstrap.servers", "client.dns.lookup", "client.id", "client.rack", "connections.max.idle.ms",
    "enable.metrics.push", "metadata.max.age.ms", "metadata.recovery.rebootstrap.trigger.ms",
    "metadata.recovery.strategy", "metric.reporters", "metrics.num.samples", "metrics.recording.level",
    "metrics.sample.window.ms", "receive.buffer.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms",
    "request.timeout.ms", "retry.backoff.max.ms", "retry.backoff.ms", "security.protocol", "send.buffer.bytes",
    "socket.connection.setup.timeout.max.ms", "socket.connection.setup.timeout.ms",
    # of consumers
    "allow.auto.create.topics", "auto.commit.interval.ms", "check.crcs", "default.api.timeout.ms",
    "exclude.internal.topics", "fetch.max.bytes", "fetch.max.wait.ms", "fetch.min.bytes", "group.id",
    "group.instance.id", "group.protocol", "group.remote.assignor", "heartbeat.interval.ms", "isolation.level",
    "max.partition.fetch.bytes", "max.poll.interval.ms", "max.poll.records", "partition.assignment.strategy",
    "session.timeout.ms", "share.acknowledgement.mode",
    # of producers
    "acks", "batch.size", "buffer.memory", "compression.gzip.level", "compression.lz4.level", "compression.type",
    "compression.zstd.level", "delivery.timeout.ms", "enable.idempotence", "linger.ms", "max.block.ms",
    "max.in.flight.requests.per.connection", "max.request.size", "metadata.max.idle.ms",
    "partitioner.adaptive.partitioning.enable", "partitioner.availability.timeout.ms", "retries",
    "transaction.timeout.ms", "transactional.id",
})  # fmt: skip

_BYTES = "{0}s are {1} as byte arrays. Use DataFrame operations to explicitly {2} the {0}s"
REFUSED = {
    "key.deserializer": _BYTES.format("key", "deserialized", "deserialize"),
    "value.deserializer": _BYTES.format("value", "deserialized", "deserialize"),
    "key.serializer": _BYTES.format("key", "serialized", "serialize"),
    "value.serializer": _BYTES.format("value", "serialized", "serialize"),
    "auto.offset.reset": (
        "set the option 'startingOffsets' to 'earliest', 'latest' or 'committed' to specify where to start. It applies "
        "when a new query is started; resuming always picks up where the query left off"
    ),
    "enable.auto.commit": "offsets are committed in the transaction of the output records, not by a timer",
    "interceptor.classes": "it names a Java class, and this is not a Java client",
    "partitioner.class": "it names a Java class. Records are placed like Kafka's default partitioner does",
    "partitioner.ignore.keys": "records with a key are placed like Kafka's default partitioner does",
    "transaction.two.phase.commit.enable": "the query that begins a transaction also ends it",
}
