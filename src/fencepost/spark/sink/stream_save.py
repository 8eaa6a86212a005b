"""`df.writeStream.format("fencepost").start()`: a streaming query through Spark's standard writer API, exactly once.

Tasks make finished record batches (`encoded`), and a process on the driver's machine writes those of a micro-batch in
one transaction (`stream_commit`). Spark tells a writer only the number of the batch. The rest is found out here:

================  ======================================================================================================
the query's id    a property of every task of the query
its checkpoint    the option `checkpointLocation`, which Spark passes on; or the session's setting, another property of
                  the task, and the query's name
offsets, state    in the checkpoint, if this process can read it (`logged`)
================  ======================================================================================================
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from fencepost.client.settings import ClientSettings
from fencepost.errors import BatchFailed, BatchRefused, ConfigError
from fencepost.spark.options import Options
from fencepost.spark.plain_errors import one_line
from fencepost.spark.sink.columns import check_columns
from fencepost.spark.sink.encoded import Encoded, all_blobs, encode, encode_settings
from fencepost.spark.sink.logged import find_query, read_batch
from fencepost.spark.sink.queries import QUERY_ID_PROPERTY
from fencepost.spark.sink.settings import WRITER_API_OPTIONS, SinkSettings
from fencepost.spark.sink.stream_commit import commit_batch
from fencepost.spark.workers import cluster_for, patient

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as _ArrowWriter
elif hasattr(datasource, "DataSourceStreamArrowWriter"):
    _ArrowWriter = datasource.DataSourceStreamArrowWriter
else:

    class _ArrowWriter(DataSourceStreamWriter, DataSourceArrowWriter):
        """Spark 4.0 gives Arrow batches to a writer of the second kind, also in a stream."""


CHECKPOINT, QUERY_NAME = "checkpointLocation", "queryName"
#: Properties of a query's tasks, beside its id: the id of the run, the batch's number, and the session's setting.
RUN_ID_PROPERTY = "spark.jobGroup.id"
BATCH_ID_PROPERTY = "streaming.sql.batchId"
CHECKPOINT_SETTING = "spark.sql.streaming.checkpointLocation"


@dataclass(frozen=True, slots=True)
class Origin:
    """What a task knows about its query."""

    query_id: str | None
    run_id: str
    batch_id: int
    checkpoints: str | None  #: the session's directory for checkpoints


@dataclass
class EncodedOf(Encoded):
    """A task's record batches, and the query they belong to."""

    origin: Origin


class StreamWriter(_ArrowWriter):
    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        """Checks everything that can be checked before the first batch."""
        given = Options(options)
        pipeline = given.text("pipeline")
        if not pipeline:
            raise ConfigError(
                "option 'pipeline' must be specified: the consumer group of the query, which identifies its work in "
                "Kafka. Two queries must not share a name"
            )
        self._checkpoint, self._query_name = given.text(CHECKPOINT), given.text(QUERY_NAME)
        aside = {name.lower() for name in ("pipeline", CHECKPOINT, QUERY_NAME)}
        rest = {name: value for name, value in options.items() if name.lower() not in aside}
        self._settings = SinkSettings.of(pipeline, None, None, rest, WRITER_API_OPTIONS)
        settings = self._settings
        kinds = {field.name: field.dataType for field in schema}
        check_columns(kinds, settings.topic, settings.dead_letters, settings.formats)

    @one_line()
    def write(self, iterator: Iterator[Any]) -> EncodedOf:
        """In a task."""
        settings, origin = self._settings, _origin()
        how = encode_settings(settings, self._client(origin.batch_id), origin.batch_id)
        blobs = encode(how, iterator, settings.max_batch_bytes, self._too_large(origin.batch_id))
        return EncodedOf(blobs, origin)

    @one_line()
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """In a process on the driver's machine, when all tasks have succeeded."""
        origins = {message.origin for message in messages if isinstance(message, EncodedOf)}
        if len({origin.query_id for origin in origins} - {None}) != 1:
            raise BatchRefused(
                f"batch {batchId}: Spark does not tell which query it belongs to, so it could be written twice. "
                "Nothing was written. Write with fencepost.spark.write_stream"
            )
        if sum(message.size for message in messages if isinstance(message, Encoded)) > self._settings.max_batch_bytes:
            raise self._too_large(batchId)
        origin = origins.pop()
        query = find_query(str(origin.query_id), origin.run_id, self._root(origin))
        cluster = cluster_for(self._client(batchId))
        commit_batch(cluster, self._settings, query, read_batch(query, batchId), all_blobs(messages))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing has been written."""

    def _root(self, origin: Origin) -> str | None:
        """The query's checkpoint, as Spark chooses it. Without a name, it has a name that only Spark knows."""
        if self._checkpoint:
            return self._checkpoint
        if origin.checkpoints and self._query_name:
            return f"{origin.checkpoints.rstrip('/')}/{self._query_name}"
        return None

    def _client(self, batch_id: int) -> ClientSettings:
        """A wrong address fails at once, in the first batch. Later, a broker that goes away is waited for."""
        client = self._settings.client
        return client if batch_id == 0 else patient(client)

    def _too_large(self, batch_id: int) -> BatchFailed:
        limit = self._settings.max_batch_bytes
        return BatchFailed(
            f"pipeline {self._settings.pipeline!r}: batch {batch_id} has more than {limit / (1 << 20):.0f} MiB of "
            "records, too much to send through the driver. Nothing was written. Raise the writer's option "
            "maxBatchBytes, and spark.driver.memory with it; or continue with fencepost.spark.write_stream on the same "
            "checkpoint, which has no such limit. The source's option maxOffsetsPerTrigger limits the batches that "
            "Spark has not planned yet"
        )


def _origin() -> Origin:
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return Origin(None, "", 0, None)
    return Origin(
        context.getLocalProperty(QUERY_ID_PROPERTY),
        context.getLocalProperty(RUN_ID_PROPERTY) or "",
        int(context.getLocalProperty(BATCH_ID_PROPERTY) or 0),
        context.getLocalProperty(CHECKPOINT_SETTING),
    )
