"""The sink's settings, from arguments and from options with Spark's and Kafka's names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fencepost.client.faults import is_topic_name
from fencepost.client.identity import TransactionProtocol
from fencepost.client.settings import ClientSettings
from fencepost.errors import ConfigError
from fencepost.formats import named
from fencepost.spark.naming import transactional_id_of
from fencepost.spark.options import BOOTSTRAP, Options, client_settings
from fencepost.spark.sink.formats import NO_FORMATS, Formats
from fencepost.spark.state.cache import default_directory
from fencepost.wire.compression import Compression

DEFAULT_TRANSACTION_TIMEOUT_MS = 60_000
#: More than the 16 KB of Kafka's producer: record batches are filled before they are sent, so nothing has to wait.
DEFAULT_BATCH_BYTES = 512 << 10
BATCH_BYTES_MIN = 1024
#: The driver may write a batch of up to this many input records (`small`).
DEFAULT_SMALL_BATCH = 10_000
DEFAULT_ATTEMPTS = 5
CODECS = [codec.name.lower() for codec in Compression]
AUTO, OFF = "auto", "off"
PROTOCOLS = {"auto": None, "1": TransactionProtocol.V1, "2": TransactionProtocol.V2}

#: What the driver may have to pass on, for Spark's standard writer API. Spark limits it as well
#: (`spark.driver.maxResultSize`, 1 GiB), and the driver has 1 GiB of memory by default.
DEFAULT_MAX_BATCH_BYTES = 256 << 20

OPTIONS = (
    "topic",
    "smallBatchRecords",
    "maxAttempts",
    "transactionProtocol",
    "permitPort",
    "permitHost",
    "stateDirectory",
    "failOnStateLoss",
    "deadLetters",
    "replicationFactor",
    "keyFormat",
    "valueFormat",
    "columnar",
)
#: Those of `writeStream.format("fencepost")`. It asks nobody for permits and has no state.
WRITER_API_OPTIONS = (
    "topic",
    "maxAttempts",
    "transactionProtocol",
    "failOnStateLoss",
    "deadLetters",
    "replicationFactor",
    "maxBatchBytes",
    "keyFormat",
    "valueFormat",
)


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """One pipeline's sink. `pipeline` is also the consumer group and, with a prefix, the transactional id."""

    pipeline: str
    client: ClientSettings
    topic: str | None = None  #: for every row; overrides the column `topic`
    compression: Compression = Compression.NONE
    batch_bytes: int = DEFAULT_BATCH_BYTES
    transaction_timeout_ms: int = DEFAULT_TRANSACTION_TIMEOUT_MS
    small_batch_records: int = DEFAULT_SMALL_BATCH
    attempts_max: int = DEFAULT_ATTEMPTS
    protocol: TransactionProtocol | None = None  #: default: the cluster's newest
    permit_host: str | None = None  #: how executors reach the driver; default: `spark.driver.host`
    permit_port: int = 0  #: default: a free one
    state_directory: str = field(default_factory=default_directory)  #: on each machine; may be emptied at any time
    dead_letters: str | None = None  #: the topic for rows that cannot be written; without one they fail the batch
    replication_factor: int | None = None  #: of topics that the sink creates; default: that of the input topics
    fail_on_state_loss: bool = True  #: refuse a new checkpoint if the old one held something that Kafka does not hold
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES  #: only for Spark's standard writer API
    formats: Formats = NO_FORMATS  #: of keys and values
    is_columnar: bool = True  #: evaluate the query's SQL on columns if that is possible (`fencepost.spark.columnar`)

    @property
    def transactional_id(self) -> str:
        return transactional_id_of(self.pipeline)

    @classmethod
    def of(
        cls,
        pipeline: str,
        bootstrap_servers: str | None,
        topic: str | None = None,
        options: Mapping[str, object] | None = None,
        known: Sequence[str] = OPTIONS,
    ) -> "SinkSettings":
        """Checks everything that can be checked up front. Options that are not `known` are refused."""
        if not pipeline or not pipeline.strip():
            raise ConfigError("a pipeline needs a name: it is the consumer group, and identifies the pipeline's work")
        given = {name: str(value) for name, value in (options or {}).items() if value is not None}
        if bootstrap_servers is not None:
            given[BOOTSTRAP] = bootstrap_servers
        found = Options(given)
        found.refuse_unknown(known, "the sink")
        kafka = found.kafka()
        for name in ("transactional.id", "enable.idempotence", "acks"):
            if name in kafka and (name, kafka[name].lower()) not in (("enable.idempotence", "true"), ("acks", "all")):
                raise ConfigError(f"option 'kafka.{name}' cannot be set: the sink's guarantees depend on it")
        dead_letters = found.text("deadLetters")
        if dead_letters is not None and not is_topic_name(dead_letters):
            raise ConfigError(f"option 'deadLetters' must be the name of a topic, not {dead_letters!r}")
        return cls(
            pipeline=pipeline,
            client=client_settings(found),
            topic=topic or found.text("topic"),
            compression=Compression[found.one_of("kafka.compression.type", "none", CODECS).upper()],
            batch_bytes=_or(found.integer("kafka.batch.size", lowest=BATCH_BYTES_MIN), DEFAULT_BATCH_BYTES),
            transaction_timeout_ms=_or(found.integer("kafka.transaction.timeout.ms"), DEFAULT_TRANSACTION_TIMEOUT_MS),
            small_batch_records=_or(found.integer("smallBatchRecords", lowest=0), DEFAULT_SMALL_BATCH),
            attempts_max=_or(found.integer("maxAttempts"), DEFAULT_ATTEMPTS),
            protocol=PROTOCOLS[found.one_of("transactionProtocol", "auto", [*PROTOCOLS])],
            permit_host=found.text("permitHost"),
            permit_port=_or(found.integer("permitPort", lowest=0), 0),
            state_directory=found.text("stateDirectory") or default_directory(),
            fail_on_state_loss=found.flag("failOnStateLoss", True),
            dead_letters=dead_letters,
            replication_factor=found.integer("replicationFactor", lowest=1),
            max_batch_bytes=_or(found.integer("maxBatchBytes", lowest=BATCH_BYTES_MIN), DEFAULT_MAX_BATCH_BYTES),
            is_columnar=found.one_of("columnar", AUTO, [AUTO, OFF]) == AUTO,
            formats=Formats(*(_format(found, name) for name in ("keyFormat", "valueFormat"))),
        )


def _format(options: Options, name: str) -> str | None:
    given = options.text(name)
    if given is None:
        return None
    found = given if ":" in given else given.lower()
    try:
        named.find(found)
    except ConfigError as error:
        raise ConfigError(f"option {name!r}: {error}") from None
    return found


def _or(value: int | None, default: int) -> int:
    return default if value is None else value
