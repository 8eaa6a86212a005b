"""What the console tells, on a real broker with real clients."""

import json
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from fencepost.lab.kit.servers import Ours
from fencepost.lines.json_lines import from_line
from tests import logins
from tests.conftest import MakeTopic, unique, wait_until
from tests.console.web import Page, make_log, opened
from tests.observe import stuck


@pytest.fixture(scope="module")
def log(page: Page, bootstrap: str, topic: MakeTopic) -> Iterator[str]:
    """committed, plain, aborted, one that stays open, and plain."""
    name = topic()
    producer = make_log(page, bootstrap, name)
    yield name
    producer.abort_transaction(30)


def outcomes(page: Page, name: str) -> list[tuple[int, str]]:
    return [(each["first"], each["outcome"]) for each in page.ask("strip", topic=name, start=0)["batches"]]


def test_each_batch_has_its_outcome(page: Page, log: str):
    found = page.ask("strip", topic=log, start=0)
    kinds = [each["outcome"] for each in found["batches"]]
    assert kinds == ["committed", "commit", "plain", "aborted", "abort", "open", "plain"]
    assert found["bounds"]["stable"] == found["batches"][5]["first"] and found["last"]
    assert found["batches"][0]["ends_at"] == found["batches"][1]["first"]
    sampled = {each["first"]: each["outcome"] for each in page.ask("overview", topic=log, points=50)["batches"]}
    assert sampled == {each["first"]: each["outcome"] for each in found["batches"]}


def test_a_log_is_read_in_pieces(page: Page, log: str):
    whole = outcomes(page, log)
    pieces, start = [], 0
    while not (found := page.ask("strip", topic=log, start=start, batches=2))["last"]:
        pieces += [(each["first"], each["outcome"]) for each in found["batches"]]
        start = found["next"]
    pieces += [(each["first"], each["outcome"]) for each in found["batches"]]
    assert pieces == whole


def test_records_are_what_each_kind_of_reader_sees(page: Page, log: str):
    def values(**more: object) -> list[str]:
        found = page.ask("records", topic=log, start=0, **more)["records"]
        return [each["value"]["text"] for each in found]

    assert values(view="read_committed") == ["a", "b", "plain"]
    assert values() == ["a", "b", "plain", "c", "d", "behind"]
    assert values(outcome="aborted") == ["c"]
    assert values(filter="BEH") == ["behind"]
    assert values(limit=2) == ["a", "b"]
    lines = page.get("/api/download", topic=log, start=0, view="read_committed").body.splitlines()
    assert [from_line(line).value for line in lines] == [b"a", b"b", b"plain"]  # `fencepost produce` takes them
    (aborted,) = page.get("/api/download", topic=log, start=0, outcome="aborted").body.splitlines()
    assert json.loads(aborted)["transaction"]["outcome"] == "aborted"


def test_records_can_be_found_by_time(page: Page, bootstrap: str, topic: MakeTopic):
    name = topic()
    producer = Producer({**logins.confluent(bootstrap)})
    for time_ms in (1_000_000, 2_000_000, 3_000_000):
        producer.produce(name, str(time_ms), timestamp=time_ms)
    producer.flush()
    found = page.ask("records", topic=name, time_ms=1_500_000)
    assert [each["offset"] for each in found["records"]] == [1, 2]
    assert page.ask("records", topic=name, time_ms=9_000_000_000_000)["records"] == []


def test_a_long_value_is_cut_on_the_page_and_whole_in_a_download(page: Page, bootstrap: str, topic: MakeTopic):
    name, text = topic(), "é" * 20_000
    stuck.write(bootstrap, name, text)
    (record,) = page.ask("records", topic=name, start=0)["records"]
    assert record["value"] == {"text": text[: 32 << 9], "size": 40_000, "cut": True}
    assert json.loads(page.get("/api/download", topic=name, start=0).body)["value"] == text


def test_settings_of_the_topic_itself_come_first(page: Page, topic: MakeTopic):
    settings = page.ask("topic", name=topic(config={"retention.ms": 12_345}))["settings"]
    assert settings[0] == {"name": "retention.ms", "value": "12345", "own": True}
    rest = [each["name"] for each in settings[1:] if not each["own"]]
    assert rest == sorted(rest) and "cleanup.policy" in rest


def test_bytes_that_are_no_text_stay_whole(page: Page, bootstrap: str, topic: MakeTopic):
    name = topic()
    producer = Producer({**logins.confluent(bootstrap)})
    producer.produce(name, b"\xff\x00\x01", key=None, headers=[("h", None), ("i", "ü".encode())])
    producer.flush()
    (record,) = page.ask("batch", topic=name, offset=0)["records"]
    assert record["key"] is None and record["value"] == {"base64": "/wAB", "size": 3}
    assert record["headers"] == [["h", None], ["i", {"text": "ü", "size": 2}]]


def test_a_transaction_is_live_and_its_story_is_told(page: Page, bootstrap: str, topic: MakeTopic):
    name, one, other = unique("story"), topic(), topic()
    group = unique("group")
    settings = {**logins.confluent(bootstrap), "transactional.id": name, "linger.ms": 0}
    producer = Producer(settings)
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(one, "x", partition=0)
    producer.produce(other, "y", partition=0)
    producer.flush()
    assert page.await_row("transactions", name, lambda row: row["open"])["topics"] == sorted([one, other])
    consumer = Consumer({**logins.confluent(bootstrap), "group.id": group})
    producer.send_offsets_to_transaction([TopicPartition(one, 0, 5)], consumer.consumer_group_metadata(), 30)
    consumer.close()
    producer.commit_transaction(30)
    wait_until(lambda: page.ask("transaction", id=name)["stories"][:1], "the console has read the coordinators' log")
    wait_until(lambda: page.ask("transaction", id=name)["stories"][0]["ending"] == "committed", "it is committed")
    (story,) = page.ask("transaction", id=name)["stories"]
    assert [each["state"] for each in story["steps"]][-2:] == ["PrepareCommit", "CompleteCommit"]
    found = page.ask("whole", topic=one, partition=0, offset=0)
    parts = {each["topic"]: each for each in found["parts"]}
    assert found["story"]["id"] == name and parts.keys() == {one, other, "__consumer_offsets"}
    assert parts[other]["records"] == 1 and parts[other]["outcome"] == "committed"
    commits = parts["__consumer_offsets"]["commits"]
    assert commits == [{"group": group, "topic": one, "partition": 0, "offset": 5}]


def test_lag_counts_records_and_has_a_history(page: Page, bootstrap: str, log: str):
    group = unique("reader")
    stuck.set_offset(bootstrap, group, log, 0)
    row = page.await_row("groups", group, lambda row: row["lag"] is not None)
    assert row["lag"] == 3 and row["exact"] and row["held"] == 2  # a, b, plain; behind and d wait
    found = page.ask("group", id=group)
    assert found["lags"][0]["place"] == "behind" and found["points"]
    where = page.ask("partition", topic=log)
    assert {"id": group, "offset": 0} in where["groups"] and where["open"][0]["id"].startswith("open")


def test_what_holds_readers_is_named_and_can_be_aborted(page: Page, bootstrap: str, topic: MakeTopic):
    name, owner = topic(), unique("stuck")
    producer = stuck.begin(bootstrap, owner, name, "a", "b")
    found = page.ask("why", topic=name)
    assert found["verdict"] == "held" and found["holds"][0]["transaction"]["id"] == owner
    assert "HELD" in found["headline"]
    plan = page.ask("abort/plan", id=owner)
    assert plan["live"] and plan["undone"] == [
        {"topic": name, "partition": 0, "first": 0, "last": 1, "records": 2, "exact": True}
    ]
    wanted = {"id": owner, "producer": plan["producer"], "epoch": plan["epoch"]}
    assert page.change("abort", wanted).status == 409  # it is alive, and nobody said that this is meant
    assert page.change("abort", {**wanted, "epoch": 77, "even_if_live": True}).status == 409
    done = page.change("abort", {**wanted, "even_if_live": True})
    assert done.status == 200 and done.found["proven"], done.body
    assert page.ask("why", topic=name)["verdict"] == "clear"
    del producer


def test_topics_have_sizes_and_settings(page: Page, log: str):
    row = page.await_row("topics", log)
    assert row["partitions"] == 1 and row["bytes"] > 0 and row["held"] == 1
    found = page.ask("topic", name=log)
    assert {"name": "cleanup.policy", "value": "delete", "own": False} in found["settings"] and found["partitions"][0][
        "bounds"
    ]["end"] > 0


def test_prometheus_can_read_it(page: Page, log: str):
    page.await_row("topics", log)
    text = page.get("/metrics").body.decode()
    assert f'fencepost_console_held_offsets{{topic="{log}",partition="0"}} 2' in text
    assert 'fencepost_console_answered{question="topics"} 1' in text


@pytest.mark.parametrize(
    ("question", "status"),
    [
        ("strip?topic=no-such-topic&start=0", 404),
        ("strip", 400),
        ("records?topic=x&partition=many", 400),
        ("transaction?id=", 400),
        ("group?id=nobody-has-this-name", 400),
        ("pipeline?name=nobody-has-this-name", 404),
        (f"records?topic=x&time_ms={2**63}", 400),
        (f"records?topic=x&time_ms={'9' * 5000}", 400),
        (f"transaction?id={'x' * 32_768}", 400),
        (f"why?topic={'x' * 32_768}", 400),
        (f"abort/plan?id={'x' * 32_768}", 400),
        ("nothing", 404),
    ],
)
def test_a_wrong_question_gets_a_reason(page: Page, question: str, status: int):
    answer = page.get(f"/api/{question}")
    assert answer.status == status, answer.body


@pytest.mark.thorough
def test_a_dead_broker_is_told_and_its_return_noticed(start_broker):
    broker: Ours = start_broker()
    stuck.write(broker.bootstrap, "here", "first")
    with opened(broker.bootstrap) as started:
        started.await_row("health", "topics", lambda row: row["condition"] == "good")
        broker.kill()
        began = time.monotonic()
        failing = started.await_row("health", "topics", lambda row: row["condition"] == "failing")
        assert failing["good_ms"] and failing["problem"]
        answer = started.get("/api/strip", topic="here", start=0)
        assert answer.status == 503 and "does not answer" in answer.found["problem"]
        assert started.get("/").status == 200 and time.monotonic() - began < 15
        broker.start()
        started.await_row("health", "topics", lambda row: row["condition"] == "good")
        assert started.ask("strip", topic="here", start=0)["batches"]
