"""A stateful step from input to output, with the checkpoint lost, the query changed, and the cache lost."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from fencepost.client.admin import grow_topic
from fencepost.client.cluster import Cluster
from fencepost.errors import ConfigError
from fencepost.spark import write_stream
from fencepost.spark.state import Keyed, State, StatefulStep, Updated
from fencepost.spark.state.changelog import changelog_name


def add_up(given: Keyed) -> Updated:
    count = len(given.keys)
    bought = np.bincount(given.index, minlength=count)
    spent = np.bincount(given.index, weights=given.rows.column("price").to_numpy(), minlength=count)
    state = pa.table(
        {
            "purchases": given.old.column("purchases").fill_null(0).to_numpy() + bought,
            "amount": given.old.column("amount").fill_null(0.0).to_numpy() + spent,
        }
    )
    return Updated(
        state, pa.table({"user": given.keys.column("user"), **{n: state.column(n) for n in state.schema.names}})
    )


def forget_large(given: Keyed) -> Updated:
    """Counts, and takes a key out of the state when it has come to three."""
    counts = given.old.column("n").fill_null(0).to_numpy() + np.bincount(given.index, minlength=len(given.keys))
    state = pa.table({"n": pa.array(counts, pa.int64(), mask=counts >= 3)})
    return Updated(state, pa.table({"user": given.keys.column("user"), "n": pa.array(counts)}))


class Till:
    """One pipeline with one stateful step, run until its input is used up, again and again."""

    def __init__(self, spark: SparkSession, bootstrap: str, topic: Callable[..., str], home: Path) -> None:
        self.spark, self.bootstrap, self.home = spark, bootstrap, home
        self.source, self.target = topic(3), topic(2)
        self.pipeline = f"till-{self.source}"
        self.runs = 0
        self.checkpoint = str(home / "checkpoint")
        self.state_directory = str(home / "state")

    def buy(self, users: list[str]) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for user in users:
            producer.produce(self.source, json.dumps({"user": user, "price": 1.25}), key=user)
        assert producer.flush(30) == 0

    def run(self, step: StatefulStep, **options: str) -> None:
        rows = (
            self.spark.readStream.format("fencepost")
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("subscribe", self.source)
            .option("startingOffsets", "committed")
            .option("kafka.group.id", self.pipeline)
            .options(**options)
            .load()
        )

        def transform(batch: DataFrame, state: State) -> DataFrame:
            parsed = sql.from_json(sql.col("value").cast("string"), "user string, price double")
            return state.update(batch.select(parsed.alias("p")).select("p.*"), step)

        query = write_stream(
            rows,
            pipeline=self.pipeline,
            bootstrap_servers=self.bootstrap,
            checkpoint=self.checkpoint,
            transform=transform,
            trigger={"availableNow": True},
            options={"stateDirectory": self.state_directory},
        )
        query.awaitTermination()
        self.runs += 1

    def lose_checkpoint(self) -> None:
        shutil.rmtree(self.checkpoint)

    def step(self, update: Any = add_up, **changes: Any) -> StatefulStep:
        given = {
            "name": "totals",
            "keys": ("user",),
            "state": "purchases long, amount double",
            "output": "user string, purchases long, amount double",
            "topic": self.target,
            "partitions": 3,
        }
        return StatefulStep(update=update, **{**given, **changes})

    def last(self, topic: str | None = None) -> dict[str, Any]:
        """The last committed value of each key of the output."""
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": f"look-{self.pipeline}", "auto.offset.reset": "earliest",
             "enable.partition.eof": True, "enable.auto.commit": False}
        )  # fmt: skip
        consumer.subscribe([topic or self.target])
        found: dict[str, Any] = {}
        ended: set[int] = set()
        partitions = len(consumer.list_topics(topic or self.target, timeout=30).topics[topic or self.target].partitions)
        while len(ended) < partitions:
            message = consumer.poll(30)
            assert message is not None, "the output cannot be read"
            if message.error():
                ended.add(message.partition())
            else:
                found[message.key().decode()] = json.loads(message.value()) if message.value() else None
        consumer.close()
        return found


@pytest.fixture
def till(spark: SparkSession, bootstrap: str, topic: Callable[..., str], tmp_path: Path) -> Till:
    return Till(spark, bootstrap, topic, tmp_path)


def test_totals_stay_exact_over_restarts_lost_checkpoints_changed_queries_and_lost_caches(
    till: Till, spark: SparkSession, cluster: Cluster
) -> None:
    users = [f"user-{number % 40}" for number in range(200)]
    till.buy(users)
    till.run(till.step(), maxOffsetsPerTrigger="90")
    till.buy(users)
    till.run(till.step())  # goes on with its checkpoint

    till.lose_checkpoint()
    grow_topic(cluster, till.source, 5)  # another number of input partitions ...
    spark.conf.set("spark.sql.shuffle.partitions", "3")  # ... and of shuffle partitions ...
    till.buy(users)
    wider = till.step(output="user string, purchases long, amount double, mean double", update=_with_mean)
    till.run(wider)  # ... and another output column
    spark.conf.set("spark.sql.shuffle.partitions", "2")

    till.lose_checkpoint()
    shutil.rmtree(till.state_directory)
    till.state_directory += "-2"
    till.buy(users)
    till.run(wider)

    found = till.last()
    assert set(found) == set(users)
    expected = {"purchases": 20, "amount": 25.0, "mean": 1.25}
    assert all({name: row[name] for name in expected} == expected for row in found.values()), found
    state = till.last(changelog_name(till.pipeline, "totals"))
    assert {json.loads(key)["user"] for key in state} == set(users)
    assert all(value == {"purchases": 20, "amount": 25.0} for value in state.values())


def _with_mean(given: Keyed) -> Updated:
    state, output = add_up(given)
    mean = output.column("amount").to_numpy() / output.column("purchases").to_numpy()
    return Updated(state, output.append_column("mean", pa.array(mean)))


def test_a_state_of_nulls_takes_the_key_out(till: Till) -> None:
    step = till.step(forget_large, state="n long", output="user string, n long")
    till.buy(["a", "a", "b"])
    till.run(step)
    till.buy(["a", "b"])
    till.run(step)  # a comes to three and is taken out
    till.buy(["a", "b"])
    till.run(step)  # so it begins anew; b comes to three
    assert {user: row["n"] for user, row in till.last().items()} == {"a": 1, "b": 3}
    state = till.last(changelog_name(till.pipeline, "totals"))
    assert {json.loads(key)["user"]: value for key, value in state.items()} == {"a": {"n": 1}, "b": None}


def test_a_changelog_that_was_given_more_partitions_is_refused(till: Till, cluster: Cluster) -> None:
    till.buy(["a"])
    till.run(till.step())
    grow_topic(cluster, changelog_name(till.pipeline, "totals"), 5)
    till.buy(["a"])
    with pytest.raises(Exception, match="keys would be looked for in the wrong ones"):
        till.run(till.step())
    assert till.last()["a"]["purchases"] == 1


def test_a_step_that_cannot_work_is_refused_when_it_is_made() -> None:
    with pytest.raises(ConfigError, match="key columns"):
        StatefulStep("totals", (), "n long", add_up)
    with pytest.raises(ConfigError, match="cannot be"):
        StatefulStep("to/tals", ("user",), "n long", add_up)
    with pytest.raises(ConfigError, match="needs both"):
        StatefulStep("totals", ("user",), "n long", add_up, output="n long")
