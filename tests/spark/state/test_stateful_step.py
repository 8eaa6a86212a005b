"""A stateful step from input to output, with the checkpoint lost, the query changed, and the cache lost."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from fencepost.client.cluster import Cluster
from fencepost.errors import ConfigError
from fencepost.spark import write_stream
from fencepost.spark.naming import changelog_name
from fencepost.spark.sink.record_maker import Transform
from fencepost.spark.state import Keyed, State, StatefulStep, Updated
from tests import logins
from tests.conftest import grow_topic
from tests.spark.checker import read_committed, read_records, wait_until_settled
from tests.spark.numbers_job import EVERYTHING, end_when_done
from tests.spark.source.support import configured, create_again, delete_topic, load


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


def parsed(batch: DataFrame) -> DataFrame:
    fields = sql.from_json(sql.col("value").cast("string"), "user string, price double")
    return batch.select(fields.alias("p")).select("p.*")


class Till:
    """One pipeline with one stateful step, run until its input is used up, again and again."""

    def __init__(self, spark: SparkSession, bootstrap: str, topic: Callable[..., str], home: Path) -> None:
        self.spark, self.bootstrap, self.home = spark, bootstrap, home
        self.source, self.target = topic(3), topic(2)
        self.pipeline = f"till-{self.source}"
        self.checkpoint = str(home / "checkpoint")
        self.state_directory = str(home / "state")

    def buy(self, users: list[str]) -> None:
        producer = Producer(logins.confluent(self.bootstrap))
        for user in users:
            producer.produce(self.source, json.dumps({"user": user, "price": 1.25}), key=user)
        assert producer.flush(30) == 0

    def run(self, step: StatefulStep, rows: Callable[[DataFrame], DataFrame] = parsed, **options: str) -> None:
        self.run_transform(lambda batch, state: state.update(rows(batch), step), **options)

    def run_transform(self, transform: Transform, topic: str | None = None, **options: str) -> None:
        rows = load(self.spark.readStream, self.bootstrap, subscribe=self.source, pipeline=self.pipeline, **options)
        query = write_stream(
            rows,
            checkpoint=self.checkpoint,
            topic=topic,
            transform=transform,
            trigger=EVERYTHING,
            options={"stateDirectory": self.state_directory},
        )
        end_when_done(query)
        query.awaitTermination()

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
        wait_until_settled(self.bootstrap, topic or self.target)
        records = read_records(self.bootstrap, topic or self.target)
        return {each.key().decode(): json.loads(each.value()) if each.value() else None for each in records}


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
    till.buy(users)
    wider = till.step(output="user string, purchases long, amount double, mean double", update=_with_mean)
    with configured(spark, "spark.sql.shuffle.partitions", "3"):  # ... and of shuffle partitions ...
        till.run(wider)  # ... and another output column

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


def count_times(given: Keyed) -> Updated:
    counts = given.old.column("n").fill_null(0).to_numpy() + np.bincount(given.index, minlength=len(given.keys))
    return Updated(pa.table({"n": counts}), pa.table({"at": given.keys.column("at"), "n": counts}))


def test_a_key_that_is_a_time_is_found_in_every_time_zone_and_to_the_microsecond(
    till: Till, spark: SparkSession
) -> None:
    step = till.step(
        count_times, keys=("at",), state="n long", output="at timestamp, n long", key="unix_micros(at)", value="n"
    )
    times = [f"2026-10-25T00:30:00.00000{micros}Z" for micros in (1, 2)]
    for zone in ("UTC", "Europe/Berlin", "America/New_York"):
        till.buy(times)
        with configured(spark, "spark.sql.session.timeZone", zone):
            till.run(step, lambda batch: parsed(batch).select(sql.col("user").cast("timestamp").alias("at")))
    assert list(till.last().values()) == [3, 3]


def test_a_state_of_nulls_takes_the_key_out(till: Till) -> None:
    step = till.step(forget_large, state="n long", output="user string, n long")
    till.buy(["a", "a", "b"])
    till.run(step)
    till.buy(["a", "b"])
    till.run(step)  # a comes to three and is taken out
    till.buy(["a", "b"])
    till.run(step)  # so it starts from zero; b comes to three
    assert {user: row["n"] for user, row in till.last().items()} == {"a": 1, "b": 3}
    state = till.last(changelog_name(till.pipeline, "totals"))
    assert {json.loads(key)["user"]: value for key, value in state.items()} == {"a": {"n": 1}, "b": None}


def test_a_topic_for_all_rows_is_not_for_the_changelog(till: Till, topic: Callable[..., str]) -> None:
    seen = topic(1)

    def transform(batch: DataFrame, state: State) -> DataFrame:
        users = parsed(batch).select(sql.col("user").alias("key"), sql.col("user").alias("value"))
        return users.unionByName(state.update(parsed(batch), till.step()), allowMissingColumns=True)

    for _ in range(2):
        till.buy(["a", "b", "a"])
        till.run_transform(transform, topic=seen)
    assert {user: row["purchases"] for user, row in till.last().items()} == {"a": 4, "b": 2}
    wait_until_settled(till.bootstrap, seen)
    assert sorted(read_committed(till.bootstrap, seen)) == ["a"] * 4 + ["b"] * 2


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("with more partitions", "keys would be looked for in the wrong ones"),
        ("created again", "was deleted and created again"),
        ("deleted", "held this pipeline's state and is gone"),
    ],
)
def test_a_changelog_that_has_lost_the_state_is_refused(till: Till, cluster: Cluster, how: str, said: str) -> None:
    """Otherwise the totals would start from zero unnoticed."""
    till.buy(["a"])
    till.run(till.step())
    name = changelog_name(till.pipeline, "totals")
    if how == "with more partitions":
        grow_topic(cluster, name, 5)
    elif how == "created again":
        create_again(till.bootstrap, name, len(cluster.topic(name).partitions))
    else:
        delete_topic(till.bootstrap, name)
    till.buy(["a"])
    with pytest.raises(Exception, match=said):
        till.run(till.step())
    assert till.last()["a"]["purchases"] == 1


def test_a_step_that_cannot_work_is_refused_when_it_is_made() -> None:
    with pytest.raises(ConfigError, match="key columns"):
        StatefulStep("totals", (), "n long", add_up)
    with pytest.raises(ConfigError, match="part of a topic name"):
        StatefulStep("to/tals", ("user",), "n long", add_up)
    with pytest.raises(ConfigError, match="needs both"):
        StatefulStep("totals", ("user",), "n long", add_up, output="n long")
