"""A topic that was deleted and created again is another topic, however far it has grown."""

import dataclasses
from collections import Counter
from collections.abc import Callable

import pytest
from confluent_kafka.admin import AdminClient

from tests.conftest import topic_maker, wait_until
from tests.spark import numbers_job
from tests.spark.checker import read_committed
from tests.spark.scene import Scene
from tests.spark.sink.inprocess import InProcess
from tests.spark.source.support import fill

pytestmark = pytest.mark.timeout(600)

SmallScene = Callable[..., Scene]

OLD, NEW = 60, 300


def create_again(scene: Scene, topic: str, partitions: int = 3) -> None:
    admin = AdminClient({"bootstrap.servers": scene.plan.bootstrap})
    admin.delete_topics([topic], operation_timeout=20)[topic].result(20)
    wait_until(lambda: topic not in admin.list_topics(timeout=20).topics, f"{topic} is gone")
    topic_maker(admin)(partitions, name=topic)


def fill_again(scene: Scene) -> list[str]:
    """More than the old topic ever held, in each partition."""
    values = [f"new {number}" for number in range(NEW)]
    for partition in range(3):
        fill(scene.plan.bootstrap, scene.plan.source, values[partition::3], partition)
    return values


@pytest.mark.parametrize("checkpoint", ["kept", "deleted"])
def test_a_source_that_was_created_again_stops_the_pipeline_until_it_is_told(
    here: InProcess, make_small_scene: SmallScene, checkpoint: str
) -> None:
    scene = make_small_scene(OLD)
    here.run(scene.plan)
    before = Counter(read_committed(scene.plan.bootstrap, scene.plan.left))
    create_again(scene, scene.plan.source)
    values = fill_again(scene)
    if checkpoint == "deleted":
        scene.delete_checkpoint()
    said = here.run_until_failed(scene.plan)
    assert f"topic '{scene.plan.source}' was deleted and created again" in said
    assert "failOnDataLoss" in said
    assert Counter(read_committed(scene.plan.bootstrap, scene.plan.left)) == before

    def accepting() -> object:
        rows = (
            here.spark.readStream.format("fencepost")
            .option("kafka.bootstrap.servers", scene.plan.bootstrap)
            .option("subscribe", scene.plan.source)
            .option("startingOffsets", "committed")
            .option("kafka.group.id", scene.plan.pipeline)
            .option("maxOffsetsPerTrigger", 100)
            .option("failOnDataLoss", "false")
            .load()
        )
        return numbers_job.transform(rows, scene.plan)

    here.run(scene.plan, accepting())
    here.run(scene.plan)  # and from here on it is an ordinary topic again
    found = Counter(read_committed(scene.plan.bootstrap, scene.plan.left))
    assert found - before == Counter(f"L {value}" for value in values)


def test_another_start_than_what_is_committed_does_not_get_around_it(
    here: InProcess, make_small_scene: SmallScene
) -> None:
    """The sink looks for itself, whatever the source has been told."""
    scene = make_small_scene(OLD)
    here.run(scene.plan)
    create_again(scene, scene.plan.source)
    fill_again(scene)
    scene.delete_checkpoint()
    rows = (
        here.spark.readStream.format("fencepost")
        .option("kafka.bootstrap.servers", scene.plan.bootstrap)
        .option("subscribe", scene.plan.source)
        .option("startingOffsets", "earliest")
        .load()
    )
    said = here.run_until_failed(scene.plan, numbers_job.transform(rows, scene.plan))
    assert "BatchRefused" in said
    assert "was deleted and created again" in said
    assert len(read_committed(scene.plan.bootstrap, scene.plan.left)) == OLD


def test_a_topic_that_is_created_again_while_the_query_runs_is_noticed(
    here: InProcess, make_small_scene: SmallScene
) -> None:
    scene = make_small_scene(OLD)
    query = here.start(scene.plan, trigger={"processingTime": "100 milliseconds"})
    wait_until(lambda: len(read_committed(scene.plan.bootstrap, scene.plan.left)) == OLD, "all is written", 120)
    create_again(scene, scene.plan.source)
    fill_again(scene)
    said = here.wait_until_failed(query)
    assert "deleted" in said
    assert len(read_committed(scene.plan.bootstrap, scene.plan.left)) == OLD


def test_an_output_topic_may_be_created_again(here: InProcess, make_small_scene: SmallScene) -> None:
    scene = make_small_scene(OLD)
    here.run(scene.plan)
    for name, partitions in ((scene.plan.left, 3), (scene.plan.right, 2)):
        create_again(scene, name, partitions)
    scene.check.write(20)
    here.run(dataclasses.replace(scene.plan))
    assert len(read_committed(scene.plan.bootstrap, scene.plan.left)) == 20
