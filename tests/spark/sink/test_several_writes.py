"""Several DataFrames of one micro-batch: one block is one transaction, two calls are refused and lose nothing."""

from collections import Counter
from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from fencepost.spark.sink.pipeline import Pipeline
from fencepost.spark.sink.steps import BatchStep
from tests.spark import numbers_job
from tests.spark.checker import read_committed
from tests.spark.scene import MakeScene, Scene
from tests.spark.sink.inprocess import InProcess, dying_at

EachBatch = Callable[[DataFrame, int], None]

COUNT = 120


@pytest.fixture
def scene(make_scene: MakeScene) -> Scene:
    return make_scene(COUNT, batch_records=50)


@pytest.fixture
def writer(here: InProcess, scene: Scene) -> Pipeline:
    return here.writer(scene.plan)


def left_and_right(scene: Scene) -> tuple[Counter[str], Counter[str]]:
    left, right = (Counter(read_committed(scene.plan.bootstrap, t)) for t in (scene.plan.left, scene.plan.right))
    return left, right


def text(df: DataFrame) -> DataFrame:
    return df.select("key", sf.col("value").cast("string").alias("value"))


def even(df: DataFrame) -> DataFrame:
    return text(df).where("CAST(value AS INT) % 2 = 0")


def with_topic(df: DataFrame, topic: str) -> DataFrame:
    return df.withColumn("topic", sf.lit(topic))


def in_one_block(writer: Pipeline, scene: Scene) -> EachBatch:
    def each(df: DataFrame, batch_id: int) -> None:
        with writer.batch(df, batch_id) as batch:
            batch.write(text(df), topic=scene.plan.left)
            batch.write(with_topic(even(df), scene.plan.right))

    return each


def run(here: InProcess, scene: Scene, writer: Pipeline, each: EachBatch) -> None:
    here.run(scene.plan, numbers_job.read(here.spark, scene.plan), pipeline=writer, function=each)


def run_until_failed(here: InProcess, scene: Scene, writer: Pipeline, each: EachBatch) -> str:
    return here.run_until_failed(scene.plan, numbers_job.read(here.spark, scene.plan), pipeline=writer, function=each)


def assert_complete(scene: Scene) -> None:
    scene.check.wait_until_settled()
    left, right = left_and_right(scene)
    assert left == Counter(str(number) for number in range(COUNT))
    assert right == Counter(str(number) for number in range(0, COUNT, 2))


def test_they_are_one_transaction_whatever_dies(here: InProcess, scene: Scene) -> None:
    for point in (BatchStep.COMMITTING, BatchStep.COMMITTED):
        writer = here.writer(scene.plan)
        writer.fence()  # otherwise the source waits for the dead transaction's timeout
        with dying_at(point):
            assert "the pipeline died" in run_until_failed(here, scene, writer, in_one_block(writer, scene))
        if point is BatchStep.COMMITTED:
            scene.check.wait_until_settled()
        left, right = left_and_right(scene)
        assert right == Counter(number for number in left.elements() if int(number) % 2 == 0)
    writer = here.writer(scene.plan)
    run(here, scene, writer, in_one_block(writer, scene))
    assert_complete(scene)


def test_all_of_them_are_made_of_the_same_rows(here: InProcess, scene: Scene, writer: Pipeline) -> None:
    """Also where the query gives other values each time that it is computed."""
    rows = numbers_job.read(here.spark, scene.plan).select("key", sf.expr("uuid()").alias("value"))

    def each(df: DataFrame, batch_id: int) -> None:
        with writer.batch(df, batch_id) as batch:
            batch.write(df, topic=scene.plan.left)
            batch.write(df, topic=scene.plan.right)

    here.run(scene.plan, rows, pipeline=writer, function=each)
    scene.check.wait_until_settled()
    left, right = left_and_right(scene)
    assert left == right
    assert len(left) == COUNT


def two_calls(first: Pipeline, second: Pipeline, scene: Scene) -> EachBatch:
    def each(df: DataFrame, batch_id: int) -> None:
        first(with_topic(text(df), scene.plan.left), batch_id)
        second(with_topic(even(df), scene.plan.right), batch_id)

    return each


@pytest.mark.parametrize("who", ["one writer", "two writers of one pipeline"])
def test_two_calls_are_refused_and_what_is_missing_is_written_in_a_block(
    here: InProcess, scene: Scene, who: str
) -> None:
    for _ in range(2):  # a second start with the same function goes no further
        writer = here.writer(scene.plan)
        other = writer if who == "one writer" else here.writer(scene.plan)
        said = run_until_failed(here, scene, writer, two_calls(writer, other, scene))
        assert "the writer was called twice for batch 0" in said
        assert "with writer.batch(df, batch_id) as batch" in said
    assert not read_committed(scene.plan.bootstrap, scene.plan.right)
    writer = here.writer(scene.plan)
    run(here, scene, writer, in_one_block(writer, scene))
    assert_complete(scene)


def numbered(df: DataFrame, number: int, scene: Scene) -> DataFrame:
    values = text(df).withColumn("value", sf.concat(sf.lit(f"{number}-"), "value"))
    return with_topic(values, scene.plan.left)


def in_blocks(writer: Pipeline, scene: Scene, *blocks: range) -> EachBatch:
    """A block for each of several ranges of writes."""

    def each(df: DataFrame, batch_id: int) -> None:
        for numbers in blocks:
            with writer.batch(df, batch_id) as batch:
                for number in numbers:
                    batch.write(numbered(df, number, scene))

    return each


@pytest.mark.parametrize("first", [1, 2])
def test_what_is_missing_is_counted_by_the_first_of_two_calls(
    here: InProcess, scene: Scene, writer: Pipeline, first: int
) -> None:
    said = run_until_failed(here, scene, writer, in_blocks(writer, scene, range(first), range(first, 3)))
    assert "the writer was called twice" in said
    writer = here.writer(scene.plan)
    run(here, scene, writer, in_blocks(writer, scene, range(3)))
    scene.check.wait_until_settled()
    found = Counter(read_committed(scene.plan.bootstrap, scene.plan.left))
    assert found == Counter(f"{number}-{n}" for number in range(3) for n in range(COUNT))


def test_two_pipelines_may_be_written_in_one_function(
    here: InProcess, scene: Scene, make_scene: MakeScene, caplog: pytest.LogCaptureFixture
) -> None:
    """Each has a transaction of its own, and a batch that one of them has committed is not written again by it."""
    neighbour = make_scene()
    for passes in (2, 1):
        first, second = here.writer(scene.plan), here.writer(neighbour.plan)
        with dying_at(BatchStep.COMMITTED, passes=passes):
            run_until_failed(here, scene, first, two_calls(first, second, scene))
    first, second = here.writer(scene.plan), here.writer(neighbour.plan)
    run(here, scene, first, two_calls(first, second, scene))
    assert_complete(scene)
    assert f"the sink's pipeline is '{neighbour.plan.pipeline}', but the source's option" in caplog.text


def test_a_block_without_writes_moves_the_offsets(here: InProcess, scene: Scene, writer: Pipeline) -> None:
    def each(df: DataFrame, batch_id: int) -> None:
        with writer.batch(df, batch_id):
            pass

    run(here, scene, writer, each)
    assert sum(scene.check.committed().values()) == COUNT
    assert not read_committed(scene.plan.bootstrap, scene.plan.left)


def test_a_block_that_raises_writes_nothing(here: InProcess, scene: Scene, writer: Pipeline) -> None:
    def each(df: DataFrame, batch_id: int) -> None:
        with writer.batch(df, batch_id) as batch:
            batch.write(text(df), topic=scene.plan.left)
            raise RuntimeError("not today")

    assert "not today" in run_until_failed(here, scene, writer, each)
    assert not read_committed(scene.plan.bootstrap, scene.plan.left)
    run(here, scene, writer, in_one_block(writer, scene))
    assert_complete(scene)


def test_a_block_that_never_ends_is_reported_and_stops_nobody(here: InProcess, scene: Scene, writer: Pipeline) -> None:
    def each(df: DataFrame, batch_id: int) -> None:
        writer.batch(df, batch_id).__enter__().write(text(df), topic=scene.plan.left)

    assert "batch 0 of query" in (said := run_until_failed(here, scene, writer, each))
    assert "failed and was not written" in said
    scene.delete_checkpoint()
    run(here, scene, writer, in_one_block(writer, scene))
    assert_complete(scene)


def test_the_writer_is_not_called_inside_of_its_block(here: InProcess, scene: Scene, writer: Pipeline) -> None:
    def each(df: DataFrame, batch_id: int) -> None:
        with writer.batch(df, batch_id):
            writer(with_topic(text(df), scene.plan.left), batch_id)

    assert "call batch.write(rows), not the writer" in run_until_failed(here, scene, writer, each)
    assert not read_committed(scene.plan.bootstrap, scene.plan.left)
