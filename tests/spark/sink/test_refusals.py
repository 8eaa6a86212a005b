"""Refusals: the message says what to do, and nothing is written."""

import dataclasses

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from fencepost.errors import BootstrapFailed
from fencepost.spark.sink import active
from fencepost.spark.sink.steps import BatchStep
from tests import logins
from tests.conftest import unique
from tests.spark import numbers_job
from tests.spark.checker import partitions_of
from tests.spark.numbers_job import end_when_done
from tests.spark.scene import MakeScene, Scene
from tests.spark.sink.inprocess import Gate, InProcess, dying_at, looking
from tests.spark.source.support import load


def set_offsets(scene: Scene, offset: int) -> None:
    """As `kafka-consumer-groups --reset-offsets` does."""
    admin = AdminClient(logins.confluent(scene.plan.bootstrap))
    source = scene.plan.source
    places = [TopicPartition(source, each, offset) for each in partitions_of(admin, source)]
    asked = [ConsumerGroupTopicPartitions(scene.plan.pipeline, places)]
    admin.alter_consumer_group_offsets(asked)[scene.plan.pipeline].result(20)


def forget_offsets(scene: Scene) -> None:
    """As Kafka does after `offsets.retention.minutes`."""
    admin = AdminClient(logins.confluent(scene.plan.bootstrap))
    admin.delete_consumer_groups([scene.plan.pipeline])[scene.plan.pipeline].result(20)


def test_expired_group_offsets_are_found_in_the_ledger(here: InProcess, make_scene: MakeScene) -> None:
    scene = make_scene(100)
    here.run(scene.plan)
    forget_offsets(scene)
    scene.check.write(50)
    here.run(scene.plan)
    scene.check.assert_complete()
    forget_offsets(scene)
    scene.delete_checkpoint()
    scene.check.write(50)
    here.run(scene.plan)
    scene.check.assert_complete()


def test_a_group_that_was_reset_on_purpose_stops_the_pipeline(here: InProcess, make_scene: MakeScene) -> None:
    scene = make_scene(100)
    here.run(scene.plan)
    scene.check.write(50)
    set_offsets(scene, 0)
    said = here.run_until_failed(scene.plan)
    assert "does not continue where the pipeline stopped" in said
    assert "committed is 0" in said
    assert scene.check.assert_whole() == 100


def test_the_checkpoint_of_another_pipeline_is_refused(here: InProcess, make_scene: MakeScene) -> None:
    """Its offsets are not where this pipeline stopped."""
    scene, neighbour = make_scene(100), unique("pipeline")
    here.run(scene.plan)
    mine = dataclasses.replace(
        scene.plan, pipeline=neighbour, checkpoint=scene.plan.checkpoint + "-2", batch_records=50
    )
    with dying_at(BatchStep.COMMITTED):
        here.run_until_failed(mine)
    before = scene.check.see()
    scene.check.write(50)
    said = here.run_until_failed(dataclasses.replace(mine, checkpoint=scene.plan.checkpoint))
    assert "BatchRefused" in said
    assert "give it a name of its own" in said
    assert scene.check.see() == before


def test_offsets_that_do_not_fit_are_refused(
    here: InProcess, make_scene: MakeScene, caplog: pytest.LogCaptureFixture
) -> None:
    """A query that starts from the beginning again would repeat everything.

    One that ends where the pipeline stands writes nothing, and logs that.
    """
    scene = make_scene(100)
    here.run(scene.plan)
    scene.delete_checkpoint()
    given = {"subscribe": scene.plan.source, "startingOffsets": "earliest"}
    again = load(here.spark.readStream, scene.plan.bootstrap, **given)
    here.run(dataclasses.replace(scene.plan, batch_records=100), numbers_job.transform(again, scene.plan))
    assert "ends where the pipeline stands already. Nothing is written" in caplog.text
    scene.delete_checkpoint()
    scene.check.write(10)
    said = here.run_until_failed(scene.plan, numbers_job.transform(again, scene.plan))
    assert "would repeat records" in said
    assert scene.check.assert_whole() == 100


def test_a_missing_topic_is_named_and_nothing_is_written(here: InProcess, make_scene: MakeScene) -> None:
    scene = make_scene(20)
    plan = dataclasses.replace(scene.plan, right=unique("nowhere"))
    said = here.run_until_failed(plan)
    assert "TopicNotFound" in said
    assert plan.right in said
    assert not scene.check.see().left
    assert sum(scene.check.committed().values()) == 0


def test_a_wrong_address_is_named(here: InProcess, make_scene: MakeScene) -> None:
    scene = make_scene(20)
    with pytest.raises(BootstrapFailed, match=r"127\.0\.0\.1:1"):
        here.start(scene.plan, bootstrap_servers="127.0.0.1:1")
    assert not scene.check.see().left


# -- time --------------------------------------------------------------------------------------------------------------


def test_a_transaction_that_outlasts_its_timeout_names_the_setting(here: InProcess, make_scene: MakeScene) -> None:
    scene = make_scene(20, options={"kafka.transaction.timeout.ms": "500"})

    def look(point: object) -> None:
        if point is BatchStep.COMMITTING:
            scene.check.wait_until_settled()  # which only the coordinator's abort can bring about

    with looking(look):
        said = here.run_until_failed(scene.plan)
    assert "transaction.timeout.ms=500" in said
    assert "raise that setting, or make batches smaller" in said
    assert not scene.check.see().left
    here.run(scene.plan)
    scene.check.assert_complete()


def test_a_restart_after_the_transaction_timeout_loses_nothing(here: InProcess, make_scene: MakeScene) -> None:
    scene = make_scene(100, options={"kafka.transaction.timeout.ms": "500"}, batch_records=40)
    with dying_at(BatchStep.OFFSETS_ADDED, passes=1):
        here.run_until_failed(scene.plan)
    scene.check.wait_until_settled()
    assert 0 < scene.check.assert_whole() < 100
    here.run(dataclasses.replace(scene.plan, options={}))
    scene.check.assert_complete()


# -- two of one name ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("point", "protocol"), [(BatchStep.WRITTEN, "1"), (BatchStep.COMMITTING, "2")])
def test_of_two_live_pipelines_with_one_name_the_older_stops_and_undoes_nothing(
    here: InProcess, make_scene: MakeScene, monkeypatch: pytest.MonkeyPatch, protocol: str, point: BatchStep
) -> None:
    """The older one is held up, and goes on while the newer one, of another process, has a transaction open."""
    scene = make_scene(100, options={"transactionProtocol": protocol})
    younger_plan = dataclasses.replace(scene.plan, checkpoint=scene.plan.checkpoint + "-2")
    older_gate, younger_gate = Gate(point), Gate(BatchStep.COMMITTING)
    with looking(older_gate.look):
        older = here.start(scene.plan)
        older_gate.wait_until_reached(older)
    monkeypatch.setattr(active, "_running", {})  # as another process knows nothing of the older one
    with looking(younger_gate.look):
        younger = here.start(younger_plan)
        younger_gate.wait_until_reached(younger)
    older_gate.open()
    said = here.wait_until_failed(older)
    assert "Fenced" in said
    assert scene.plan.pipeline in said
    assert not scene.check.see().left
    younger_gate.open()
    end_when_done(younger)
    assert younger.awaitTermination(240)
    scene.check.assert_complete()
