"""`writeStream.format("fencepost")`: Spark's standard streaming writer API, exactly once."""

import contextlib
import dataclasses
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from fencepost.client import Cluster
from fencepost.client.transaction import SharedTransaction
from fencepost.spark import ledger
from fencepost.spark.sink.steps import BatchStep
from tests import logins
from tests.spark import numbers_job
from tests.spark.checker import read_committed
from tests.spark.numbers_job import EVERYTHING, Plan, end_when_done
from tests.spark.scene import MakeScene, Scene
from tests.spark.sink import mortal_source
from tests.spark.sink.inprocess import InProcess
from tests.spark.sink.mortal_source import ENDTXN_SENT, MortalDataSource

TIMEOUT_S = 240
NOW = EVERYTHING
ENDLESS = {"processingTime": "0 seconds"}
BATCH_RECORDS = 50


class Queries:
    """Queries through the standard writer API. All have ended after the test."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._started: list[StreamingQuery] = []

    def start(
        self,
        plan: Plan,
        df: DataFrame | None = None,
        *,
        trigger: dict[str, Any] | None = None,
        output_mode: str = "append",
        accident: str | None = None,
        checkpoint: str | None = None,
        **options: str,
    ) -> StreamingQuery:
        records = numbers_job.transform(numbers_job.read(self.spark, plan), plan) if df is None else df
        given = {**logins.spark(plan.bootstrap), "pipeline": plan.pipeline, **plan.options, **options}
        if accident is not None:
            given["accident"] = accident
        place = {"checkpointLocation": plan.checkpoint} if checkpoint is None else {"checkpointLocation": checkpoint}
        query = (
            records.writeStream.format(mortal_source.NAME)
            .outputMode(output_mode)
            .options(**{**place, **given})
            .trigger(**(trigger or NOW))
            .start()
        )
        self._started.append(query)
        return query

    def run(self, plan: Plan, df: DataFrame | None = None, **more: Any) -> StreamingQuery:
        query = self.start(plan, df, **more)
        end_when_done(query)
        assert query.awaitTermination(TIMEOUT_S), "the query does not end"
        return query

    def run_until_failed(self, plan: Plan, df: DataFrame | None = None, **more: Any) -> str:
        return self.error(self.start(plan, df, **more))

    def error(self, query: StreamingQuery) -> str:
        with pytest.raises(StreamingQueryException) as failed:
            assert not query.awaitTermination(TIMEOUT_S), "the query ended well"
        return str(failed.value)

    def stop(self) -> None:
        for query in self._started:
            with contextlib.suppress(StreamingQueryException):
                query.stop()


@pytest.fixture
def queries(spark: SparkSession) -> Iterator[Queries]:
    spark.dataSource.register(MortalDataSource)
    made = Queries(spark)
    yield made
    made.stop()


def small(scene: Scene) -> Plan:
    """All that is there is one batch."""
    return dataclasses.replace(scene.plan, batch_records=1000)


def entry_of(plan: Plan) -> ledger.LedgerEntry:
    with logins.cluster(plan.bootstrap) as cluster:
        found = ledger.read_entry(cluster, plan.pipeline)
    assert found is not None
    return found


def test_every_record_is_written_once_with_its_offsets(queries: Queries, make_scene: MakeScene) -> None:
    scene = make_scene(3 * BATCH_RECORDS)
    query = queries.run(dataclasses.replace(scene.plan, batch_records=BATCH_RECORDS))
    scene.check.assert_complete()
    told = query.recentProgress
    assert len(told) >= 3
    entry = entry_of(scene.plan)
    assert (entry.query_id, entry.batch_id, entry.run_id) == (str(query.id), told[-1]["batchId"], str(query.runId))
    assert sum(progress["sink"]["numOutputRows"] for progress in told) == 2 * 3 * BATCH_RECORDS
    scene.check.write(BATCH_RECORDS)
    queries.run(small(scene))
    scene.check.assert_complete()


def test_without_its_checkpoint_it_continues_at_the_committed_offsets(queries: Queries, make_scene: MakeScene) -> None:
    scene = make_scene(BATCH_RECORDS)
    for _ in range(2):
        queries.run(small(scene))
        scene.delete_checkpoint()
        scene.check.write(BATCH_RECORDS)
    queries.run(small(scene))
    scene.check.assert_complete()


def test_a_checkpoint_that_is_older_than_kafka_is_refused(queries: Queries, make_scene: MakeScene) -> None:
    scene = make_scene(BATCH_RECORDS)
    queries.run(small(scene))
    copy = f"{scene.plan.checkpoint}.copy"
    shutil.copytree(scene.plan.checkpoint, copy)
    for _ in range(2):
        scene.check.write(BATCH_RECORDS)
        queries.run(small(scene))
    said = queries.run_until_failed(small(scene), checkpoint=copy)
    assert "is older than batch 2, which the pipeline has committed" in said
    assert "Traceback" not in said
    scene.check.assert_complete()


# -- deaths ------------------------------------------------------------------------------------------------------------


@pytest.mark.timeout(600)
@pytest.mark.parametrize("protocol", ["1", "2"])
def test_a_commit_process_that_dies_at_any_step_writes_nothing_twice(
    queries: Queries, make_scene: MakeScene, protocol: str
) -> None:
    """As it looks from Kafka and from the checkpoint, the driver dies."""
    scene = make_scene(0, options={"transactionProtocol": protocol})
    plan = small(scene)
    for batch, point in enumerate([*(step.name for step in BatchStep), ENDTXN_SENT]):
        scene.check.write(BATCH_RECORDS)
        queries.run_until_failed(plan, accident=f"exit:{point}:{batch}")
        scene.check.assert_whole()
    queries.run(plan)
    scene.check.assert_complete()


def test_a_commit_without_an_answer_is_neither_aborted_nor_repeated(queries: Queries, make_scene: MakeScene) -> None:
    scene = make_scene(BATCH_RECORDS)
    queries.run(small(scene), accident=f"lose:{ENDTXN_SENT}:0")
    scene.check.assert_complete()


def test_what_another_producer_of_its_id_has_open_is_aborted(
    queries: Queries, make_scene: MakeScene, cluster: Cluster
) -> None:
    scene = make_scene(BATCH_RECORDS)
    other = SharedTransaction(cluster, f"fencepost-{scene.plan.pipeline}")
    other.init()
    other.begin()
    queries.run(small(scene))
    scene.check.assert_complete()


# -- identity ----------------------------------------------------------------------------------------------------------


def test_both_sinks_continue_each_others_work_on_one_checkpoint(
    queries: Queries, here: InProcess, make_scene: MakeScene
) -> None:
    scene = make_scene(BATCH_RECORDS)
    plan = small(scene)
    queries.run(plan)
    scene.check.write(BATCH_RECORDS)
    here.run(plan)
    scene.check.write(BATCH_RECORDS)
    queries.run_until_failed(plan, accident="exit:COMMITTED:2")
    here.run(plan)
    scene.check.assert_complete()


def test_a_source_that_is_not_kafka_is_known_by_its_batches(queries: Queries, scene: Scene) -> None:
    rows = queries.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    records = rows.selectExpr(f"'{scene.plan.left}' AS topic", "CAST(value AS STRING) AS value")
    for batch in (1, 3):
        queries.run_until_failed(scene.plan, records, trigger=ENDLESS, accident=f"exit:COMMITTED:{batch}")
        scene.check.wait_until_settled()
        found = Counter(read_committed(scene.plan.bootstrap, scene.plan.left))
        assert found == Counter(str(number) for number in range(10 * (batch + 1)))
    scene.delete_checkpoint()
    said = queries.run_until_failed(scene.plan, records, trigger=ENDLESS)
    assert "the position of source 0 (at " in said


@pytest.fixture
def somewhere(queries: Queries, tmp_path: Path) -> Iterator[Path]:
    """Where Spark puts checkpoints of queries that have no option for it."""
    queries.spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path / "all"))
    yield tmp_path / "all"
    queries.spark.conf.unset("spark.sql.streaming.checkpointLocation")


def start_without_option(queries: Queries, plan: Plan, name: str | None = None) -> StreamingQuery:
    records = numbers_job.transform(numbers_job.read(queries.spark, plan), plan)
    writer = records.writeStream.format("fencepost").options(**logins.spark(plan.bootstrap)).trigger(**NOW)
    writer = writer.option("pipeline", plan.pipeline)
    return (writer.queryName(name) if name else writer).start()


def test_a_checkpoint_of_the_sessions_setting_is_found_by_the_querys_name(
    queries: Queries, make_scene: MakeScene, somewhere: Path
) -> None:
    scene = make_scene(BATCH_RECORDS)
    query = start_without_option(queries, scene.plan, scene.plan.pipeline)
    end_when_done(query)
    assert query.awaitTermination(TIMEOUT_S)
    scene.check.assert_complete()
    assert (somewhere / scene.plan.pipeline / "offsets").is_dir()


@pytest.mark.usefixtures("somewhere")
def test_without_a_checkpoint_that_it_can_find_a_batch_is_known_by_its_number(
    queries: Queries, make_scene: MakeScene
) -> None:
    """Only Spark knows the directory of a query without a name."""
    scene = make_scene(BATCH_RECORDS)
    query = start_without_option(queries, scene.plan)
    end_when_done(query)
    assert query.awaitTermination(TIMEOUT_S)
    assert scene.check.assert_whole() == BATCH_RECORDS
    assert not any(scene.check.committed().values())
    entry = entry_of(scene.plan)
    assert (entry.query_id, entry.batch_id, entry.offsets) == (str(query.id), 0, {})
    said = queries.error(start_without_option(queries, scene.plan))
    assert "the position of the query's sources is only in the old checkpoint" in said
    assert scene.check.assert_whole() == BATCH_RECORDS


@pytest.mark.usefixtures("somewhere")
def test_offsets_that_cannot_be_read_any_more_are_refused(queries: Queries, make_scene: MakeScene) -> None:
    scene = make_scene(BATCH_RECORDS)
    queries.run(scene.plan)
    scene.check.write(BATCH_RECORDS)
    said = queries.error(start_without_option(queries, scene.plan))
    assert "the sink cannot read this batch's offsets" in said
    queries.run(scene.plan)
    scene.check.assert_complete()


# -- Spark's own state -------------------------------------------------------------------------------------------------


def distinct(queries: Queries, plan: Plan) -> DataFrame:
    """Each remainder of 7 once, in the first record that has it."""
    numbers = numbers_job.read(queries.spark, plan).selectExpr("CAST(value AS STRING) AS value")
    remainders = numbers.selectExpr("CAST(CAST(value AS INT) % 7 AS STRING) AS value").dropDuplicates(["value"])
    return remainders.select(sf.lit(plan.left).alias("topic"), "value")


@pytest.mark.parametrize("step", [BatchStep.COMMITTING, BatchStep.COMMITTED])
def test_sparks_own_state_follows_a_batch_that_kafka_has_and_spark_has_not(
    queries: Queries, make_scene: MakeScene, step: BatchStep
) -> None:
    scene = make_scene(2)
    plan = small(scene)
    queries.run(plan, distinct(queries, plan))
    scene.check.write(3)
    queries.run_until_failed(plan, distinct(queries, plan), accident=f"exit:{step.name}:1")
    scene.check.write(20)
    queries.run(plan, distinct(queries, plan))
    assert sorted(read_committed(plan.bootstrap, plan.left)) == [str(number) for number in range(7)]
    assert sum(scene.check.committed().values()) == 25
    scene.delete_checkpoint()
    scene.check.write(5)
    said = queries.run_until_failed(plan, distinct(queries, plan))
    assert "the state of Spark's own stateful operators is only in the old checkpoint" in said


def windows(queries: Queries, plan: Plan) -> DataFrame:
    """Counts per ten seconds, of numbers that are seconds; a window is written when the watermark has passed it."""
    numbers = numbers_job.read(queries.spark, plan).selectExpr("CAST(CAST(value AS STRING) AS INT) AS second")
    timed = numbers.selectExpr("timestamp_seconds(second) AS time").withWatermark("time", "0 seconds")
    counts = timed.groupBy(sf.window("time", "10 seconds")).count()
    return counts.selectExpr(
        f"'{plan.left}' AS topic", "CONCAT(CAST(unix_timestamp(window.start) AS STRING), ' ', count) AS value"
    )


def test_a_batch_without_data_is_written_once_as_well(queries: Queries, make_scene: MakeScene) -> None:
    """The watermark of batch 0 closes its windows in batch 1, which moves no offset."""
    scene = make_scene(35)
    plan = dataclasses.replace(scene.plan, batch_records=1000)
    queries.run_until_failed(plan, windows(queries, plan), accident="exit:COMMITTED:1")
    assert sorted(read_committed(plan.bootstrap, plan.left)) == ["0 10", "10 10", "20 10"]
    scene.check.write(15)
    queries.run(plan, windows(queries, plan))
    assert sorted(read_committed(plan.bootstrap, plan.left)) == ["0 10", "10 10", "20 10", "30 10"]


def counts(queries: Queries, plan: Plan) -> DataFrame:
    parities = numbers_job.read(queries.spark, plan).selectExpr("CAST(CAST(value AS STRING) AS INT) % 2 AS parity")
    return (
        parities.groupBy("parity").count().selectExpr(f"'{plan.left}' AS topic", "CONCAT(parity, ' ', count) AS value")
    )


def test_complete_mode_appends_the_whole_result_of_each_batch(queries: Queries, make_scene: MakeScene) -> None:
    scene = make_scene(10)
    queries.run(scene.plan, counts(queries, scene.plan), output_mode="complete")
    scene.check.write(10)
    queries.run_until_failed(
        scene.plan, counts(queries, scene.plan), output_mode="complete", accident="exit:COMMITTED:1"
    )
    queries.run(scene.plan, counts(queries, scene.plan), output_mode="complete")
    assert sorted(read_committed(scene.plan.bootstrap, scene.plan.left)) == ["0 10", "0 5", "1 10", "1 5"]


def test_update_mode_is_refused_by_spark(queries: Queries, make_scene: MakeScene) -> None:
    scene = make_scene(10)
    said = queries.run_until_failed(scene.plan, counts(queries, scene.plan), output_mode="update")
    assert "does not support Update mode" in said
    assert not read_committed(scene.plan.bootstrap, scene.plan.left)


# -- refusals ----------------------------------------------------------------------------------------------------------


def test_wrong_options_and_columns_end_the_query_before_anything_is_written(
    queries: Queries, make_scene: MakeScene
) -> None:
    scene = make_scene(200)
    plan = scene.plan
    numbers = numbers_job.read(queries.spark, plan)
    wrong: list[tuple[Callable[[], str], str]] = [
        (lambda: queries.run_until_failed(plan, pipeline=""), "option 'pipeline' must be specified"),
        (lambda: queries.run_until_failed(plan, maxAttemps="3"), "did you mean 'maxAttempts'?"),
        (lambda: queries.run_until_failed(plan, stateDirectory="/tmp"), "the sink has no option 'statedirectory'"),
        (lambda: queries.run_until_failed(plan, numbers.select("value")), "needs a column 'topic'"),
        (lambda: queries.run_until_failed(plan, numbers.selectExpr("1 AS value", "topic")), "must be string or binary"),
        (lambda: queries.run_until_failed(plan, topic="nowhere"), "nowhere"),
        (lambda: queries.run_until_failed(plan, maxBatchBytes="1024"), "batch 0 has more than 0 MiB of records"),
    ]
    for run, expected in wrong:
        said = run()
        assert expected in said
        assert "Traceback" not in said.split("=== Streaming Query ===")[0]
    assert not scene.check.see().left
    with logins.cluster(plan.bootstrap) as cluster:
        assert ledger.read_entry(cluster, plan.pipeline) is None


def test_a_batch_that_is_too_large_in_total_is_refused_and_written_with_a_higher_limit(
    queries: Queries, make_scene: MakeScene
) -> None:
    scene = make_scene(300)
    plan = dataclasses.replace(scene.plan, batch_records=300, options={})
    tasks = numbers_job.read(queries.spark, plan).repartition(2)
    said = queries.run_until_failed(plan, numbers_job.transform(tasks, plan), maxBatchBytes="6000")
    assert "too much to send through the driver. Nothing was written" in said
    assert not scene.check.see().left
    queries.run(plan)
    scene.check.assert_complete()


def test_the_ledger_has_the_ids_of_the_topics_that_were_read(queries: Queries, make_scene: MakeScene) -> None:
    """The batch's offsets carry the topics' ids."""
    scene = make_scene(BATCH_RECORDS)
    queries.run(small(scene))
    entry = entry_of(scene.plan)
    assert entry.topics.keys() == {scene.plan.source}
    assert json.loads((scene.checkpoint / "offsets" / "0").read_text().splitlines()[2])["@ids"] == dict(entry.topics)


def test_the_groups_offsets_name_the_batch(queries: Queries, make_scene: MakeScene) -> None:
    scene = make_scene(BATCH_RECORDS)
    query = queries.run(small(scene))
    consumer = Consumer({**logins.confluent(scene.plan.bootstrap), "group.id": scene.plan.pipeline})
    found = consumer.committed([TopicPartition(scene.plan.source, 0)], timeout=30)
    consumer.close()
    assert found[0].metadata == f"{query.id}/0"
