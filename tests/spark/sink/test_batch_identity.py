"""A batch is known by its query and number: also one that moves no offset, of a quiet source, or with Spark's state."""

import dataclasses
import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from fencepost.spark.sink.steps import BatchStep
from tests.spark import numbers_job
from tests.spark.checker import read_committed
from tests.spark.scene import Scene
from tests.spark.sink.inprocess import InProcess, dying_at
from tests.spark.source.support import fill

pytestmark = pytest.mark.timeout(600)

SmallScene = Callable[..., Scene]
Topic = Callable[..., str]
Query = Callable[[DataFrame], DataFrame]


def records(scene: Scene, rows: DataFrame) -> DataFrame:
    """Every row as JSON in the left topic, its first column as the key: records of a key keep their order."""
    key, value = sf.col(rows.columns[0]).cast("string"), sf.to_json(sf.struct("*"))
    return rows.select(sf.lit(scene.plan.left).alias("topic"), key.alias("key"), value.alias("value"))


def written(scene: Scene) -> list[dict[str, int]]:
    return [json.loads(value) for value in read_committed(scene.plan.bootstrap, scene.plan.left)]


# -- quiet sources -----------------------------------------------------------------------------------------------------


def test_a_source_that_stays_quiet_does_not_stop_the_others(
    here: InProcess, make_small_scene: SmallScene, topic: Topic
) -> None:
    """Its end is that of its first batch for ever, which says where it began."""
    scene = make_small_scene(40)
    quiet = dataclasses.replace(scene.plan, source=topic(1))
    fill(scene.plan.bootstrap, quiet.source, ["quiet"])

    def both() -> DataFrame:
        rows = numbers_job.read(here.spark, scene.plan).union(numbers_job.read(here.spark, quiet))
        return records(scene, rows.select(sf.col("value").cast("string").alias("n")))

    for _ in range(3):
        here.run(scene.plan, both())
        scene.check.write(10)
    with dying_at(BatchStep.COMMITTED):
        here.run_until_failed(scene.plan, both())
    here.run(scene.plan, both())
    assert Counter(row["n"] for row in written(scene)) == Counter(["quiet", *map(str, range(scene.check.written))])


def test_a_topic_that_is_read_twice_may_be_read_to_different_ends(
    here: InProcess, make_small_scene: SmallScene
) -> None:
    scene = make_small_scene(100)
    slow = dataclasses.replace(scene.plan, batch_records=30)

    def twice() -> DataFrame:
        fast_rows = numbers_job.read(here.spark, scene.plan).selectExpr("concat('a', value) AS n")
        slow_rows = numbers_job.read(here.spark, slow).selectExpr("concat('b', value) AS n")
        return records(scene, fast_rows.union(slow_rows))

    with dying_at(BatchStep.COMMITTED, passes=1):
        here.run_until_failed(scene.plan, twice())
    scene.check.write(20)
    with dying_at(BatchStep.COMMITTING):
        here.run_until_failed(scene.plan, twice())
    here.run(scene.plan, twice())
    scene.delete_checkpoint()  # both have come to the same end
    scene.check.write(20)
    here.run(scene.plan, twice())
    numbers = range(scene.check.written)
    assert Counter(row["n"] for row in written(scene)) == Counter(
        f"{who}{number}" for who in "ab" for number in numbers
    )


# -- Spark's own state -------------------------------------------------------------------------------------------------


def numbered(rows: DataFrame) -> DataFrame:
    """Number n happened in the n-th second; its group is n modulo 5."""
    number = sf.col("value").cast("string").cast("int")
    return rows.select(number.alias("n"), sf.timestamp_seconds(number).alias("at"), (number % 5).alias("group"))


def windows(rows: DataFrame) -> DataFrame:
    found = numbered(rows).withWatermark("at", "1 second").groupBy(sf.window("at", "10 seconds")).count()
    return found.select(sf.unix_timestamp("window.start").alias("window"), "count")


def totals(rows: DataFrame) -> DataFrame:
    return numbered(rows).groupBy("group").agg(sf.count("*").alias("count"), sf.sum("n").alias("sum"))


def counted_in_pandas(rows: DataFrame) -> DataFrame:
    def count(key: tuple[int], frames: Iterator[pd.DataFrame], state: object) -> Iterator[pd.DataFrame]:
        before = state.get[0] if state.exists else 0  # type: ignore[attr-defined]
        after = before + sum(len(frame) for frame in frames)
        state.update((after,))  # type: ignore[attr-defined]
        yield pd.DataFrame({"group": [key[0]], "count": [after]})

    return (
        numbered(rows)
        .groupBy("group")
        .applyInPandasWithState(count, "group int, count long", "count long", "update", "NoTimeout")
    )


def test_windows_come_out_in_a_batch_that_reads_nothing(here: InProcess, make_small_scene: SmallScene) -> None:
    """The first batch moves the watermark, the second has no data and emits what is complete by then."""
    scene = make_small_scene(100)
    query = here.run(scene.plan, records(scene, windows(numbers_job.read(here.spark, scene.plan))))
    assert len(query.recentProgress) >= 2
    expected = [{"window": start, "count": 10} for start in range(0, 90, 10)]
    assert sorted(written(scene), key=lambda row: row["window"]) == expected


@pytest.mark.parametrize(
    ("query", "output_mode", "last_of"),
    [
        (windows, "append", None),
        (totals, "update", "group"),
        (totals, "complete", "group"),
        (counted_in_pandas, "update", "group"),
    ],
    ids=["windows, append", "totals, update", "totals, complete", "applyInPandasWithState"],
)
def test_state_survives_a_death_between_the_two_commits(
    here: InProcess, make_small_scene: SmallScene, query: Query, output_mode: str, last_of: str | None
) -> None:
    """Kafka has the batch and Spark's checkpoint does not: it is run again for its state, and nothing is written."""
    scene = make_small_scene(60, batch_records=25)

    def rows() -> DataFrame:
        return records(scene, query(numbers_job.read(here.spark, scene.plan)))

    def finish() -> list[dict[str, int]]:
        scene.check.write(40)
        here.run(scene.plan, rows(), output_mode=output_mode)
        found = written(scene)
        if last_of is None:
            assert len({tuple(row.values()) for row in found}) == len(found), "something came out twice"
        return found if last_of is None else [*{row[last_of]: row for row in found}.values()]

    for passes in (0, 1):
        with dying_at(BatchStep.COMMITTED, passes=passes):
            here.run_until_failed(scene.plan, rows(), output_mode=output_mode)
    found = sorted(finish(), key=lambda row: [*row.values()])
    if query is counted_in_pandas:  # which a batch cannot run
        whole = [{"group": group, "count": scene.check.written // 5} for group in range(5)]
    else:
        whole = [json.loads(row.value) for row in records(scene, query(batch_of(here.spark, scene))).collect()]
    if query is windows:
        whole = [row for row in whole if row["window"] < 90]  # the last one is not complete yet
    assert found == sorted(whole, key=lambda row: [*row.values()])


def batch_of(spark: SparkSession, scene: Scene) -> DataFrame:
    return (
        spark.read.format("fencepost")
        .option("kafka.bootstrap.servers", scene.plan.bootstrap)
        .option("subscribe", scene.plan.source)
        .load()
    )


def test_state_is_found_in_a_plan_that_is_not_shown_whole(here: InProcess, make_small_scene: SmallScene) -> None:
    scene = make_small_scene(50)
    here.spark.conf.set("spark.sql.maxPlanStringLength", "40")
    try:
        for _ in range(2):
            with dying_at(BatchStep.COMMITTED):
                here.run_until_failed(
                    scene.plan, records(scene, totals(numbers_job.read(here.spark, scene.plan))), output_mode="update"
                )
            scene.check.write(10)
        here.run(scene.plan, records(scene, totals(numbers_job.read(here.spark, scene.plan))), output_mode="update")
    finally:
        here.spark.conf.unset("spark.sql.maxPlanStringLength")
    assert {row["group"]: row["count"] for row in written(scene)} == dict.fromkeys(range(5), 14)


def test_state_in_a_lost_checkpoint_stops_the_pipeline_before_it_writes(
    here: InProcess, make_small_scene: SmallScene
) -> None:
    scene = make_small_scene(50)

    def rows() -> DataFrame:
        return records(scene, totals(numbers_job.read(here.spark, scene.plan)))

    here.run(scene.plan, rows(), output_mode="update")
    before = Counter(read_committed(scene.plan.bootstrap, scene.plan.left))
    scene.delete_checkpoint()
    scene.check.write(10)
    for _ in range(2):
        said = here.run_until_failed(scene.plan, rows(), output_mode="update")
        assert "the state of Spark's own stateful operators is only in the old checkpoint" in said
        assert "failOnStateLoss" in said
    assert Counter(read_committed(scene.plan.bootstrap, scene.plan.left)) == before
    scene.delete_checkpoint()
    accepted = dataclasses.replace(scene.plan, options={**scene.plan.options, "failOnStateLoss": "false"})
    here.run(accepted, rows(), output_mode="update")
    scene.check.write(10)
    here.run(scene.plan, rows(), output_mode="update")
    last = {row["group"]: row["count"] for row in written(scene)}
    assert last == dict.fromkeys(range(5), 4)


def test_positions_of_other_sources_in_a_lost_checkpoint_stop_the_pipeline(
    here: InProcess, make_small_scene: SmallScene, tmp_path: Path
) -> None:
    scene = make_small_scene(20)
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "one").write_text("a file\n")

    def rows() -> DataFrame:
        files = here.spark.readStream.text(str(tmp_path / "files"))
        numbers = numbers_job.read(here.spark, scene.plan).selectExpr("CAST(value AS STRING) AS value")
        return records(scene, numbers.union(files))

    with dying_at(BatchStep.COMMITTED):
        here.run_until_failed(scene.plan, rows())
    (tmp_path / "files" / "two").write_text("another\n")
    here.run(scene.plan, rows())
    found = Counter(row["value"] for row in written(scene))
    assert found == Counter(["a file", "another", *map(str, range(20))])
    scene.delete_checkpoint()
    said = here.run_until_failed(scene.plan, rows())
    assert "the position of FileStreamSource" in said
    assert Counter(row["value"] for row in written(scene)) == found


def test_a_checkpoint_that_has_lost_its_querys_id_is_continued(here: InProcess, make_small_scene: SmallScene) -> None:
    """Spark before 4.2 makes up a new id when the file is gone."""
    scene = make_small_scene(60, batch_records=25)

    def rows() -> DataFrame:
        return records(scene, totals(numbers_job.read(here.spark, scene.plan)))

    with dying_at(BatchStep.COMMITTED, passes=1):
        here.run_until_failed(scene.plan, rows(), output_mode="update")
    (scene.checkpoint / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
    here.run(scene.plan, rows(), output_mode="update")
    assert {row["group"]: row["count"] for row in written(scene)} == dict.fromkeys(range(5), 12)


def test_a_checkpoint_that_was_restored_from_a_copy_is_refused(here: InProcess, make_small_scene: SmallScene) -> None:
    scene = make_small_scene(100, batch_records=25)
    here.run(scene.plan)
    for path in [*scene.checkpoint.glob("offsets/[0-9]*"), *scene.checkpoint.glob("commits/[0-9]*")]:
        if path.name != "0":
            path.unlink()
    said = here.run_until_failed(scene.plan)
    assert "is older than batch" in said
    assert scene.check.assert_whole() == 100
