"""Functions of foreachBatch as people write them: they leave batches out, swallow errors, share names."""

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark import InheritableThread
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from fencepost.errors import BatchFailed, BatchRefused, ConfigError, WriteFailed
from fencepost.spark import write_stream
from fencepost.spark.sink.pipeline import Pipeline
from fencepost.spark.sink.steps import BatchStep
from tests.conftest import wait_until
from tests.spark import numbers_job
from tests.spark.checker import read_committed
from tests.spark.scene import MakeScene, Scene
from tests.spark.sink.inprocess import InProcess, dying_at, looking
from tests.spark.source.support import delete_records, load


def written(scene: Scene) -> Counter[int]:
    return Counter(map(int, read_committed(scene.plan.bootstrap, scene.plan.left)))


def test_a_function_may_leave_out_batches_that_are_empty(here: InProcess, make_scene: MakeScene) -> None:
    scene = make_scene(20)

    def run(*, dies: bool = False) -> None:
        pipeline = here.writer(scene.plan)

        def each(df: DataFrame, batch_id: int) -> None:
            if not df.isEmpty():
                pipeline(df, batch_id)

        df = here.numbers(scene.plan).where("CAST(value AS INT) % 100 < 20")
        if dies:
            with dying_at(BatchStep.COMMITTED):
                here.run_until_failed(scene.plan, df, pipeline=pipeline, function=each)
        else:
            here.run(scene.plan, df, pipeline=pipeline, function=each)

    run()
    for _ in range(2):
        scene.check.write(80)  # nothing of them comes out
        run()
        scene.check.write(20)
        run(dies=True)
    run()
    assert written(scene) == Counter(number for number in range(scene.check.written) if number % 100 < 20)


@pytest.mark.parametrize("writers", ["one", "a new one for each batch"])
def test_a_function_that_swallows_the_writers_error_is_stopped(here: InProcess, scene: Scene, writers: str) -> None:
    """Spark believes that the batch is done. A source without Kafka offsets does not show that it is not."""
    only = here.writer(scene.plan)

    def each(df: DataFrame, batch_id: int) -> None:
        writer = only if writers == "one" else here.writer(scene.plan)
        with contextlib.suppress(ConfigError):
            writer(df if batch_id != 1 else df.drop("value"), batch_id)

    said = here.run_until_failed(
        scene.plan, here.rate(scene.plan), pipeline=only, function=each, trigger={"processingTime": "0 seconds"}
    )
    assert "failed and was not written, but the query continued with batch 2" in said
    assert sum(written(scene).values()) == 10


@pytest.mark.parametrize(
    "how", ["a column is missing", "the block raises", "the block is never ended", "every attempt fails"]
)
def test_a_swallowed_error_is_known_to_the_next_start(here: InProcess, make_scene: MakeScene, how: str) -> None:
    scene = make_scene(40, options={"maxAttempts": "1"})
    here.run(scene.plan, here.numbers(scene.plan))
    scene.check.write(10)
    pipeline = here.writer(scene.plan)

    def each(df: DataFrame, batch_id: int) -> None:
        if how == "the block is never ended":
            pipeline.batch(df, batch_id).__enter__().write(df)
            return
        with contextlib.suppress(ValueError, BatchFailed, ConfigError):
            if how == "a column is missing":
                pipeline(df.drop("value"), batch_id)
            with pipeline.batch(df, batch_id) as batch:
                batch.write(df)
                if how == "the block raises":
                    raise ValueError("the user's own")

    def fail(step: BatchStep | str) -> None:
        if how == "every attempt fails" and step is BatchStep.WRITTEN:
            raise WriteFailed("not today")

    with looking(fail):
        here.run(scene.plan, here.numbers(scene.plan), pipeline=pipeline, function=each)
    scene.check.write(10)
    said = here.run_until_failed(scene.plan, here.numbers(scene.plan))
    assert "batch 1 of query" in said
    assert "swallowed the error" in said
    assert written(scene) == Counter(range(40))
    scene.delete_checkpoint()  # as it says
    here.run(scene.plan, here.numbers(scene.plan))
    assert written(scene) == Counter(range(60))


def test_an_error_that_ends_the_query_is_no_obstacle(here: InProcess, make_scene: MakeScene) -> None:
    scene = make_scene(40)
    pipeline = here.writer(scene.plan)

    def failing(df: DataFrame, batch_id: int) -> None:
        pipeline(df.drop("value"), batch_id)

    for _ in range(2):
        assert "needs a column" in here.run_until_failed(
            scene.plan, here.numbers(scene.plan), pipeline=pipeline, function=failing
        )
    here.run(scene.plan, here.numbers(scene.plan))
    assert written(scene) == Counter(range(40))


@pytest.mark.parametrize("how", ["it writes nothing", "it is left out"])
def test_a_batch_that_failed_and_then_has_nothing_to_write_is_done(here: InProcess, scene: Scene, how: str) -> None:
    """It moves no Kafka offset, so only the ledger could remember it."""

    def run(first: Callable[[Pipeline, DataFrame, int], None]) -> str:
        pipeline = here.writer(scene.plan)

        def each(df: DataFrame, batch_id: int) -> None:
            if batch_id == 1:
                first(pipeline, df, batch_id)
            elif batch_id == 3:
                raise RuntimeError("far enough")
            else:
                pipeline(df, batch_id)

        given = {"pipeline": pipeline, "function": each, "trigger": {"processingTime": "0 seconds"}}
        return here.run_until_failed(scene.plan, here.rate(scene.plan), **given)

    assert "needs a column" in run(lambda pipeline, df, batch_id: pipeline(df.drop("value"), batch_id))
    if how == "it is left out":
        assert "far enough" in run(lambda *_: None)
    else:
        assert "far enough" in run(lambda pipeline, df, batch_id: pipeline(df.where("false"), batch_id))
    assert sum(written(scene).values()) == 20


def test_a_batch_is_written_before_its_function_returns_or_not_at_all(here: InProcess, make_scene: MakeScene) -> None:
    """A thread that is not waited for comes when Spark is at the next batch, which has other offsets."""
    scene = make_scene(60, batch_records=20)
    pipeline = here.writer(scene.plan)
    kept: list[tuple[DataFrame, int]] = []
    errors: list[Exception] = []

    def write(df: DataFrame, batch_id: int) -> None:
        try:
            pipeline(df, batch_id)
        except Exception as error:
            errors.append(error)

    def each(df: DataFrame, batch_id: int) -> None:
        if batch_id == 0:
            kept.append((df, batch_id))
        else:
            thread = InheritableThread(target=write, args=kept.pop() if kept else (df, batch_id))
            thread.start()
            thread.join()

    here.run(scene.plan, here.numbers(scene.plan), pipeline=pipeline, function=each)
    assert type(errors[0]) is ConfigError
    assert "batch 0 was passed to the writer, but query" in str(errors[0])
    assert "has completed that batch" in str(errors[0])
    assert {type(error) for error in errors[1:]} <= {BatchRefused}
    scene.check.write(10)
    assert "batch 0 of query" in here.run_until_failed(scene.plan, here.numbers(scene.plan))
    assert not written(scene)


def test_two_queries_that_run_cannot_share_a_pipeline(here: InProcess, make_scene: MakeScene) -> None:
    """And the second does no harm to the first."""
    scene, other = make_scene(20), make_scene(20)
    query = here.start(scene.plan, trigger={"processingTime": "100 milliseconds"})
    wait_until(lambda: query.lastProgress is not None, "the first query has written", 120)
    shared = dataclasses.replace(other.plan, pipeline=scene.plan.pipeline)
    said = here.run_until_failed(shared, pipeline=here.writer(shared))
    assert f"is used by query {query.id}, which is running" in said
    for session in (here.spark, here.spark.newSession()):
        with pytest.raises(BatchRefused, match="which is running"):
            write_stream(numbers_job.transform(numbers_job.read(session, shared), shared), checkpoint=shared.checkpoint)
    assert not other.check.see().left
    scene.check.write(10)
    wait_until(lambda: scene.check.assert_whole() == 30, "the first query goes on", 120)


def test_a_query_whose_name_is_taken_does_no_harm_to_the_one_that_has_it(
    here: InProcess, make_scene: MakeScene
) -> None:
    scene = make_scene(20)
    given = {"query_name": scene.plan.pipeline, "trigger": {"processingTime": "100 milliseconds"}}
    first = write_stream(here.numbers(scene.plan), checkpoint=scene.plan.checkpoint, **given)
    wait_until(lambda: first.lastProgress is not None, "the first query has written", 120)
    with pytest.raises(BatchRefused, match="is running"):
        write_stream(here.numbers(scene.plan), checkpoint=scene.plan.checkpoint, **given)
    scene.check.write(10)
    wait_until(lambda: written(scene) == Counter(range(30)) or not first.isActive, "the first query goes on", 120)
    del given["query_name"]  # the same checkpoint: Spark stops the first run, and the second goes on
    second = write_stream(here.numbers(scene.plan), checkpoint=scene.plan.checkpoint, **given)
    scene.check.write(10)
    wait_until(lambda: written(scene) == Counter(range(40)) or not second.isActive, "the second query goes on", 120)
    second.stop()
    assert written(scene) == Counter(range(40))


def test_a_pipeline_that_gets_another_name_does_not_write_its_last_batch_again(
    here: InProcess, make_scene: MakeScene
) -> None:
    scene = make_scene(40)
    with dying_at(BatchStep.COMMITTED):
        here.run_until_failed(scene.plan, here.numbers(scene.plan))
    renamed = dataclasses.replace(scene.plan, pipeline=f"{scene.plan.pipeline}-2")
    said = here.run_until_failed(renamed, here.numbers(renamed))
    assert f"was written for pipeline '{scene.plan.pipeline}'" in said
    here.run(scene.plan, here.numbers(scene.plan))  # as it says: once under the old name
    scene.check.write(10)
    here.run(renamed, here.numbers(renamed))
    assert written(scene) == Counter(range(50))


def test_records_that_are_gone_and_a_lost_checkpoint_have_a_way_out(here: InProcess, make_scene: MakeScene) -> None:
    scene = make_scene(40)
    here.run(scene.plan, here.numbers(scene.plan))
    scene.check.write(40)
    ends = scene.check.committed()
    for partition, end in ends.items():
        delete_records(scene.plan.bootstrap, scene.plan.source, end + 2, partition)
    scene.delete_checkpoint()
    said = here.run_until_failed(scene.plan, here.numbers(scene.plan))
    assert "set the option failOnDataLoss to false" in said
    given = {"subscribe": scene.plan.source, "pipeline": scene.plan.pipeline, "failOnDataLoss": False}
    rows = load(here.spark.readStream, scene.plan.bootstrap, **given)
    scene.delete_checkpoint()
    here.run(scene.plan, rows.selectExpr(f"'{scene.plan.left}' AS topic", "value"))
    found = written(scene)
    assert set(found.values()) == {1}
    assert len(found) == 80 - 2 * len(ends)


def test_a_write_that_fails_in_spark_leaves_nothing_half_done(
    here: InProcess, make_scene: MakeScene, tmp_path: Path
) -> None:
    scene = make_scene(10)
    query = write_stream(
        here.numbers(scene.plan).withColumn("value", sf.expr("raise_error('spoiled')").cast("string")),
        checkpoint=str(tmp_path / "other"),
        trigger={"availableNow": True},
    )
    with pytest.raises(StreamingQueryException, match="spoiled"):
        query.awaitTermination(240)
    assert not written(scene)
    here.run(scene.plan, here.numbers(scene.plan))
    assert written(scene) == Counter(range(10))
