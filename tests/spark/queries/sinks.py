"""The ways in which people write a stream with fencepost: each starts a query."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fencepost.spark import batch_writer, write_stream
from fencepost.spark.sink import steps
from fencepost.spark.sink.pipeline import Pipeline
from tests.spark.queries.acts import AFTER_WRITER
from tests.spark.queries.given import Place
from tests.spark.queries.steps import totals_step

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from fencepost.spark.state import State

PARQUET = "parquet"
#: The label of a topic for dead letters.
DEAD = "dead"


@dataclass
class Start:
    """What a query is started with."""

    records: "DataFrame"  #: streaming
    place: Place
    mode: str
    trigger: Mapping[str, Any]
    options: Mapping[str, str]
    writers: list[Pipeline] = field(default_factory=list)  #: what was made for it, to be closed after it

    @property
    def outputs(self) -> Mapping[str, str]:
        return self.place.outputs

    @property
    def topic(self) -> str | None:
        """For all records, unless they say it themselves."""
        return None if "topic" in self.records.columns else self.outputs["out"]

    def _settings(self, more: Mapping[str, Any]) -> dict[str, Any]:
        where = {"pipeline": self.place.pipeline, "bootstrap_servers": self.place.bootstrap}
        options = {"stateDirectory": str(self.place.home / "state"), **self.options}
        if DEAD in self.outputs:
            options["deadLetters"] = self.outputs[DEAD]
        return {**where, "options": options, **more}

    def writer(self, **more: Any) -> Pipeline:
        made = batch_writer(**self._settings(more))
        self.writers.append(made)
        return made

    def write_stream(self, **more: Any) -> "StreamingQuery":
        given = {"checkpoint": str(self.place.checkpoint), "trigger": self.trigger, **self._settings(more)}
        return write_stream(self.records, **given)

    def start(self, function: "Callable[[DataFrame, int], None]") -> "StreamingQuery":
        writer = (
            self.records.writeStream.outputMode(self.mode)
            .foreachBatch(function)
            .option("checkpointLocation", str(self.place.checkpoint))
        )
        return (writer.trigger(**self.trigger) if self.trigger else writer).start()

    def write_parquet(self, df: "DataFrame", batch_id: int) -> None:
        df.write.mode("overwrite").parquet(str(self.place.home / PARQUET / f"batch={batch_id}"))


Sink = Callable[[Start], "StreamingQuery"]


def by_write_stream(start: Start) -> "StreamingQuery":
    return start.write_stream(topic=start.topic, output_mode=start.mode)


def by_foreach_batch(start: Start) -> "StreamingQuery":
    return start.start(start.writer(topic=start.topic))


def foreach_batch(write: "Callable[[Start, Pipeline, DataFrame, int], None]") -> Sink:
    """A function of people's own around one writer."""

    def sink(start: Start) -> "StreamingQuery":
        writer = start.writer(topic=start.topic)
        return start.start(lambda df, batch_id: write(start, writer, df, batch_id))

    return sink


@foreach_batch
def beside_parquet(start: Start, writer: Pipeline, df: "DataFrame", batch_id: int) -> None:
    """The same records also into files, under the number of their batch: one that is repeated replaces them."""
    df.persist()
    start.write_parquet(df, batch_id)
    writer(df, batch_id)
    df.unpersist()


@foreach_batch
def counting_first(start: Start, writer: Pipeline, df: "DataFrame", batch_id: int) -> None:
    """As people do to leave out empty batches: the plan runs twice."""
    if df.count() >= 0:
        writer(df, batch_id)


@foreach_batch
def unless_empty(start: Start, writer: Pipeline, df: "DataFrame", batch_id: int) -> None:
    """As people do, too: an empty batch is not written."""
    if not df.isEmpty():
        writer(df, batch_id)


@foreach_batch
def before_something_else(start: Start, writer: Pipeline, df: "DataFrame", batch_id: int) -> None:
    """What comes after the writer may fail, too; files, for instance, which are told by the number of their batch."""
    writer(df, batch_id)
    steps.hook(AFTER_WRITER, batch_id)  # type: ignore[arg-type]
    start.write_parquet(df, batch_id)


@foreach_batch
def in_two_writes(start: Start, writer: Pipeline, df: "DataFrame", batch_id: int) -> None:
    """The records of a batch in two parts."""
    with writer.batch(df, batch_id) as batch:
        batch.write(df.where("hash(value) % 2 = 0"))
        batch.write(df.where("hash(value) % 2 != 0"))


def to_each_output(start: Start) -> "StreamingQuery":
    """The same records into every topic, by one write each."""
    writer = start.writer()

    def write(df: "DataFrame", batch_id: int) -> None:
        with writer.batch(df, batch_id) as batch:
            for topic in start.outputs.values():
                batch.write(df, topic=topic)

    return start.start(write)


def two_pipelines(start: Start) -> "StreamingQuery":
    """Two writers in one function, each with a transaction of its own."""
    first = start.writer(topic=start.outputs["out"])
    second = start.writer(topic=start.outputs["right"], pipeline=f"{start.place.pipeline}-2")

    def write(df: "DataFrame", batch_id: int) -> None:
        first(df, batch_id)
        second(df, batch_id)

    return start.start(write)


def with_step(start: Start) -> "StreamingQuery":
    """`write_stream` with a transform that hands all rows to one step of ours."""
    step = totals_step(start.outputs["out"])
    return start.write_stream(transform=lambda batch, state: state.update(state.keep(batch), step))


def with_step_and_rows(start: Start) -> "StreamingQuery":
    """The rows themselves, too."""
    step = totals_step(start.outputs["out"])

    def transform(batch: "DataFrame", state: "State") -> "DataFrame":
        rows = state.keep(batch)
        plain = numbered(rows).selectExpr(f"'{start.outputs['rows']}' AS topic", "*")
        return state.update(rows, step).unionByName(plain, allowMissingColumns=True)

    return start.write_stream(transform=transform)


def with_two_steps(start: Start) -> "StreamingQuery":
    """Each with a state of its own: one of all rows, one of even numbers."""
    every = totals_step(start.outputs["out"])
    even = dataclasses.replace(totals_step(start.outputs["right"]), name="even")

    def transform(batch: "DataFrame", state: "State") -> "DataFrame":
        rows = state.keep(batch)
        return state.update(rows, every).unionByName(state.update(rows.where("n % 2 = 0"), even))

    return start.write_stream(transform=transform)


def several_writes(start: Start) -> "StreamingQuery":
    """In one block: rows, the same to a topic by its name, and a step of ours."""
    writer, step = start.writer(), totals_step(start.outputs["out"])

    def write(df: "DataFrame", batch_id: int) -> None:
        with writer.batch(df, batch_id) as batch:
            batch.write(numbered(df.where("n % 2 = 0")), topic=start.outputs["rows"])
            batch.update(df, step)
            batch.write(numbered(df.where("n % 2 = 1")).selectExpr(f"'{start.outputs['rows']}' AS topic", "*"))

    return start.start(write)


def numbered(rows: "DataFrame") -> "DataFrame":
    """Records under the numbers of their rows."""
    return rows.selectExpr("CAST(n AS STRING) AS key", "to_json(struct(*)) AS value")
