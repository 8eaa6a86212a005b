"""A topic that was deleted and created again is another topic, however far it has grown."""

from collections import Counter

import pytest

from tests.conftest import wait_until
from tests.spark import numbers_job
from tests.spark.checker import read_committed
from tests.spark.scene import MakeScene, Scene
from tests.spark.sink.inprocess import InProcess
from tests.spark.source.support import create_again, fill, load

OLD, NEW = 60, 300


def replace_source(scene: Scene) -> list[str]:
    """Create it again, with more records than the old topic ever held, in each partition."""
    create_again(scene.plan.bootstrap, scene.plan.source, partitions=3)
    values = [f"new {number}" for number in range(NEW)]
    for partition in range(3):
        fill(scene.plan.bootstrap, scene.plan.source, values[partition::3], partition)
    return values


@pytest.mark.parametrize("checkpoint", ["kept", "deleted"])
def test_a_source_that_was_created_again_stops_the_pipeline_until_it_is_accepted(
    here: InProcess, make_scene: MakeScene, checkpoint: str
) -> None:
    scene = make_scene(OLD)
    here.run(scene.plan)
    scene.check.wait_until_settled()
    before = Counter(read_committed(scene.plan.bootstrap, scene.plan.left))
    values = replace_source(scene)
    if checkpoint == "deleted":
        scene.delete_checkpoint()
    said = here.run_until_failed(scene.plan)
    assert f"topic '{scene.plan.source}' was deleted and created again" in said
    assert "failOnDataLoss" in said
    assert Counter(read_committed(scene.plan.bootstrap, scene.plan.left)) == before
    given = {"subscribe": scene.plan.source, "pipeline": scene.plan.pipeline, "maxOffsetsPerTrigger": 100}
    accepting = load(here.spark.readStream, scene.plan.bootstrap, failOnDataLoss=False, **given)
    here.run(scene.plan, numbers_job.transform(accepting, scene.plan))
    here.run(scene.plan)  # and from here on it is an ordinary topic again
    scene.check.wait_until_settled()
    found = Counter(read_committed(scene.plan.bootstrap, scene.plan.left))
    assert found - before == Counter(f"L {value}" for value in values)


def test_another_start_than_what_is_committed_does_not_get_around_it(here: InProcess, make_scene: MakeScene) -> None:
    """The sink looks for itself, whatever the source has been told."""
    scene = make_scene(OLD)
    here.run(scene.plan)
    replace_source(scene)
    scene.delete_checkpoint()
    given = {"subscribe": scene.plan.source, "startingOffsets": "earliest"}
    rows = load(here.spark.readStream, scene.plan.bootstrap, **given)
    said = here.run_until_failed(scene.plan, numbers_job.transform(rows, scene.plan))
    assert "BatchRefused" in said
    assert "was deleted and created again" in said
    scene.check.wait_until_settled()
    assert len(read_committed(scene.plan.bootstrap, scene.plan.left)) == OLD


def test_a_topic_that_is_created_again_while_the_query_runs_is_noticed(here: InProcess, make_scene: MakeScene) -> None:
    scene = make_scene(OLD)
    query = here.start(scene.plan, trigger={"processingTime": "100 milliseconds"})
    wait_until(lambda: len(read_committed(scene.plan.bootstrap, scene.plan.left)) == OLD, "all is written", 120)
    replace_source(scene)
    said = here.wait_until_failed(query)
    assert "deleted" in said
    scene.check.wait_until_settled()
    assert len(read_committed(scene.plan.bootstrap, scene.plan.left)) == OLD


def test_an_output_topic_may_be_created_again(here: InProcess, make_scene: MakeScene) -> None:
    scene = make_scene(OLD)
    here.run(scene.plan)
    for name, partitions in ((scene.plan.left, 3), (scene.plan.right, 2)):
        create_again(scene.plan.bootstrap, name, partitions)
    scene.check.write(20)
    here.run(scene.plan)
    scene.check.wait_until_settled()
    assert len(read_committed(scene.plan.bootstrap, scene.plan.left)) == 20
