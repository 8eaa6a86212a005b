"""Rows that cannot be written, and rows that the query refuses, go to another topic in the same transaction."""

import itertools
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from fencepost.errors import BatchFailed, ConfigError, TopicNotFound
from fencepost.spark import progress, write, write_stream
from fencepost.spark.sink.steps import BatchStep
from fencepost.spark.state import StatefulStep
from tests import logins
from tests.spark import numbers_job
from tests.spark.bad_rows import LIMIT, REASONS, bad_rows, check, dead_topic, headers_of
from tests.spark.checker import read_committed, read_records, wait_until_settled
from tests.spark.scene import MakeScene
from tests.spark.sink.inprocess import InProcess, dying_at
from tests.spark.sink.large_state import grow

TIMEOUT_S = 120
SMALL: dict[str, str] = {}
BY_TASKS = {"smallBatchRecords": "0"}


@pytest.mark.parametrize("options", [SMALL, BY_TASKS], ids=["by the driver", "by tasks"])
def test_each_row_is_written_once_or_is_a_dead_letter_whatever_happens_to_the_driver(
    here: InProcess, make_bad_scene: MakeScene, options: Mapping[str, str]
) -> None:
    scene = make_bad_scene(60, **options)
    plan = replace(scene.plan, batch_records=20)

    def rows() -> DataFrame:
        return bad_rows(numbers_job.read(here.spark, plan), plan.left)

    for step, passes in itertools.product((BatchStep.WRITTEN, BatchStep.COMMITTING, BatchStep.COMMITTED), (0, 1)):
        with dying_at(step, passes=passes):
            here.run_until_failed(plan, rows())
        scene.check.write(20)
    query = here.run(plan, rows())
    letters = check(scene.plan, 60 + 6 * 20)
    assert {headers_of(letter)["fencepost.pipeline"] for letter in letters} == {plan.pipeline}
    batches = {int(headers_of(letter)["fencepost.batch"] or -1) for letter in letters}
    assert len(batches) >= 6
    done = progress(query)
    assert done is not None
    last = done.recent[-1]
    assert last.num_output_rows == sum(last.records.values()) > 0
    assert set(last.records) == {plan.left}
    assert set(last.dead_letters) <= set(REASONS.values())
    totals = done.as_dict()
    assert totals["numOutputRows"] == done.records
    assert sum(totals["deadLetters"].values()) > 0
    assert sum(totals["deadLetters"].values()) + done.records == sum(
        each.num_output_rows + sum(each.dead_letters.values()) for each in done.recent
    )


def test_a_batch_query_counts_its_dead_letters(spark: SparkSession, bootstrap: str, make_bad_scene: MakeScene) -> None:
    scene = make_bad_scene(0)
    rows = bad_rows(spark.range(40).selectExpr("CAST(id AS STRING) AS value"), scene.plan.left)
    options = {**logins.sink(bootstrap), **scene.plan.options}
    written = write(rows, bootstrap_servers=bootstrap, options=options)
    assert written.records == {scene.plan.left: 12}
    assert written.dead_letters == {reason: 4 * count for reason, count in Counter(REASONS.values()).items()}
    letters = check(scene.plan, 40, has_source=False)
    assert all("fencepost.pipeline" not in headers_of(letter) for letter in letters)  # it has no name


def test_sparks_own_way_to_save_has_dead_letters(
    spark: SparkSession, bootstrap: str, make_bad_scene: MakeScene
) -> None:
    scene = make_bad_scene(0)
    rows = bad_rows(spark.range(40).selectExpr("CAST(id AS STRING) AS value"), scene.plan.left)
    saving = rows.write.format("fencepost").options(**{"kafka.bootstrap.servers": bootstrap, **logins.sink(bootstrap)})
    saving.options(**scene.plan.options, transactionalId="nightly").mode("append").save()
    letters = check(scene.plan, 40, has_source=False)
    assert {headers_of(letter)["fencepost.pipeline"] for letter in letters} == {"nightly"}


def test_a_stream_of_the_standard_writer_api_has_dead_letters(
    spark: SparkSession, bootstrap: str, make_bad_scene: MakeScene
) -> None:
    scene = make_bad_scene(40)
    for number in (40, 60):
        records = bad_rows(numbers_job.read(spark, scene.plan), scene.plan.left)
        writer = records.writeStream.format("fencepost").options(**logins.spark(bootstrap), **scene.plan.options)
        writer = writer.option("pipeline", scene.plan.pipeline).option("checkpointLocation", scene.plan.checkpoint)
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(TIMEOUT_S)
        letters = check(scene.plan, number)
        scene.check.write(20)
    assert {headers_of(letter)["fencepost.pipeline"] for letter in letters} == {scene.plan.pipeline}


def test_several_writes_of_a_batch_share_their_dead_letters(here: InProcess, make_bad_scene: MakeScene) -> None:
    scene = make_bad_scene(30)
    writer = here.writer(scene.plan)

    def each(df: DataFrame, batch_id: int) -> None:
        with writer.batch(df, batch_id) as batch:
            batch.write(bad_rows(df, scene.plan.left))
            batch.write(df.selectExpr("CAST(NULL AS STRING) AS key", "CAST(value AS STRING) AS value"), topic="nowhere")

    here.run(scene.plan, numbers_job.read(here.spark, scene.plan), pipeline=writer, function=each)
    wait_until_settled(scene.plan.bootstrap, scene.plan.left, dead_topic(scene.plan))
    letters = read_records(scene.plan.bootstrap, dead_topic(scene.plan))
    to_nowhere = [letter for letter in letters if headers_of(letter).get("fencepost.topic") == "nowhere"]
    assert Counter(int(letter.value()) for letter in to_nowhere) == Counter(range(30))
    assert all(letter.key() is None for letter in to_nowhere)
    assert len(letters) == 30 + 3 * len(REASONS)
    assert len(read_committed(scene.plan.bootstrap, scene.plan.left)) == 9


def test_a_letter_keeps_what_fits_of_a_record_that_is_too_large_in_every_part(
    spark: SparkSession, bootstrap: str, make_bad_scene: MakeScene
) -> None:
    scene = make_bad_scene(0)
    large = f"repeat('x', {2 * LIMIT})"
    rows = spark.sql(f"""
        SELECT {large} AS key, {large} AS value, {large} AS error, TIMESTAMP '2001-02-03 04:05:06Z' AS timestamp,
               array(struct('own' AS key, CAST({large} AS BINARY) AS value)) AS headers
        UNION ALL SELECT 'tombstone', NULL, 'gone', NULL, NULL
        UNION ALL SELECT NULL, NULL, 'nothing', NULL, NULL""")
    for compression in ("none", "gzip"):  # compressed, the letter fits as it is
        options = {**logins.sink(bootstrap), **scene.plan.options, "kafka.compression.type": compression}
        written = write(rows, bootstrap_servers=bootstrap, topic=scene.plan.left, options=options)
        assert written.dead_letters == {"query": 3}
    wait_until_settled(bootstrap, dead_topic(scene.plan))
    letters = read_records(bootstrap, dead_topic(scene.plan))
    assert sorted(str(letter.key())[:5] for letter in letters) == sorted(["None", "b'tom", "b'xxx"] * 2)
    assert all(letter.value() is None for letter in letters if letter.key() in (None, b"tombstone"))
    cut, whole = sorted((each for each in letters if each.value()), key=lambda letter: len(letter.value()))
    said = headers_of(cut)
    sizes = [said[f"fencepost.{part}.size"] for part in ("key", "value", "headers")]
    assert sizes == [str(2 * LIMIT), str(2 * LIMIT), str(2 * LIMIT + len("own") + 10)]
    assert said["fencepost.error"] == "x" * 1021 + "..."
    assert said["fencepost.timestamp"] == "981173106000"
    assert len(cut.key()) > LIMIT / 2
    assert len(whole.value()) == len(whole.key()) == 2 * LIMIT
    assert not any(name.endswith(".size") for name in headers_of(whole))


def test_a_state_that_cannot_be_written_is_no_dead_letter(
    here: InProcess, make_bad_scene: MakeScene, tmp_path: Path
) -> None:
    scene = make_bad_scene(5, stateDirectory=str(tmp_path / "state"))
    step = StatefulStep("totals", ("k",), "text string", grow, configs={"max.message.bytes": "40000"})
    writer = here.writer(scene.plan)

    def each(df: DataFrame, batch_id: int) -> None:
        with writer.batch(df, batch_id) as batch:
            batch.update(df.selectExpr("CAST(value AS STRING) AS k"), step)

    rows = numbers_job.read(here.spark, scene.plan)
    said = here.run_until_failed(scene.plan, rows, pipeline=writer, function=each)
    assert "max.message.bytes is 40000" in said
    assert "a change of state, which cannot be a dead letter" in said
    assert read_records(scene.plan.bootstrap, dead_topic(scene.plan)) == []


@pytest.mark.parametrize("options", [SMALL, BY_TASKS], ids=["by the driver", "by tasks"])
def test_without_a_topic_for_them_the_error_says_which_row_it_is_and_what_to_do(
    here: InProcess, make_scene: MakeScene, options: Mapping[str, str]
) -> None:
    scene = make_scene(30, options=dict(options))
    here.run(scene.plan, here.numbers(scene.plan))
    scene.check.write(1)
    bad = numbers_job.read(here.spark, scene.plan).selectExpr(
        "concat('elsewhere-', CAST(value AS STRING)) AS topic",
        "concat('key-', CAST(value AS STRING)) AS key",
        "concat('number ', CAST(value AS STRING)) AS value",
        "struct(topic, partition, offset) AS source",
    )
    said = here.run_until_failed(scene.plan, bad)
    line = next(line for line in said.splitlines() if "fencepost.errors." in line)
    assert "TopicNotFound: a row cannot be written to topic 'elsewhere-30': topic 'elsewhere-30' does not exist" in line
    assert f"It is the row from {scene.plan.source}-" in line
    assert ", with key 'key-30' and value 'number 30'. To go on without such rows" in line
    assert "deadLetters" in line


def test_a_topic_for_dead_letters_that_cannot_take_them_is_refused_before_the_start(
    here: InProcess, make_scene: MakeScene, topic: Callable[..., str]
) -> None:
    scene = make_scene(10)
    refused = {
        "not-there": (TopicNotFound, "topic for dead letters, 'not-there', does not exist: create it"),
        topic(1, config={"cleanup.policy": "compact"}): (ConfigError, "is compacted"),
        topic(1, config={"max.message.bytes": "20000"}): (ConfigError, "is 20000: it must be 32768 or more"),
    }
    df, one = here.numbers(scene.plan), here.spark.sql("SELECT 'a' AS value")
    for name, (error, said) in refused.items():
        options = {**logins.sink(scene.plan.bootstrap), "deadLetters": name}
        with pytest.raises(error, match=said):
            write_stream(df, checkpoint=scene.plan.checkpoint, options=options)
        with pytest.raises(error, match=said):
            write(one, bootstrap_servers=scene.plan.bootstrap, topic=scene.plan.left, options=options)
    assert read_committed(scene.plan.bootstrap, scene.plan.left) == []


def test_a_batch_query_says_which_row_it_could_not_write(
    spark: SparkSession, bootstrap: str, topic: Callable[..., str]
) -> None:
    rows = spark.sql("SELECT 'k' AS key, 'the value' AS value, 7 AS partition")
    with pytest.raises(BatchFailed, match=r"partition 7 of topic .*, which has 2.* key 'k' and value 'the value'"):
        write(rows, bootstrap_servers=bootstrap, topic=topic(2), options=logins.sink(bootstrap))
