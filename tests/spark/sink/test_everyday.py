"""What a cluster goes through on an ordinary day, under a query that runs: docs/spark.md, "What happens to a batch".

Topics are deleted, grow and appear, brokers move, compaction takes records away, clocks are set. Most tests hold a
batch at a step, do it, and look from outside at what became of the batch.
"""

import contextlib
import dataclasses
import itertools
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.errors import StreamingQueryException

from fencepost.client.cluster import Cluster
from fencepost.lab.kit.servers import Ours, free_ports
from fencepost.spark.sink.steps import BatchStep
from tests import logins
from tests.conftest import BUSY_SETTINGS, grow_topic, topic_maker, unique, wait_until
from tests.spark import numbers_job
from tests.spark.checker import read_committed, read_records
from tests.spark.numbers_job import Plan, end_when_done
from tests.spark.scene import SMALL_RECORD_BATCHES, MakeScene, Scene
from tests.spark.sink.inprocess import Gate, InProcess, looking
from tests.spark.source.support import create_again, fill, load

#: Tasks write; otherwise the driver would write all batches but the first.
BY_TASKS = {**SMALL_RECORD_BATCHES, "smallBatchRecords": "0"}
OFTEN = {"processingTime": "100 milliseconds"}


def run_and_meanwhile(
    here: InProcess, scene: Scene, point: BatchStep, meanwhile: Callable[[], object], passes: int = 0
) -> str | None:
    """Run the scene's query, and do something while a batch is held at a step. Returns what the query failed with."""
    gate = Gate(point, passes=passes)
    with looking(gate.look):
        query = here.start(scene.plan)
        gate.wait_until_reached(query)
        meanwhile()
        gate.open()
        with contextlib.suppress(StreamingQueryException):
            end_when_done(query)
        wait_until(lambda: not query.isActive, "the query ends", 240)
    raised = query.exception()
    return None if raised is None else str(raised)


# -- topics ------------------------------------------------------------------------------------------------------------


def test_an_input_topic_that_is_created_again_during_a_batch_ends_the_query(
    here: InProcess, make_scene: MakeScene
) -> None:
    """The batch was planned in the old topic. Nothing of the new one is taken for it."""
    scene = make_scene(100, batch_records=60, options=BY_TASKS)

    def replace_source() -> None:
        create_again(scene.plan.bootstrap, scene.plan.source, partitions=3)
        for partition in range(3):
            fill(scene.plan.bootstrap, scene.plan.source, [f"new {number}" for number in range(100)], partition)

    said = run_and_meanwhile(here, scene, BatchStep.DECIDED, replace_source, passes=1)
    assert said is not None
    assert scene.plan.source in said
    scene.check.wait_until_settled()
    written = Counter(read_committed(scene.plan.bootstrap, scene.plan.left))
    assert 0 < len(written) <= 60
    assert set(written.values()) == {1}
    assert not any("new" in value for value in written)
    assert "deleted, with records of a batch that has not been read" in here.run_until_failed(scene.plan)


@pytest.mark.parametrize("point", [BatchStep.DECIDED, BatchStep.WRITING, BatchStep.WRITTEN])
def test_an_output_topic_may_grow_during_a_batch(
    here: InProcess, make_scene: MakeScene, cluster: Cluster, point: BatchStep
) -> None:
    scene = make_scene(200, batch_records=100, options=BY_TASKS)
    said = run_and_meanwhile(here, scene, point, lambda: grow_topic(cluster, scene.plan.left, 6))
    assert said is None
    scene.check.assert_complete()


def test_a_topic_that_begins_to_match_a_pattern_is_read_from_its_first_record(
    here: InProcess, make_scene: MakeScene, topic: Callable[..., str]
) -> None:
    """Also if it has had records for a while when the running query first sees it."""
    scene = make_scene(20)
    prefix = unique("pattern")
    first, second = topic(2, name=f"{prefix}-1"), f"{prefix}-2"
    fill(scene.plan.bootstrap, first, [f"1 {number}" for number in range(30)])
    rows = load(
        here.spark.readStream,
        scene.plan.bootstrap,
        subscribePattern=f"{prefix}-.*",
        pipeline=scene.plan.pipeline,
        maxOffsetsPerTrigger=20,
    )
    expected = Counter(f"L {turn} {number}" for turn in (1, 2) for number in range(30))

    def written() -> Counter[str]:
        return Counter(read_committed(scene.plan.bootstrap, scene.plan.left))

    query = here.start(scene.plan, numbers_job.transform(rows, scene.plan), trigger=OFTEN)
    wait_until(lambda: written().total() == 30, "the first topic is read", 120)
    topic(3, name=second)
    for partition in range(3):
        fill(scene.plan.bootstrap, second, [f"2 {number}" for number in range(partition, 30, 3)], partition)
    wait_until(lambda: written().total() >= 60 or not query.isActive, "the second topic is read", 120)
    query.stop()
    assert query.exception() is None
    scene.check.wait_until_settled()
    assert written() == expected
    here.run(scene.plan, numbers_job.transform(rows, scene.plan))
    assert written() == expected, "nor again after a restart"


# -- brokers -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def elsewhere(start_broker: Callable[..., Ours], tmp_path: Path) -> Callable[..., tuple[Ours, Scene]]:
    """A scene on a broker of the test's own, with these settings of the broker and of the source topic."""

    def make(settings: dict[str, str], config: dict[str, object], *ports: int) -> tuple[Ours, Scene]:
        broker = start_broker(settings)
        bootstrap = ",".join([broker.bootstrap, *(f"127.0.0.1:{port}" for port in ports)])
        topic = topic_maker(AdminClient(logins.confluent(bootstrap)))
        names = [unique("pipeline"), topic(1, config=config), topic(3), topic(2)]
        plan = Plan(bootstrap, *names, str(tmp_path / "checkpoint"), options=BY_TASKS)
        return broker, Scene(plan)

    return make


def test_a_broker_that_moves_to_another_address_during_a_batch_is_found_again(
    here: InProcess, elsewhere: Callable[..., tuple[Ours, Scene]]
) -> None:
    """By the other bootstrap server. The transaction is continued there."""
    (port,) = free_ports(1)
    broker, scene = elsewhere({}, {}, port)
    scene.check.write(100)

    def move() -> None:
        broker.stop()
        broker.port = port
        broker.start()

    assert run_and_meanwhile(here, scene, BatchStep.WRITING, move) is None
    scene.check.assert_complete()


def test_records_that_compaction_removes_between_planning_and_reading_are_no_loss(
    here: InProcess, elsewhere: Callable[..., tuple[Ours, Scene]]
) -> None:
    """The batch has the records that are there: the last of each key. Its offsets end where they were planned."""
    config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.01, "segment.ms": 100}
    _, scene = elsewhere(BUSY_SETTINGS, config)
    where = (scene.plan.bootstrap, scene.plan.source)
    for turn in range(3):
        fill(*where, ["a", "b", "c", f"only in turn {turn}"])

    def compact() -> None:
        def is_compacted() -> bool:
            fill(*where, ["a"])  # a new segment, so that the last one is compacted
            return Counter(record.key() for record in read_records(*where))[b"b"] == 1

        wait_until(is_compacted, "the planned records are compacted")

    assert run_and_meanwhile(here, scene, BatchStep.DECIDED, compact) is None
    here.run(scene.plan)
    scene.check.wait_until_settled()
    written = Counter(read_committed(scene.plan.bootstrap, scene.plan.left))
    assert {value: written[f"L {value}"] for value in ("b", "c")} == {"b": 1, "c": 1}
    assert all(written[f"L only in turn {turn}"] == 1 for turn in range(3))


# -- clocks ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def set_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], float]], None]:
    """`set_clock(lambda: 3600)` sets this process's time of day forward by an hour."""
    seconds, nanoseconds = time.time, time.time_ns

    def change(ahead_s: Callable[[], float]) -> None:
        monkeypatch.setattr(time, "time", lambda: seconds() + ahead_s())
        monkeypatch.setattr(time, "time_ns", lambda: nanoseconds() + int(ahead_s() * 1e9))

    return change


@pytest.mark.parametrize("writer", ["tasks", "driver"])
def test_a_clock_that_jumps_changes_nothing_but_timestamps(
    here: InProcess, make_scene: MakeScene, set_clock: Callable[..., None], writer: str
) -> None:
    """Back by a year and forward by half an hour, at every look. Timeouts and pauses are measured by another clock."""
    scene = make_scene(300, batch_records=60, options=BY_TASKS if writer == "tasks" else SMALL_RECORD_BATCHES)
    jumps = itertools.cycle([0, 1800, -365 * 86_400])
    set_clock(lambda: next(jumps))
    here.run(scene.plan)
    scene.check.assert_complete()


def test_a_driver_whose_clock_is_far_ahead_fails_and_loses_nothing(
    here: InProcess, make_scene: MakeScene, set_clock: Callable[..., None]
) -> None:
    """Kafka takes no records from more than an hour ahead (message.timestamp.after.max.ms)."""
    scene = make_scene(100, options={**BY_TASKS, "maxAttempts": "1"})
    set_clock(lambda: 2 * 3600)
    said = here.run_until_failed(scene.plan)
    assert "timestamp" in said.lower()
    scene.check.wait_until_settled()
    assert not scene.check.see().left
    set_clock(lambda: 0)
    here.run(scene.plan)
    scene.check.assert_complete()


# -- options -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_with_a_checkpoint_other_starting_offsets_change_nothing(
    here: InProcess, make_scene: MakeScene, start: str
) -> None:
    scene = make_scene(50)
    here.run(scene.plan)
    scene.check.write(50)
    rows = load(here.spark.readStream, scene.plan.bootstrap, subscribe=scene.plan.source, startingOffsets=start)
    here.run(scene.plan, numbers_job.transform(rows, scene.plan))
    scene.check.assert_complete()


def test_without_a_checkpoint_a_start_that_would_skip_records_is_refused(
    here: InProcess, make_scene: MakeScene
) -> None:
    """`test_refusals.py` has the start that would repeat some."""
    scene = make_scene(50)
    here.run(scene.plan)
    scene.check.write(50)
    scene.delete_checkpoint()
    given = {"subscribe": scene.plan.source, "startingOffsets": "latest", "pipeline": scene.plan.pipeline}
    rows = numbers_job.transform(load(here.spark.readStream, scene.plan.bootstrap, **given), scene.plan)
    query = here.start(dataclasses.replace(scene.plan), rows, trigger=OFTEN)
    wait_until(lambda: query.lastProgress is not None or not query.isActive, "the query has begun", 120)
    scene.check.write(10)
    assert "would skip records" in here.wait_until_failed(query)
    assert scene.check.assert_whole() == 50
    scene.delete_checkpoint()
    here.run(scene.plan)
    scene.check.assert_complete()
