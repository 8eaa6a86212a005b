"""The ways in which people write a stream with fencepost: each starts a query."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost.spark import batch_writer, write_stream
from fencepost.spark.sink import steps
from fencepost.spark.sink.pipeline import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from fencepost.spark.state import State, StatefulStep


PARQUET = "parquet"


@dataclass
class Start:
    """What a query is started with."""

    records: "DataFrame"  #: streaming
    pipeline: str
    bootstrap: str
    checkpoint: Path
    home: Path
    outputs: Mapping[str, str]
    mode: str
    trigger: Mapping[str, Any]
    options: Mapping[str, str]
    writers: list[Pipeline] = field(default_factory=list)  #: what was made for it, to be closed after it

    @property
    def topic(self) -> str | None:
        """For all records, unless they say it themselves."""
        return None if "topic" in self.records.columns else self.outputs["out"]

    def writer(self, **more: Any) -> Pipeline:
        given = {"pipeline": self.pipeline, "bootstrap_servers": self.bootstrap, "options": self.options}
        made = batch_writer(**{**given, **more})
        self.writers.append(made)
        return made

    def write_stream(self, **more: Any) -> "StreamingQuery":
        return write_stream(
            self.records,
            pipeline=self.pipeline,
            bootstrap_servers=self.bootstrap,
            checkpoint=str(self.checkpoint),
            trigger=self.trigger,
            options=self.options,
            **more,
        )

    def start(self, function: "Callable[[DataFrame, int], None]") -> "StreamingQuery":
        writer = (
            self.records.writeStream.outputMode(self.mode)
            .foreachBatch(function)
            .option("checkpointLocation", str(self.checkpoint))
        )
        return (writer.trigger(**self.trigger) if self.trigger else writer).start()


Sink = Callable[[Start], "StreamingQuery"]


def by_write_stream(start: Start) -> "StreamingQuery":
    return start.write_stream(topic=start.topic, output_mode=start.mode)


def by_foreach_batch(start: Start) -> "StreamingQuery":
    return start.start(start.writer(topic=start.topic))


def beside_parquet(start: Start) -> "StreamingQuery":
    """The same records also into files, under the number of their batch: one that is repeated replaces them."""
    writer = start.writer(topic=start.topic)

    def write(df: "DataFrame", batch_id: int) -> None:
        df.persist()
        df.write.mode("overwrite").parquet(str(start.home / PARQUET / f"batch={batch_id}"))
        writer(df, batch_id)
        df.unpersist()

    return start.start(write)


def counting_first(start: Start) -> "StreamingQuery":
    """As people do to leave out empty batches: the plan runs twice."""
    writer = start.writer(topic=start.topic)

    def write(df: "DataFrame", batch_id: int) -> None:
        if df.count() >= 0:
            writer(df, batch_id)

    return start.start(write)


def unless_empty(start: Start) -> "StreamingQuery":
    """As people do, too: what writes nothing is not written."""
    writer = start.writer(topic=start.topic)

    def write(df: "DataFrame", batch_id: int) -> None:
        if df.isEmpty():
            return
        writer(df, batch_id)

    return start.start(write)


#: Where a `before_something_else` may die.
AFTER_WRITER = "AFTER_WRITER"


def before_something_else(start: Start) -> "StreamingQuery":
    """What comes after the writer may fail, too; files, for instance, which are told by the number of their batch."""
    writer = start.writer(topic=start.topic)

    def write(df: "DataFrame", batch_id: int) -> None:
        writer(df, batch_id)
        steps.hook(AFTER_WRITER, batch_id)  # type: ignore[arg-type]
        df.write.mode("overwrite").parquet(str(start.home / PARQUET / f"batch={batch_id}"))

    return start.start(write)


def two_pipelines(start: Start) -> "StreamingQuery":
    """Two writers in one function, each with a transaction of its own."""
    first = start.writer(topic=start.outputs["out"])
    second = start.writer(topic=start.outputs["right"], pipeline=f"{start.pipeline}-2")

    def write(df: "DataFrame", batch_id: int) -> None:
        first(df, batch_id)
        second(df, batch_id)

    return start.start(write)


def with_step(make_step: "Callable[[str], StatefulStep]", *, also_rows: bool = False) -> Sink:
    """`write_stream` with a transform that hands all rows to one step of ours, and with `also_rows` writes them too."""

    def run(start: Start) -> "StreamingQuery":
        step = make_step(start.outputs["out"])

        def transform(batch: "DataFrame", state: "State") -> "DataFrame":
            rows = state.keep(batch)
            updated = state.update(rows, step)
            if not also_rows:
                return updated
            plain = numbered(rows).selectExpr(f"'{start.outputs['rows']}' AS topic", "*")
            return updated.unionByName(plain, allowMissingColumns=True)

        return start.write_stream(transform=transform)

    return run


def with_two_steps(make_step: "Callable[[str], StatefulStep]") -> Sink:
    """Each with a state of its own: one of all rows, one of even numbers."""

    def run(start: Start) -> "StreamingQuery":
        every = make_step(start.outputs["out"])
        even = dataclasses.replace(make_step(start.outputs["right"]), name="even")

        def transform(batch: "DataFrame", state: "State") -> "DataFrame":
            rows = state.keep(batch)
            return state.update(rows, every).unionByName(state.update(rows.where("n % 2 = 0"), even))

        return start.write_stream(transform=transform)

    return run


def several_writes(make_step: "Callable[[str], StatefulStep]") -> Sink:
    """In one block: rows, the same to a topic by its name, and a step of ours."""

    def run(start: Start) -> "StreamingQuery":
        writer, step = start.writer(), make_step(start.outputs["out"])

        def write(df: "DataFrame", batch_id: int) -> None:
            with writer.batch(df, batch_id) as batch:
                batch.write(numbered(df.where("n % 2 = 0")), topic=start.outputs["rows"])
                batch.update(df, step)
                batch.write(numbered(df.where("n % 2 = 1")).selectExpr(f"'{start.outputs['rows']}' AS topic", "*"))

        return start.start(write)

    return run


def two_writes(start: Start) -> "StreamingQuery":
    """The same rows into two topics."""
    writer = start.writer()

    def write(df: "DataFrame", batch_id: int) -> None:
        records = df.selectExpr("k AS key", "to_json(struct(*)) AS value")
        with writer.batch(df, batch_id) as batch:
            for label in ("out", "rows"):
                batch.write(records, topic=start.outputs[label])

    return start.start(write)


def in_two_writes(start: Start) -> "StreamingQuery":
    """The records of a batch in two parts."""
    writer = start.writer(topic=start.topic)

    def write(df: "DataFrame", batch_id: int) -> None:
        with writer.batch(df, batch_id) as batch:
            batch.write(df.where("hash(value) % 2 = 0"))
            batch.write(df.where("hash(value) % 2 != 0"))

    return start.start(write)


def numbered(rows: "DataFrame") -> "DataFrame":
    """Records under the numbers of their rows."""
    return rows.selectExpr("CAST(n AS STRING) AS key", "to_json(struct(*)) AS value")
