"""One micro-batch as the user writes it: several DataFrames in the batch's one transaction.

Writes are only recorded here, and carried out when the block ends. So a failed attempt can be aborted and repeated
without running the user's code again.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Self

from fencepost.errors import ConfigError, FencepostError, InvariantBroken
from fencepost.spark.sink.columns import select_columns, with_topic
from fencepost.spark.sink.microbatch import MicroBatch
from fencepost.spark.state.plan import State
from fencepost.spark.state.step import StatefulStep

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from fencepost.spark.sink.pipeline import Pipeline

#: Makes the records of one write, for one attempt at the batch.
Write = Callable[[State], "DataFrame"]


class Batch:
    """What `writer.batch(df, batch_id)` returns, for use in a `with` block."""

    def __init__(self, pipeline: "Pipeline", df: "DataFrame", batch_id: int) -> None:
        self.df = df
        self.batch_id = batch_id
        self.writes: list[Write] = []
        self._pipeline = pipeline
        self._found: MicroBatch | None = None  #: inside of the block

    def __enter__(self) -> Self:
        self._found = self._pipeline.begin_batch(self.df, self.batch_id)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        found, self._found = self._found, None
        if found is None:
            return
        try:
            self._pipeline.end_batch(self, found, has_failed=kind is not None)
        except InvariantBroken:
            raise
        except FencepostError as error:  # Spark makes its message of the traceback, and ours needs none
            raise error.with_traceback(None) from None

    def __del__(self) -> None:
        """A block that never ended has written nothing."""
        found, self._found = self._found, None
        if found is not None:
            with contextlib.suppress(Exception):
                self._pipeline.end_batch(self, found, has_failed=True)

    def write(self, rows: "DataFrame", topic: str | None = None) -> None:
        """Write these rows when the block ends. They have the columns of Spark's Kafka sink.

        `topic` is for all rows and overrides the column `topic`. Raises ConfigError if a column is missing or wrong.
        """
        settings = self._pipeline.settings
        if self._pipeline.takes_tables:
            raise ConfigError("a writer with transform_arrow takes whole batches: call writer(df, batch_id)")
        topic = topic or settings.topic
        records = select_columns(rows, topic, settings.dead_letters, settings.formats)
        if topic is not None:
            records = with_topic(records, topic)
        self.add(lambda _state: records)

    def update(self, rows: "DataFrame", step: StatefulStep) -> None:
        """Give these rows to a stateful step, and write its changes and outputs when the block ends."""
        dead_letters = self._pipeline.settings.dead_letters
        self.add(lambda state: select_columns(state.update(rows, step), None, dead_letters))

    def add(self, write: Write) -> None:
        if self._found is None:
            raise ConfigError("write to a batch inside its block: with writer.batch(df, batch_id) as batch: …")
        self.writes.append(write)

    @contextlib.contextmanager
    def shared(self, writes: Sequence[Write]) -> Iterator[None]:
        """During an attempt the batch's rows are computed once for all of its writes.

        Otherwise a query with `uuid()` would give each write other values, and Spark's own state would be updated once
        per write.
        """
        from pyspark.storagelevel import StorageLevel

        if len(writes) < 2 or self.df.storageLevel != StorageLevel.NONE:
            yield
            return
        self.df.persist()
        try:
            yield
        finally:
            self.df.unpersist()
