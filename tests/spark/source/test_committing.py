"""The option `commitOffsets`: a consumer group follows a query, whatever its sink is."""

import logging
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, IsolationLevel, TopicPartition
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from fencepost.client.connection import PLAINTEXT
from fencepost.client.settings import ClientSettings
from fencepost.errors import ConfigError
from fencepost.spark.offsets_json import SourceOffset
from fencepost.spark.sessions import tells_limits
from fencepost.spark.source.committing import OffsetCommitter
from fencepost.spark.source.read_options import ReadKind
from fencepost.wire import terms
from tests import logins
from tests.conftest import ROOT, unique, wait_until
from tests.logins import of
from tests.pages import block
from tests.spark.checker import ends_of
from tests.spark.numbers_job import EVERYTHING
from tests.spark.source.support import abort, commit, load, options

TIMEOUT_S = 120


def committed(bootstrap: str, group: str, topic: str) -> int:
    consumer = Consumer({**logins.confluent(bootstrap), "group.id": group})
    found = consumer.committed([TopicPartition(topic, 0)], timeout=30)[0].offset
    consumer.close()
    return max(0, int(found))


def end_of(bootstrap: str, topic: str) -> int:
    return ends_of(bootstrap, topic, IsolationLevel.READ_UNCOMMITTED)[0]


def rows(spark: SparkSession, bootstrap: str, topic: str, group: str, **more: object) -> DataFrame:
    given = {"subscribe": topic, "startingOffsets": "earliest", "kafka.group.id": group, "commitOffsets": "true"}
    return load(spark.readStream, bootstrap, **given, **more)


def test_the_group_stands_at_the_end_of_a_topic_that_was_read(
    spark: SparkSession, bootstrap: str, topic: Callable[..., str], tmp_path: Path
) -> None:
    """Also past the markers of transactions, so that the lag of an idle topic is 0.

    Before Spark 4.2 a query with `availableNow` is not asked again after its last batch. The next start commits it.
    """
    name, group = topic(1), unique("group")
    for number in range(3):
        commit(bootstrap, name, ["a", "b", "c"])
        abort(bootstrap, name, ["d"])
        writer = rows(spark, bootstrap, name, group).writeStream.format("parquet").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).option("path", str(tmp_path / "out"))
        assert writer.start().awaitTermination(TIMEOUT_S)
        assert end_of(bootstrap, name) == 6 * (number + 1)
        assert committed(bootstrap, group, name) == 6 * (number + 1 if tells_limits() else number)


def test_the_example_of_the_page_on_the_source_runs(
    spark: SparkSession, bootstrap: str, topic: Callable[..., str], tmp_path: Path
) -> None:
    if of(bootstrap) != PLAINTEXT:
        pytest.skip("the example has no login")
    name, group = topic(1), unique("group")
    program = block("any-sink", ROOT / "docs" / "source.md").text
    found = {"spark": spark, "servers": bootstrap}
    exec(program.replace('"purchases"', f'"{name}"').replace("purchases-to-files", group), found)
    writer = found["purchases"].writeStream.format("noop").option("checkpointLocation", str(tmp_path))  # type: ignore[attr-defined]
    assert writer.trigger(availableNow=True).start().awaitTermination(TIMEOUT_S)  # begins at the end, as Spark's source
    commit(bootstrap, name, ["a", "b"])
    query = writer.trigger(**EVERYTHING).start()
    wait_until(lambda: committed(bootstrap, group, name) == end_of(bootstrap, name) == 3, "it is committed", TIMEOUT_S)
    query.stop()


def test_a_running_query_commits_its_last_batch_while_it_waits_for_more(
    spark: SparkSession, bootstrap: str, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, group = topic(1), unique("group")
    commit(bootstrap, name, ["a", "b"])
    writer = rows(spark, bootstrap, name, group).writeStream.format("noop")
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(processingTime="50 milliseconds").start()
    try:
        for count in (3, 6):
            wait_until(lambda: committed(bootstrap, group, name) == count, "the batch is committed", TIMEOUT_S)  # noqa: B023
            commit(bootstrap, name, ["c", "d"])
    finally:
        query.stop()


def test_nothing_is_committed_before_its_batch_is_complete(
    spark: SparkSession, bootstrap: str, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, group = topic(1), unique("group")
    commit(bootstrap, name, ["a", "b", "c", "d"])
    seen: list[int] = []

    def each(batch: DataFrame, batch_id: int) -> None:
        batch.count()
        seen.append(committed(bootstrap, group, name))
        if batch_id == 2:
            raise ValueError("it fails")

    source = rows(spark, bootstrap, name, group, maxOffsetsPerTrigger=1, limitFirstBatch="true")
    writer = source.writeStream.foreachBatch(each).option("checkpointLocation", str(tmp_path)).trigger(**EVERYTHING)
    with pytest.raises(StreamingQueryException, match="it fails"):
        writer.start().awaitTermination(TIMEOUT_S)
    assert seen == [0, 1, 2]
    assert committed(bootstrap, group, name) == 2
    with pytest.raises(StreamingQueryException, match="it fails"):
        writer.start().awaitTermination(TIMEOUT_S)
    assert seen == [0, 1, 2, 2]
    assert committed(bootstrap, group, name) == 2


@pytest.mark.parametrize("is_function", [True, False], ids=["write_stream", "format"])
def test_a_group_that_the_sink_commits_to_is_refused(
    spark: SparkSession, bootstrap: str, topic: Callable[..., str], tmp_path: Path, is_function: bool
) -> None:
    from fencepost.spark import write_stream

    name, target, group = topic(1), topic(1), unique("group")
    commit(bootstrap, name, ["a"])
    records = rows(spark, bootstrap, name, group).select("value")
    given = {"checkpoint": str(tmp_path), "trigger": {"availableNow": True}}
    if is_function:
        query = write_stream(records, topic=target, **given)  # type: ignore[arg-type]
    else:
        writer = records.writeStream.format("fencepost").options(**logins.spark(bootstrap), topic=target)
        writer = writer.option("pipeline", group).option("checkpointLocation", str(tmp_path))
        query = writer.trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException, match=r"Nothing was written\. Drop the option"):
        query.awaitTermination(TIMEOUT_S)
    assert end_of(bootstrap, target) == 0


def test_it_needs_a_group_and_a_stream() -> None:
    with pytest.raises(ConfigError, match=r"set option 'kafka\.group\.id'"):
        options("localhost:1", subscribe="in", commitOffsets="true")
    given = {"subscribe": "in", "commitOffsets": "true", "kafka.group.id": "group"}
    with pytest.raises(ConfigError, match="is for streaming queries"):
        options("localhost:1", ReadKind.BATCH, **given)
    assert options("localhost:1", **given).commits


def test_a_cluster_that_is_away_is_worth_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as taken:  # nobody listens
        taken.bind(("127.0.0.1", 0))
        committer = OffsetCommitter(ClientSettings.parse(f"127.0.0.1:{taken.getsockname()[1]}"), "group")
        with caplog.at_level(logging.WARNING):
            committer.completed(SourceOffset({terms.TopicPartition("in", 0): 5}))
        committer.close()
    assert "group group: the offsets will be committed with the next batch" in caplog.text


def test_a_group_with_members_is_refused(bootstrap: str, topic: Callable[..., str]) -> None:
    name, group = topic(1), unique("group")
    member = Consumer({**logins.confluent(bootstrap), "group.id": group})
    member.subscribe([name])
    wait_until(lambda: member.poll(0.1) is None and bool(member.assignment()), "it is a member", TIMEOUT_S)
    committer = OffsetCommitter(options(bootstrap, subscribe=name).client, group)
    with pytest.raises(ConfigError, match=f"group '{group}' has members"):
        committer.completed(SourceOffset({terms.TopicPartition(name, 0): 0}))
    committer.close()
    member.close()
