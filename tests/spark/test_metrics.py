"""Metrics of pipelines in the driver: what Prometheus scrapes, and what OpenTelemetry would push."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.metrics import set_meter_provider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from pyspark.sql import SparkSession

from fencepost.errors import ConfigError
from fencepost.spark import metrics
from fencepost.spark.metrics.otel import OpenTelemetryListener
from tests.conftest import wait_until
from tests.metrics.support import Scrape
from tests.metrics.test_page import PAGE
from tests.pages import blocks
from tests.spark.state.test_stateful_step import Till


@pytest.fixture
def till(spark: SparkSession, bootstrap: str, topic: Callable[..., str], tmp_path: Path) -> Till:
    return Till(spark, bootstrap, topic, tmp_path)


@pytest.fixture
def serving(spark: SparkSession) -> Iterator[metrics.Serving]:
    with metrics.serve("127.0.0.1:0", spark) as served:
        yield served


@pytest.fixture
def pushed(spark: SparkSession) -> Iterator[InMemoryMetricReader]:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    listener = OpenTelemetryListener(provider, spark)
    spark.streams.addListener(listener)
    yield reader
    spark.streams.removeListener(listener)
    listener.close()
    provider.shutdown()


def test_a_pipeline_with_state_is_measured(
    till: Till, serving: metrics.Serving, pushed: InMemoryMetricReader, bootstrap: str
) -> None:
    step = till.step()
    till.buy(["ada", "bob", "ada"])
    till.run(step)
    shutil.rmtree(till.state_directory)
    till.buy(["bob"])
    till.run(step)

    def found(name: str, **labels: str) -> float:
        return Scrape.of(serving.url).value(name, pipeline=till.pipeline, **labels)

    assert found("fencepost_pipeline_batches_total", outcome="committed") == 2
    assert found("fencepost_pipeline_attempts_total") == 2
    assert found("fencepost_pipeline_records_total") == 6, "two outputs and two changes, then one of each"
    assert found("fencepost_pipeline_aborts_total") == 0
    assert found("fencepost_pipeline_written_bytes_total") > 0
    assert found("fencepost_pipeline_commit_seconds_count") == 2
    assert found("fencepost_pipeline_last_commit_timestamp_seconds") > 1_700_000_000
    assert found("fencepost_pipeline_state_restored_records_total") >= 1, "the cache was lost, the changelog was read"
    assert found("fencepost_pipeline_state_restore_seconds_total") > 0
    wait_until(lambda: found("fencepost_query_input_rows_total") == 4, "Spark's progress")
    assert found("fencepost_query_lag_offsets") == 0
    wait_until(lambda: found("fencepost_query_active") == 0, "the end of the query")
    assert found("fencepost_query_failed") == 0
    assert found("fencepost_query_batch_seconds_count") >= 2
    assert exported(pushed, "fencepost.pipeline.batches", till.pipeline) == 2
    assert exported(pushed, "fencepost.pipeline.records", till.pipeline) == 6
    assert exported(pushed, "fencepost.query.lag", till.pipeline) == 0
    assert exported(pushed, "fencepost.pipeline.commit_time", till.pipeline) == 2, "two in the histogram"


def test_the_blocks_of_the_page_run(spark: SparkSession) -> None:
    text = {each.name: each for each in blocks(PAGE)}
    found: dict[str, Any] = {"spark": spark}
    provider = MeterProvider([InMemoryMetricReader()])
    set_meter_provider(provider)
    exec(text["pipeline"].filled({'127.0.0.1:9465")': '127.0.0.1:0")'}), found)
    assert "fencepost_pipeline_batches_total" in Scrape.of(found["serving"].url).names
    found["serving"].close()
    line = text["otel"].filled({"spark.streams.addListener(": "listener = ("})
    exec(line, found)
    spark.streams.addListener(found["listener"])
    spark.streams.removeListener(found["listener"])
    found["listener"].close()
    provider.shutdown()


def exported(reader: InMemoryMetricReader, name: str, pipeline: str) -> float:
    data = reader.get_metrics_data()
    assert data is not None
    (point,) = [
        point
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.name == name
        for point in metric.data.data_points
        if point.attributes is not None and point.attributes["pipeline"] == pipeline
    ]
    return getattr(point, "count", None) or getattr(point, "value", 0)


def test_a_port_that_is_taken_is_a_mistake_of_the_user(serving: metrics.Serving, spark: SparkSession) -> None:
    taken = serving.url.removeprefix("http://").removesuffix("/metrics")
    with pytest.raises(ConfigError, match=f"metrics cannot be served at {taken}"):
        metrics.serve(taken, spark)
