"""One micro-batch as its user writes it: several DataFrames, all of them in the batch's one transaction.

What is written is only noted down here, and done when the block ends: then a failed attempt can be undone and made
again without running the user's code again.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from fencepost.errors import ConfigError
from fencepost.spark.sink.jobs import select_columns, with_topic
from fencepost.spark.sink.microbatch import MicroBatch
from fencepost.spark.state.plan import State
from fencepost.spark.state.step import StatefulStep

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from fencepost.spark.sink.pipeline import Pipeline

#: Makes the records of one write, for one attempt at the batch.
Write = Callable[[State], "DataFrame"]


class Batch:
    """What `writer.batch(df, batch_id)` gives; for use in a `with` block."""

    def __init__(self, pipeline: "Pipeline", df: "DataFrame", batch_id: int) -> None:
        self.df = df
        self.batch_id = batch_id
        self.writes: list[Write] = []
        self._pipeline = pipeline
        self._found: MicroBatch | None = None  #: inside of the block

    def __enter__(self) -> Self:
        self._found = self._pipeline.begin_batch(self.df, self.batch_id)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        found, self._found = self._found, None
        if found is not None:
            self._pipeline.end_batch(self, found, has_failed=kind is not None)

    def __del__(self) -> None:
        """A block that nobody ended has written nothing."""
        found, self._found = self._found, None
        if found is not None:
            with contextlib.suppress(Exception):
                self._pipeline.end_batch(self, found, has_failed=True)

    def write(self, rows: "DataFrame", topic: str | None = None) -> None:
        """Write these rows, which have the columns of Spark's Kafka sink, when the block ends.

        `topic` is for all of them, whatever the column `topic` says. ConfigError when they do not make records.
        """
        topic = topic or self._pipeline.settings.topic
        records = select_columns(rows, topic)
        if topic is not None:
            records = with_topic(records, topic)
        self.add(lambda _state: records)

    def update(self, rows: "DataFrame", step: StatefulStep) -> None:
        """Have a stateful step take these rows, and write its changes and outputs."""
        self.add(lambda state: select_columns(state.update(rows, step), None))

    def add(self, write: Write) -> None:
        if self._found is None:
            raise ConfigError("a batch is written to inside its block: with writer.batch(df, batch_id) as batch: …")
        self.writes.append(write)

    @contextlib.contextmanager
    def shared(self, writes: Sequence[Write]) -> Iterator[None]:
        """While an attempt runs: the batch's rows are computed once, however many writes are made of them.

        Otherwise a query with `uuid()` would give each write other values, and state of Spark's would be updated once
        for each write.
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
