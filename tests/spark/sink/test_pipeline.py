"""The sink on a real Spark and a real broker, without failures."""

import dataclasses
import threading
from collections import Counter
from collections.abc import Callable

import pytest
from confluent_kafka import IsolationLevel
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from fencepost.client.transaction import SharedTransaction
from fencepost.errors import ConfigError
from fencepost.spark import progress, subscribe, write, write_stream
from fencepost.spark.sink.progress import TransactionProgress
from fencepost.spark.sink.steps import BatchStep
from tests import logins
from tests.conftest import unique, wait_until
from tests.spark import numbers_job
from tests.spark.checker import read_committed, wait_until_settled
from tests.spark.scene import MakeScene, Scene
from tests.spark.sink.inprocess import Gate, InProcess, dying_at, looking

Topic = Callable[..., str]


def test_each_batch_is_one_transaction_and_is_reported(spark: SparkSession, make_scene: MakeScene) -> None:
    scene = make_scene(300, batch_records=150)
    heard: list[TransactionProgress] = []
    end = subscribe(heard.append)
    query = numbers_job.start(spark, scene.plan)
    numbers_job.end_when_done(query)
    assert query.awaitTermination(240)
    end()
    scene.check.assert_complete()
    sums = progress(query)
    assert sums is not None
    assert sums.committed == len(heard) >= 2
    assert (sums.aborted, sums.skipped, sums.records) == (0, 0, 600)
    assert heard[-1].epoch > heard[0].epoch
    assert set(heard[0].records) == {scene.plan.left, scene.plan.right}
    assert not [*scene.checkpoint.rglob("*.crc")], "a file that outlived its checksum could not be read"


@pytest.mark.parametrize(
    ("point", "writer"),
    [(BatchStep.DECIDED, "driver"), (BatchStep.WRITING, "tasks"), (BatchStep.WRITING, "driver")],
)
def test_a_query_that_is_stopped_in_a_batch_ends_without_an_error(
    spark: SparkSession, make_scene: MakeScene, point: BatchStep, writer: str
) -> None:
    """The first batch is written by tasks, which are cancelled; the next by the driver, which may finish it."""
    scene = make_scene(100, is_endless=True, batch_records=60)
    gate = Gate(point, passes=0 if writer == "tasks" else 1)
    with looking(gate.look):
        query = numbers_job.start(spark, scene.plan)
        gate.wait_until_reached(query)
        before = scene.check.assert_whole()
        stopping = threading.Thread(target=query.stop)
        stopping.start()
        wait_until(lambda: not query.isActive, "the query knows that it is to stop")
        gate.open()
        stopping.join()
    assert query.exception() is None
    scene.check.wait_until_settled()
    after = scene.check.assert_whole()
    if writer == "tasks":
        assert before == after == 0
    else:
        assert 0 < before <= after
    again = numbers_job.start(spark, dataclasses.replace(scene.plan, is_endless=False))
    numbers_job.end_when_done(again)
    assert again.awaitTermination(240)
    scene.check.assert_complete()


def test_columns_that_make_no_record_are_refused_before_anything_is_taken_over(
    spark: SparkSession, make_scene: MakeScene
) -> None:
    scene = make_scene(20)
    rows = numbers_job.read(spark, scene.plan).select("key")
    with pytest.raises(ConfigError, match="needs a column 'value'; it has key"):
        write_stream(
            rows, pipeline=scene.plan.pipeline, bootstrap_servers="127.0.0.1:1", checkpoint=scene.plan.checkpoint
        )


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_large_batch_is_encoded_and_written_by_all(here: InProcess, make_scene: MakeScene, codec: str) -> None:
    options = {"smallBatchRecords": "0", "kafka.batch.size": "1024", "kafka.compression.type": codec}
    scene = make_scene(2000, batch_records=1000, options=options)
    here.run(scene.plan)
    scene.check.assert_complete()


def test_offsets_move_when_a_batch_has_nothing_to_write(here: InProcess, make_scene: MakeScene) -> None:
    scene = make_scene(100)
    records = numbers_job.transform(numbers_job.read(here.spark, scene.plan).where("value IS NULL"), scene.plan)
    here.run(scene.plan, records)
    assert not scene.check.see().left
    assert sum(scene.check.committed().values()) == 100


def test_a_source_without_kafka_offsets_is_known_by_its_batches(here: InProcess, scene: Scene) -> None:
    """Spark repeats the batch that was committed and not checkpointed; the ledger knows it."""
    for count in (20, 40):
        with dying_at(BatchStep.COMMITTED, passes=1):
            here.run_until_failed(scene.plan, here.rate(scene.plan), trigger={"processingTime": "0 seconds"})
        scene.check.wait_until_settled()
        found = Counter(read_committed(scene.plan.bootstrap, scene.plan.left))
        assert found == Counter(str(number) for number in range(count))


def test_an_output_topic_may_grow_between_batches(here: InProcess, make_scene: MakeScene) -> None:
    scene = make_scene(100, batch_records=100)
    here.run(scene.plan)
    admin = AdminClient(logins.confluent(scene.plan.bootstrap))
    admin.create_partitions([NewPartitions(scene.plan.left, 5)])[scene.plan.left].result(20)
    scene.check.write(300)
    here.run(scene.plan)
    scene.check.assert_complete()
    ends = scene.check.ends(scene.plan.left, IsolationLevel.READ_COMMITTED)
    assert len(ends) == 5
    assert all(ends.values())


# -- plain batches -----------------------------------------------------------------------------------------------------


def save(rows: DataFrame, bootstrap: str, **options: object) -> None:
    """Through Spark's standard writer API."""
    given = {**logins.spark(bootstrap), **options}
    rows.write.format("fencepost").options(**given).mode("append").save()


def test_a_batch_query_is_written_in_one_transaction(spark: SparkSession, bootstrap: str, topic: Topic) -> None:
    name = topic(3)
    rows = spark.range(500).select(sf.col("id").cast("string").alias("key"), sf.col("id").cast("string").alias("value"))
    done = write(rows, bootstrap_servers=bootstrap, topic=name, options=logins.sink(bootstrap))
    assert done.records == {name: 500}
    save(rows, bootstrap, topic=name)
    wait_until_settled(bootstrap, name)
    assert Counter(read_committed(bootstrap, name)) == Counter({str(number): 2 for number in range(500)})


def test_of_a_batch_query_that_fails_nothing_is_visible(spark: SparkSession, bootstrap: str, topic: Topic) -> None:
    name = topic(2)
    rows = spark.range(500, numPartitions=2).select(
        sf.expr("CAST(IF(id = 499, raise_error('spoiled'), id) AS STRING)").alias("value")
    )
    options = {**logins.sink(bootstrap), "kafka.batch.size": "1024"}
    with pytest.raises(Exception, match="spoiled"):
        write(rows, bootstrap_servers=bootstrap, topic=name, options=options)
    with pytest.raises(Exception, match="spoiled"):
        save(rows, bootstrap, topic=name)
    assert not read_committed(bootstrap, name)


@pytest.mark.parametrize("how", ["write", "save"])
@pytest.mark.parametrize("protocol", [1, 2])
def test_a_batch_query_uses_the_transaction_protocol_that_is_set(
    spark: SparkSession, bootstrap: str, topic: Topic, how: str, protocol: int
) -> None:
    """Only protocol 2 raises the epoch when a transaction ends. Each start raises it as well."""
    name, transactional_id = topic(1), unique("nightly")
    rows = spark.range(10).select(sf.col("id").cast("string").alias("value"))
    options = {"topic": name, "transactionProtocol": protocol}
    for _ in range(2):
        if how == "write":
            secured = {**logins.sink(bootstrap), **options}
            write(rows, bootstrap_servers=bootstrap, transactional_id=transactional_id, options=secured)
        else:
            save(rows, bootstrap, transactionalId=transactional_id, **options)
    with logins.cluster(bootstrap) as cluster:
        next_identity = SharedTransaction(cluster, transactional_id).init()
    assert next_identity.epoch == 2 * protocol


def test_the_argument_topic_is_for_all_rows(here: InProcess, make_scene: MakeScene, topic: Topic) -> None:
    scene, name = make_scene(20), topic(1)
    here.run(scene.plan, topic=name)
    assert len(read_committed(scene.plan.bootstrap, name)) == 40
