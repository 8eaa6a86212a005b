"""What `ls`, `describe` and `lag` tell of pipelines, while they run and after."""

import json
import time
import uuid
from datetime import datetime
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as Place

from fencepost.client.admin import delete_topics
from fencepost.client.transaction import SharedTransaction
from fencepost.operate import lag
from fencepost.operate.standing import read
from fencepost.spark.ledger import InCheckpoint
from fencepost.wire.records import Record
from fencepost.wire.terms import TopicPartition
from tests import logins
from tests.conftest import grow_topic, unique
from tests.operate.conftest import MakePipeline
from tests.operate.pipelines import ByHand, asked, run


def unread_by_a_consumer(shop: ByHand) -> int:
    """The records that a read_committed consumer of the group still gets."""
    settings = {**logins.confluent(shop.bootstrap), "group.id": shop.name, "enable.auto.commit": "false"}
    consumer = Consumer(
        {**settings, "isolation.level": "read_committed", "auto.offset.reset": "error", "enable.partition.eof": True}
    )
    committed = consumer.committed([Place(shop.topic, where.partition) for where in shop.partitions], timeout=30)
    consumer.assign(committed)
    found, ended = 0, set()
    while len(ended) < len(committed):
        message = consumer.poll(30)
        assert message is not None
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF
            ended.add(message.partition())
        else:
            found += 1
    consumer.close()
    return found


def test_the_lag_is_what_a_consumer_still_gets(pipeline: MakePipeline, bootstrap: str):
    shop = pipeline(partitions=2)
    shop.fill("a", "b")
    shop.batch()
    shop.fill("c", "d", time_ms=int(time.time() * 1000) - 90_000)
    shop.fill_in_transaction("e", "f", "g", commit=True)
    shop.fill_in_transaction("h", "i", commit=False)
    shop.fill("j", partition=1)
    found = asked(bootstrap, "lag", shop.name)
    assert found["records"] == unread_by_a_consumer(shop) == 6
    assert found["exact"]
    assert 90 <= found["seconds"] < 150
    assert [each["records"] for each in found["partitions"]] == [5, 1]


def test_markers_and_aborted_records_are_no_lag(pipeline: MakePipeline, bootstrap: str):
    shop = pipeline()
    shop.fill("a")
    shop.batch()
    shop.fill_in_transaction("b", "c", commit=False)
    found = asked(bootstrap, "lag", shop.name)
    assert found["partitions"][0]["end"] > found["partitions"][0]["committed"], "there are offsets"
    assert (found["records"], found["exact"], found["seconds"]) == (0, True, 0.0)


def test_a_count_beyond_the_limit_is_an_upper_bound(pipeline: MakePipeline):
    shop = pipeline()
    shop.fill("a")
    shop.batch()
    for _ in range(20):
        shop.fill(*("x" * 1000 for _ in range(100)))
    shop.fill_in_transaction("y", commit=False)
    standing = read(shop.cluster, shop.name)
    bounded = lag.measure(shop.cluster, standing, bytes_max=1)
    assert not bounded.is_exact
    assert bounded.records is not None and bounded.records > 2000
    assert bounded.seconds is not None
    counted = lag.measure(shop.cluster, standing, bytes_max=None)
    assert (counted.records, counted.is_exact) == (2000, True)


def test_records_of_an_open_transaction_and_behind_it_are_not_counted(pipeline: MakePipeline, bootstrap: str):
    shop = pipeline()
    shop.fill("a")
    shop.batch()
    hanging = SharedTransaction(shop.cluster, unique("till"))
    hanging.init()
    shop.write(hanging, TopicPartition(shop.topic, 0), [Record(None, b"open", int(time.time() * 1000))])
    shop.fill("behind")
    found = asked(bootstrap, "lag", shop.name)
    assert (found["records"], found["partitions"][0]["undecided"]) == (0, 2)
    assert "2 offsets behind an open transaction" in run(bootstrap, "lag", shop.name).output
    hanging.commit()
    assert asked(bootstrap, "lag", shop.name)["records"] == 2


def test_scripts_learn_from_the_exit_code_that_a_pipeline_is_late(pipeline: MakePipeline, bootstrap: str):
    shop = pipeline()
    shop.fill("a", "b", time_ms=int(time.time() * 1000) - 3_600_000)
    shop.batch(end={TopicPartition(shop.topic, 0): 1})
    assert run(bootstrap, "lag", shop.name, "--max-records", 1).exit_code == 0
    assert run(bootstrap, "lag", shop.name, "--max-records", 0).exit_code == 4
    assert run(bootstrap, "lag", shop.name, "--max-seconds", 60).exit_code == 4


def test_a_partition_that_was_never_read_is_shown_beside_the_total(pipeline: MakePipeline, bootstrap: str):
    shop = pipeline()
    shop.fill("a")
    shop.batch()
    grow_topic(shop.cluster, shop.topic, 2)
    shop.fill("b", partition=1)
    found = asked(bootstrap, "lag", shop.name)
    assert found["records"] == 0
    assert (found["partitions"][1]["committed"], found["partitions"][1]["records"]) == (None, 1)


def test_a_deleted_topic_leaves_the_lag_unknown(pipeline: MakePipeline, bootstrap: str):
    shop = pipeline()
    shop.fill("a")
    shop.batch()
    delete_topics(shop.cluster, [shop.topic])
    found = asked(bootstrap, "lag", shop.name)
    assert found["records"] is None
    assert "not on this cluster" in found["partitions"][0]["problem"]
    assert run(bootstrap, "lag", shop.name, "--max-records", 10).exit_code == 4


def test_a_pipeline_is_described(pipeline: MakePipeline, bootstrap: str):
    shop = pipeline(stateful=True)
    shop.in_checkpoint = frozenset({InCheckpoint.STATE})
    shop.fill("a", "b")
    before_ms = time.time() * 1000
    shop.batch({"alice": "1", "bob": "1"})
    shop.fill("c")
    shop.batch({"alice": "2", "bob": None})
    found = asked(bootstrap, "describe", shop.name, "--history")
    assert (found["last"]["query"], found["last"]["batch"]) == (shop.query_id, 1)
    assert found["offsets"] == {shop.topic: {"0": 3}}
    assert found["lag"]["records"] == 0
    (state,) = found["state"]
    assert (state["step"], state["keys"], state["topic"]) == ("totals", 1, shop.changelog)
    assert state["bytes"] > 0
    assert [each["batch"] for each in found["history"]] == [1, 0]
    identity = shop.transaction.identity
    assert (found["transaction"]["id"], found["transaction"]["producer_id"]) == (
        identity.transactional_id,
        identity.producer_id,
    )
    assert (found["transaction"]["state"], found["activity"]) == ("CompleteCommit", "recent")
    assert before_ms - 1 < ms_of(found["last"]["time"]) <= time.time() * 1000
    text = run(bootstrap, "describe", shop.name).output
    assert f"last batch: batch 1 of query {shop.query_id}" in text
    assert "only in Spark's checkpoint: state" in text


def ms_of(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp() * 1000


def test_looking_does_not_wait_for_an_open_transaction(pipeline: MakePipeline, bootstrap: str):
    shop = pipeline()
    shop.fill("a")
    shop.batch()
    shop.fill("b")
    shop.open_batch()
    started_s = time.monotonic()
    found = asked(bootstrap, "describe", shop.name)
    assert time.monotonic() - started_s < 10
    assert (found["activity"], found["transaction"]["state"]) == ("open", "Ongoing")
    assert found["transaction"]["open_since"] is not None
    assert (found["last"]["batch"], found["offsets"], found["lag"]["records"]) == (0, {shop.topic: {"0": 1}}, 1)
    assert "running: yes: a transaction is open for" in run(bootstrap, "describe", shop.name).output
    shop.transaction.commit()
    assert asked(bootstrap, "describe", shop.name)["last"]["batch"] == 1


def test_all_pipelines_are_listed_also_one_that_has_no_batch_yet(pipeline: MakePipeline, bootstrap: str):
    idle, busy = pipeline(), pipeline()
    busy.fill("a", "b")
    busy.batch(end={TopicPartition(busy.topic, 0): 1})
    done = run(bootstrap, "ls", "--json")
    assert done.exit_code == 0, done.output
    found = {each["pipeline"]: each for each in map(json.loads, done.stdout.splitlines())}
    assert found[idle.name]["last"] is None
    assert (found[busy.name]["last"]["batch"], found[busy.name]["lag"]["records"]) == (0, 1)
    assert busy.name in run(bootstrap, "ls").output


def test_an_unknown_name_has_an_exit_code_of_its_own(bootstrap: str):
    done = run(bootstrap, "describe", "nobody")
    assert done.exit_code == 3
    assert "no pipeline 'nobody'" in done.stderr


def test_an_unreachable_cluster_is_a_failure():
    done = run("127.0.0.1:1", "ls")
    assert done.exit_code == 1
    assert "no broker answers" in done.stderr


def test_offsets_set_with_another_tool_are_pointed_out(pipeline: MakePipeline, bootstrap: str):
    shop = pipeline()
    shop.fill("a", "b")
    shop.batch()
    consumer = Consumer({**logins.confluent(bootstrap), "group.id": shop.name})
    consumer.commit(offsets=[Place(shop.topic, 0, 1)], asynchronous=False)
    consumer.close()
    found = asked(bootstrap, "describe", shop.name)
    assert (found["set_by_hand"], found["lag"]["records"]) == ([f"{shop.topic}-0"], 1)


# -- the next start ----------------------------------------------------------------------------------------------------


def checkpoint_of(shop: ByHand, directory: Path, ends: dict[int, int], *, done: int) -> Path:
    """As Spark writes it, for batches that ended at these offsets."""
    for kind in ("offsets", "commits"):
        (directory / kind).mkdir(parents=True)
    (directory / "metadata").write_text(json.dumps({"id": shop.query_id}))
    for batch_id, end in ends.items():
        offset = {shop.topic: {"0": end}} | ({"@from": {shop.topic: {"0": 0}}} if batch_id == 0 else {})
        (directory / "offsets" / str(batch_id)).write_text(f"v1\n{{}}\n{json.dumps(offset)}")
        if batch_id <= done:
            (directory / "commits" / str(batch_id)).write_text("v1\n{}")
    return directory


@pytest.mark.parametrize(
    ("ends", "done", "outcome", "batch_id"),
    [
        ({0: 1, 1: 2}, 1, "run", 2),  # stopped between two batches
        ({0: 1, 1: 2, 2: 3}, 1, "run", 2),  # died in a batch that is not committed
        ({0: 1, 1: 2}, 0, "skip", 1),  # died after Kafka's commit
        ({0: 1}, 0, "refuse", 1),  # lost the file of a committed batch
    ],
)
def test_the_next_start_is_foreseen(
    pipeline: MakePipeline, bootstrap: str, tmp_path: Path, ends: dict[int, int], done: int, outcome: str, batch_id: int
):
    shop = pipeline()
    shop.fill("a", "b", "c")
    shop.batch(end={TopicPartition(shop.topic, 0): 1})
    shop.batch(end={TopicPartition(shop.topic, 0): 2})
    directory = checkpoint_of(shop, tmp_path / "checkpoint", ends, done=done)
    code = 4 if outcome == "refuse" else 0
    found = asked(bootstrap, "describe", shop.name, "--checkpoint", directory, exit_code=code)["next_start"]
    assert (found["outcome"], found["batch"], found["query"]) == (outcome, batch_id, shop.query_id)
    if outcome == "refuse":
        assert "If the checkpoint has lost the batch's offsets, start from the committed offsets" in found["why"]


def test_the_start_with_an_old_copy_of_the_checkpoint_is_foreseen(
    pipeline: MakePipeline, bootstrap: str, tmp_path: Path
):
    shop = pipeline()
    for value in "abc":
        shop.fill(value)
        shop.batch()
    directory = checkpoint_of(shop, tmp_path / "checkpoint", {0: 1}, done=0)
    found = asked(bootstrap, "describe", shop.name, "--checkpoint", directory, exit_code=4)["next_start"]
    assert "restored from a copy" in found["why"]


def test_the_start_with_an_empty_checkpoint_is_foreseen(pipeline: MakePipeline, bootstrap: str, tmp_path: Path):
    shop = pipeline()
    shop.in_checkpoint = frozenset({InCheckpoint.STATE})
    shop.fill("a")
    shop.batch()
    found = asked(bootstrap, "describe", shop.name, "--checkpoint", tmp_path)["next_start"]
    assert found["outcome"] == "run"
    assert "failOnStateLoss" in found["why"]


def test_the_checkpoint_of_another_query_is_foreseen_by_its_offsets(
    pipeline: MakePipeline, bootstrap: str, tmp_path: Path
):
    shop = pipeline()
    shop.fill("a", "b")
    shop.batch()
    shop.query_id = str(uuid.uuid4())
    directory = checkpoint_of(shop, tmp_path / "checkpoint", {0: 1}, done=0)
    found = asked(bootstrap, "describe", shop.name, "--checkpoint", directory, exit_code=4)["next_start"]
    assert "does not continue where the pipeline stopped" in found["why"]
