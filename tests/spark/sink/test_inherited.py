"""What write_stream learns from a query's plan, on a real Spark."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from fencepost.errors import ConfigError
from fencepost.spark import lag, write, write_stream
from fencepost.spark.sessions import tells_limits
from fencepost.spark.sink import plain
from fencepost.spark.sink.inherited import SourceSaid, sources_of
from tests import logins
from tests.conftest import unique
from tests.spark.checker import read_committed
from tests.spark.source.support import fill, load

Topic = Callable[..., str]
QUERY_TIMEOUT_S = 240


def test_a_pipeline_is_named_once_and_goes_on_without_its_checkpoint(
    spark: SparkSession, bootstrap: str, topic: Topic, tmp_path: Path
) -> None:
    source, target, pipeline = topic(2), topic(1), unique("pipeline")
    for start in range(2):
        fill(bootstrap, source, [f"{start}-{number}" for number in range(10)])
        purchases = load(spark.readStream, bootstrap, subscribe=source, pipeline=pipeline)
        rows = spark.sql("SELECT value FROM {rows}", rows=purchases)
        query = write_stream(
            rows,
            checkpoint=str(tmp_path / f"checkpoint-{start}"),
            topic=target,
            trigger={"availableNow": True},
            query_name=f"shop-{start}",
        )
        assert query.name == f"shop-{start}"
        assert query.awaitTermination(QUERY_TIMEOUT_S)
        found = lag(query)
        assert (found is not None) == tells_limits()
        assert found is None or found.metrics()["maxOffsetsBehindLatest"] == "0"
    expected = Counter(f"{start}-{number}" for start in range(2) for number in range(10))
    assert Counter(read_committed(bootstrap, target)) == expected


def test_all_sources_of_a_plan_are_seen_as_they_were_told(spark: SparkSession, bootstrap: str) -> None:
    one = load(spark.readStream, bootstrap, subscribe="a", PipeLine="shop").select("value")
    two = load(spark.readStream, "b:2", subscribe="b", **{"kafka.group.id": " shop "}).select("value")
    other = spark.readStream.format("rate").load().selectExpr("CAST('' AS BINARY) AS value")
    assert sources_of(one.union(two).union(other)) == [
        SourceSaid("shop", "pipeline", bootstrap),
        SourceSaid("shop", "kafka.group.id", "b:2"),
    ]


def test_a_source_of_another_pipeline_is_refused_before_anything_is_taken_over(
    spark: SparkSession, bootstrap: str
) -> None:
    source = load(spark.readStream, bootstrap, subscribe="a", **{"kafka.group.id": "billing"})
    rows = source.selectExpr("'out' AS topic", "value")
    said = r"pipeline is 'shop', but the source's option 'kafka\.group\.id' is 'billing'"
    with pytest.raises(ConfigError, match=said):
        write_stream(rows, pipeline="shop", bootstrap_servers="127.0.0.1:1", checkpoint="nowhere")


def test_a_batch_is_no_stream_and_takes_nothing_over(spark: SparkSession) -> None:
    rows = spark.range(1).selectExpr("'out' AS topic", "CAST(id AS STRING) AS value")
    with pytest.raises(Exception, match="WRITE_STREAM_NOT_ALLOWED"):
        write_stream(rows, pipeline="shop", bootstrap_servers="127.0.0.1:1", checkpoint="nowhere")


# -- batches -----------------------------------------------------------------------------------------------------------


def test_batches_that_are_given_no_id_use_the_same_ones_again(
    spark: SparkSession, bootstrap: str, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, used = topic(1), []

    class Noted(plain.SharedTransaction):
        def __init__(self, cluster: Any, transactional_id: str, **more: Any) -> None:
            used.append(transactional_id)
            super().__init__(cluster, transactional_id, **more)

    monkeypatch.setattr(plain, "SharedTransaction", Noted)
    rows = spark.range(20).select(sf.col("id").cast("string").alias("value"))

    def one(_: int) -> None:
        write(rows, bootstrap_servers=bootstrap, topic=name, options=logins.sink(bootstrap))

    one(0)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(one, range(4)))
    write(rows, bootstrap_servers=bootstrap, topic=name, transactional_id="mine", options=logins.sink(bootstrap))
    assert len(used) == 6
    assert used[-1] == "mine"
    assert len(set(used[:-1])) <= 2
    assert all(spark.sparkContext.applicationId in each for each in used[:-1])
    assert Counter(read_committed(bootstrap, name)) == Counter({str(number): 6 for number in range(20)})
