"""Small batches: the driver writes them, once the first batch has shown that they are small."""

import datetime
from collections.abc import Callable

import pytest
from confluent_kafka import IsolationLevel
from pyspark.sql import DataFrame

from fencepost.spark.sink import jobs, small
from tests.spark import numbers_job
from tests.spark.checker import read_committed, read_records
from tests.spark.scene import MakeScene, Scene
from tests.spark.sink.inprocess import InProcess
from tests.spark.source.support import configured


@pytest.fixture
def make_exact_scene(make_scene: MakeScene, topic: Callable[..., str]) -> MakeScene:
    """`make_exact_scene(batches, records)`: its source has one partition, so its batches are of exactly that size."""

    def make(batches: int, records: int, **options: str) -> Scene:
        return make_scene(batches * records, source=topic(1), batch_records=records, options=options)

    return make


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows came to the driver, by batch; -1 for more than it takes."""
    seen: list[int] = []

    def collect(rows: DataFrame) -> object:
        table = small.collect(rows)
        seen.append(-1 if table is None else len(table))
        return table

    monkeypatch.setattr(jobs, "collect", collect)
    return seen


@pytest.mark.parametrize("protocol", ["1", "2"])
def test_all_but_the_first_are_written_by_the_driver(
    here: InProcess, make_exact_scene: MakeScene, collected: list[int], protocol: str
) -> None:
    scene = make_exact_scene(3, 50, transactionProtocol=protocol)
    here.run(scene.plan)
    scene.check.assert_complete()
    assert collected == [100, 100]


@pytest.mark.parametrize(("key", "timestamp"), [("key", "TIMESTAMP"), ("NULL", "TIMESTAMP_NTZ"), ("key", "BIGINT")])
def test_the_driver_writes_what_tasks_write(
    here: InProcess, make_exact_scene: MakeScene, collected: list[int], key: str, timestamp: str
) -> None:
    scene = make_exact_scene(2, 4)
    yesterday = datetime.date.today() - datetime.timedelta(days=1)  # older records are deleted by retention
    rows = numbers_job.read(here.spark, scene.plan).selectExpr(
        f"'{scene.plan.left}' AS topic",
        f"{key} AS key",
        "CAST(offset % 4 AS STRING) AS value",
        "CAST(offset % 2 AS INT) AS partition",
        "IF(offset % 4 = 3, NULL, array(struct('color' AS key, CAST('red' AS BINARY) AS value))) AS headers",
        f"CAST(TIMESTAMP '{yesterday} 07:08:09 Asia/Tokyo' AS {timestamp}) AS timestamp",
    )
    with configured(here.spark, "spark.sql.session.timeZone", "America/New_York"):
        here.run(scene.plan, rows)
    assert collected == [4]
    scene.check.wait_until_settled()
    records = read_records(scene.plan.bootstrap, scene.plan.left)
    written = sorted((record.value(), record.partition(), record.headers(), record.timestamp()) for record in records)
    assert len(written) == 8
    assert written[::2] == written[1::2]
    assert {record.key() is None for record in records} == {key == "NULL"}


def test_rows_that_come_to_more_than_the_driver_takes_are_written_by_tasks(
    here: InProcess, make_exact_scene: MakeScene, collected: list[int]
) -> None:
    """The first batch has short records, the second has records of 200 kB."""
    scene = make_exact_scene(2, 100)
    rows = numbers_job.read(here.spark, scene.plan).selectExpr(
        f"'{scene.plan.left}' AS topic", "IF(offset < 100, 'short', repeat('long', 50000)) AS value"
    )
    here.run(scene.plan, rows)
    assert collected == [-1]
    scene.check.wait_until_settled()
    found = read_committed(scene.plan.bootstrap, scene.plan.left)
    assert sorted(map(len, found)) == [5] * 100 + [200_000] * 100


def test_rows_without_a_key_go_to_all_partitions_in_turn(
    here: InProcess, make_exact_scene: MakeScene, collected: list[int]
) -> None:
    scene = make_exact_scene(6, 10)
    here.run(scene.plan, numbers_job.transform(numbers_job.read(here.spark, scene.plan), scene.plan).drop("key"))
    assert len(collected) == 5
    scene.check.wait_until_settled()
    assert all(scene.check.ends(scene.plan.left, IsolationLevel.READ_COMMITTED).values())


def test_a_row_without_a_topic_is_an_error_and_nothing_is_written(
    here: InProcess, make_exact_scene: MakeScene, collected: list[int]
) -> None:
    scene = make_exact_scene(2, 50)
    rows = numbers_job.read(here.spark, scene.plan).selectExpr(
        f"IF(offset < 50, '{scene.plan.left}', NULL) AS topic", "value"
    )
    said = here.run_until_failed(scene.plan, rows)
    assert "a row cannot be written: its topic is null. It is the row with key null and value " in said
    assert "deadLetters" in said
    assert collected == [50]
    assert len(read_committed(scene.plan.bootstrap, scene.plan.left)) == 50
