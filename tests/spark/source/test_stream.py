"""`spark.readStream.format("fencepost")` on a real Spark and a real broker."""

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from fencepost.client import Cluster
from fencepost.spark.sessions import tells_limits
from fencepost.spark.source.planner import lag_of
from fencepost.wire.terms import TopicPartition
from tests.conftest import grow_topic, wait_until
from tests.spark.numbers_job import EVERYTHING, end_when_done
from tests.spark.source.support import abort, commit, fill, load

Topic = Callable[..., str]
Sink = Callable[[DataFrame, int], None]
QUERY_TIMEOUT_S = 120


class Batches:
    """What each batch held, for `foreachBatch`."""

    def __init__(self) -> None:
        self.values: list[list[str]] = []

    def __call__(self, frame: DataFrame, _batch_id: int) -> None:
        rows = frame.select("value", "topic", "partition", "offset").orderBy("topic", "partition", "offset").collect()
        self.values.append([row.value.decode() for row in rows])

    @property
    def all(self) -> list[str]:
        return [value for batch in self.values for value in batch]


class Source:
    def __init__(self, spark: SparkSession, bootstrap: str, checkpoint: Path) -> None:
        self.spark, self.bootstrap, self.checkpoint = spark, bootstrap, checkpoint

    def start(self, sink: Sink, trigger: dict[str, Any] | None = None, **given: object) -> StreamingQuery:
        rows = load(self.spark.readStream, self.bootstrap, limitFirstBatch="true", **given)
        writer = rows.writeStream.foreachBatch(sink).option("checkpointLocation", str(self.checkpoint))
        return writer.trigger(**(trigger or EVERYTHING)).start()

    def run(self, **given: object) -> tuple[Batches, StreamingQuery]:
        """Everything that there is."""
        batches = Batches()
        query = self.start(batches, **given)
        end_when_done(query)
        assert query.awaitTermination(QUERY_TIMEOUT_S)
        return batches, query

    def logged(self, batch: int) -> dict[str, Any]:
        """The source's offset in Spark's log."""
        return json.loads((self.checkpoint / "offsets" / str(batch)).read_text().splitlines()[2])


@pytest.fixture
def source(spark: SparkSession, bootstrap: str, tmp_path: Path) -> Source:
    return Source(spark, bootstrap, tmp_path / "checkpoint")


def numbers(first: int, end: int) -> list[str]:
    return [str(index) for index in range(first, end)]


def test_available_now_reads_what_is_there_in_limited_batches_and_goes_on_after_a_restart(
    source: Source, bootstrap: str, topic: Topic
):
    name = topic(1)
    fill(bootstrap, name, numbers(0, 25))
    given = {"subscribe": name, "startingOffsets": "earliest", "maxOffsetsPerTrigger": 10}
    batches, query = source.run(**given)
    assert batches.values == [numbers(0, 10), numbers(10, 20), numbers(20, 25)]
    first = source.logged(0)
    assert (first[name], first["@from"]) == ({"0": 10}, {name: {"0": 0}})
    third = source.logged(2)
    assert (third[name], third.get("@from")) == ({"0": 25}, None)
    if tells_limits():  # earlier versions have no such field in their progress
        lags = [lag_of(progress.sources[0].latestOffset) for progress in query.recentProgress if progress.numInputRows]
        assert lags == [{TopicPartition(name, 0): left} for left in (15, 5, 0)]
    fill(bootstrap, name, numbers(25, 30))
    batches, _ = source.run(**given)
    assert batches.all == numbers(25, 30)


def test_a_live_query_sees_committed_records_and_new_partitions(
    source: Source, cluster: Cluster, bootstrap: str, topic: Topic
):
    name = topic(1)
    fill(bootstrap, name, ["before"])
    batches = Batches()
    query = source.start(batches, {"processingTime": "100 milliseconds"}, subscribe=name)
    with contextlib.ExitStack() as ending:
        ending.callback(query.stop)
        wait_until(lambda: query.lastProgress is not None, "the query has begun", QUERY_TIMEOUT_S)
        abort(bootstrap, name, ["aborted"])
        commit(bootstrap, name, ["committed"])
        wait_until(lambda: "committed" in batches.all, "the transaction is read", QUERY_TIMEOUT_S)
        grow_topic(cluster, name, 2)
        fill(bootstrap, name, ["grown"], 1)
        wait_until(lambda: "grown" in batches.all, "the new partition is read", QUERY_TIMEOUT_S)
        assert query.exception() is None
    assert batches.all == ["committed", "grown"]
    assert len(source.logged(len(batches.values) - 1)[name]) == 2


def test_a_first_batch_that_failed_is_read_again_from_where_it_began(source: Source, bootstrap: str, topic: Topic):
    """With startingOffsets=latest, which is elsewhere by then: Spark runs the first batch even when it is empty."""
    name = topic(1)
    fill(bootstrap, name, ["before"])

    def fails(frame: DataFrame, batch_id: int) -> None:
        raise RuntimeError(f"on purpose, in batch {batch_id} with {frame.count()} rows")

    with pytest.raises(Exception, match="on purpose, in batch 0 with 0 rows"):
        source.start(fails, subscribe=name).awaitTermination(QUERY_TIMEOUT_S)
    first = source.logged(0)
    assert (first[name], first["@from"]) == ({"0": 1}, {name: {"0": 1}})
    fill(bootstrap, name, numbers(0, 3))
    batches, _ = source.run(subscribe=name)
    assert batches.values == [[], numbers(0, 3)]
