"""A batch is known by its query and number: also one that moves no offset, and one with Spark's state."""

import dataclasses
import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from fencepost.spark.sink.steps import BatchStep
from tests.spark import numbers_job
from tests.spark.checker import read_committed
from tests.spark.scene import MakeScene, Scene
from tests.spark.sink.inprocess import InProcess, dying_at
from tests.spark.source.support import configured

Query = Callable[[DataFrame], DataFrame]


def records(scene: Scene, rows: DataFrame) -> DataFrame:
    """Every row as JSON in the left topic, its first column as the key: records of a key keep their order."""
    key, value = sf.col(rows.columns[0]).cast("string"), sf.to_json(sf.struct("*"))
    return rows.select(sf.lit(scene.plan.left).alias("topic"), key.alias("key"), value.alias("value"))


def written(scene: Scene) -> list[dict[str, int]]:
    return [json.loads(value) for value in read_committed(scene.plan.bootstrap, scene.plan.left)]


def test_a_topic_that_is_read_twice_may_be_read_to_different_ends(here: InProcess, make_scene: MakeScene) -> None:
    scene = make_scene(100)
    slow = dataclasses.replace(scene.plan, batch_records=30)
    fast_rows = numbers_job.read(here.spark, scene.plan).selectExpr("concat('a', value) AS n")
    slow_rows = numbers_job.read(here.spark, slow).selectExpr("concat('b', value) AS n")
    twice = records(scene, fast_rows.union(slow_rows))
    with dying_at(BatchStep.COMMITTED, passes=1):
        here.run_until_failed(scene.plan, twice)
    scene.check.write(20)
    with dying_at(BatchStep.COMMITTING):
        here.run_until_failed(scene.plan, twice)
    here.run(scene.plan, twice)
    scene.delete_checkpoint()  # both have come to the same end
    scene.check.write(20)
    here.run(scene.plan, twice)
    numbers = range(scene.check.written)
    assert Counter(row["n"] for row in written(scene)) == Counter(
        f"{who}{number}" for who in "ab" for number in numbers
    )


def numbered(rows: DataFrame) -> DataFrame:
    """Number n happened in the n-th second; its group is n modulo 5."""
    number = sf.col("value").cast("string").cast("int")
    return rows.select(number.alias("n"), sf.timestamp_seconds(number).alias("at"), (number % 5).alias("group"))


def windows(rows: DataFrame) -> DataFrame:
    found = numbered(rows).withWatermark("at", "1 second").groupBy(sf.window("at", "10 seconds")).count()
    return found.select(sf.unix_timestamp("window.start").alias("window"), "count")


def totals(rows: DataFrame) -> DataFrame:
    return numbered(rows).groupBy("group").agg(sf.count("*").alias("count"), sf.sum("n").alias("sum"))


def totals_in_pandas(rows: DataFrame) -> DataFrame:
    def add(key: tuple[int], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        count, total = state.get if state.exists else (0, 0)
        for frame in frames:
            count, total = count + len(frame), total + int(frame["n"].sum())
        state.update((count, total))
        yield pd.DataFrame({"group": [key[0]], "count": [count], "sum": [total]})

    found = numbered(rows).groupBy("group")
    return found.applyInPandasWithState(
        add, "group int, count long, sum long", "count long, sum long", "update", "NoTimeout"
    )


def test_windows_come_out_in_a_batch_that_reads_nothing(here: InProcess, make_scene: MakeScene) -> None:
    """The first batch moves the watermark, the second has no data and emits what is complete by then."""
    scene = make_scene(100)
    query = here.run(scene.plan, records(scene, windows(numbers_job.read(here.spark, scene.plan))))
    assert len(query.recentProgress) >= 2
    expected = [{"window": start, "count": 10} for start in range(0, 90, 10)]
    assert sorted(written(scene), key=lambda row: row["window"]) == expected


@pytest.mark.parametrize(
    ("query", "output_mode", "plan_chars"),
    [
        (totals, "update", "100000"),
        (totals, "update", "40"),
        (totals, "complete", "100000"),
        (totals_in_pandas, "update", "100000"),
    ],
    ids=["update", "in a plan whose text is cut off", "complete", "applyInPandasWithState"],
)
def test_state_survives_a_death_between_the_two_commits(
    here: InProcess, make_scene: MakeScene, query: Query, output_mode: str, plan_chars: str
) -> None:
    """Kafka has the batch and Spark's checkpoint does not: it is run again for its state, and nothing is written."""
    scene = make_scene(60, batch_records=25)
    rows = records(scene, query(numbers_job.read(here.spark, scene.plan)))
    with configured(here.spark, "spark.sql.maxPlanStringLength", plan_chars):
        for passes in (0, 1):
            with dying_at(BatchStep.COMMITTED, passes=passes):
                here.run_until_failed(scene.plan, rows, output_mode=output_mode)
        scene.check.write(40)
        here.run(scene.plan, rows, output_mode=output_mode)
    last = {row["group"]: row for row in written(scene)}
    assert last == {group: {"group": group, "count": 20, "sum": sum(range(group, 100, 5))} for group in range(5)}


def test_state_in_a_lost_checkpoint_stops_the_pipeline_before_it_writes(here: InProcess, make_scene: MakeScene) -> None:
    scene = make_scene(50)
    rows = records(scene, totals(numbers_job.read(here.spark, scene.plan)))
    here.run(scene.plan, rows, output_mode="update")
    before = Counter(read_committed(scene.plan.bootstrap, scene.plan.left))
    scene.delete_checkpoint()
    scene.check.write(10)
    for _ in range(2):
        said = here.run_until_failed(scene.plan, rows, output_mode="update")
        assert "the state of Spark's own stateful operators is only in the old checkpoint" in said
        assert "failOnStateLoss" in said
    assert Counter(read_committed(scene.plan.bootstrap, scene.plan.left)) == before
    scene.delete_checkpoint()
    accepted = dataclasses.replace(scene.plan, options={**scene.plan.options, "failOnStateLoss": "false"})
    here.run(accepted, rows, output_mode="update")
    scene.check.write(10)
    here.run(scene.plan, rows, output_mode="update")
    last = {row["group"]: row["count"] for row in written(scene)}
    assert last == dict.fromkeys(range(5), 4)


def test_positions_of_other_sources_in_a_lost_checkpoint_stop_the_pipeline(
    here: InProcess, make_scene: MakeScene, tmp_path: Path
) -> None:
    scene = make_scene(20)
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "one").write_text("a file\n")
    files = here.spark.readStream.text(str(tmp_path / "files"))
    numbers = numbers_job.read(here.spark, scene.plan).selectExpr("CAST(value AS STRING) AS value")
    rows = records(scene, numbers.union(files))
    with dying_at(BatchStep.COMMITTED):
        here.run_until_failed(scene.plan, rows)
    (tmp_path / "files" / "two").write_text("another\n")
    here.run(scene.plan, rows)
    found = Counter(row["value"] for row in written(scene))
    assert found == Counter(["a file", "another", *map(str, range(20))])
    scene.delete_checkpoint()
    said = here.run_until_failed(scene.plan, rows)
    assert "the position of source 1 (at {" in said
    assert Counter(row["value"] for row in written(scene)) == found


def test_a_checkpoint_that_has_lost_its_querys_id_is_continued(here: InProcess, make_scene: MakeScene) -> None:
    """Spark before 4.2 makes up a new id when the file is gone."""
    scene = make_scene(60, batch_records=25)
    rows = records(scene, totals(numbers_job.read(here.spark, scene.plan)))
    with dying_at(BatchStep.COMMITTED, passes=1):
        here.run_until_failed(scene.plan, rows, output_mode="update")
    (scene.checkpoint / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
    here.run(scene.plan, rows, output_mode="update")
    assert {row["group"]: row["count"] for row in written(scene)} == dict.fromkeys(range(5), 12)


def test_a_checkpoint_that_was_restored_from_a_copy_is_refused(here: InProcess, make_scene: MakeScene) -> None:
    scene = make_scene(100, batch_records=25)
    here.run(scene.plan)
    for path in [*scene.checkpoint.glob("offsets/[0-9]*"), *scene.checkpoint.glob("commits/[0-9]*")]:
        if path.name != "0":
            path.unlink()
    said = here.run_until_failed(scene.plan)
    assert "is older than batch" in said
    assert scene.check.assert_whole() == 100
