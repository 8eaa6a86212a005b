"""`fencepost doctor`: what it finds on this machine, on a broker, and in clusters that it judges by their answers."""

from dataclasses import replace

import pytest
from click.testing import CliRunner

from fencepost.cli.doctor import SINK_TIMEOUT_MS
from fencepost.cli.main import main
from fencepost.client.cluster import PartitionMetadata, TopicMetadata
from fencepost.client.rights import Operation, Resource, right_on
from fencepost.client.settings import ClientSettings
from fencepost.doctor.cluster import ClusterFacts, TopicFacts
from fencepost.doctor.findings import Severity
from fencepost.doctor.judging import judge
from fencepost.doctor.rights import Held, RightFacts, Wanted
from fencepost.spark.sink.settings import DEFAULT_TRANSACTION_TIMEOUT_MS
from tests.cli.shell import Shell
from tests.conftest import unique

SETTINGS = {
    "transaction.max.timeout.ms": "900000",
    "offsets.retention.minutes": "10080",
    "transactional.id.expiration.ms": "604800000",
    "transaction.state.log.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "unclean.leader.election.enable": "false",
}


def topic(name: str, replicas: int = 3, min_insync: int = 2, **more: object) -> TopicFacts:
    ids = tuple(range(1, replicas + 1))
    partition = replace(PartitionMetadata(1, 0, ids, ids), **more)
    return TopicFacts(TopicMetadata(name, bytes(16), False, {0: partition}), min_insync)


def cluster(**more: object) -> ClusterFacts:
    """Three brokers that are as they should be, but for what is given."""
    topics = {name: topic(name) for name in ("__transaction_state", "__consumer_offsets", "fencepost.ledger", "out")}
    good = ClusterFacts("kafka:9092", dict.fromkeys((1, 2, 3), "kafka:9092"), {}, 2, SETTINGS, topics)
    return replace(good, **more)


def lacked(resource: Resource, name: str) -> RightFacts:
    right = right_on(ClientSettings.parse("kafka:9092"), resource, name, Operation.WRITE)
    return RightFacts(right, Held.NO, "what it is for", remedy=right.command)


def bad(facts: ClusterFacts) -> list[tuple[str, str]]:
    found = [each for each in judge(facts, 60_000) if each.severity is not Severity.OK]
    assert all(each.remedy for each in found), "every finding comes with what mends it"
    return [(str(each.severity), each.subject) for each in found]


def test_a_good_cluster_has_nothing_to_mend() -> None:
    assert bad(cluster()) == []


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (cluster(unreachable={2: "refused"}), ("error", "listeners")),
        (cluster(transaction_version=1), ("warning", "transaction.version")),
        (cluster(transaction_version=None), ("warning", "transaction.version")),
        (cluster(settings={**SETTINGS, "transaction.max.timeout.ms": "1000"}), ("error", "transaction.max.timeout.ms")),
        (cluster(settings={**SETTINGS, "offsets.retention.minutes": "60"}), ("warning", "offsets.retention.minutes")),
        (
            cluster(settings={**SETTINGS, "transactional.id.expiration.ms": "1000"}),
            ("warning", "transactional.id.expiration.ms"),
        ),
        (
            cluster(settings={**SETTINGS, "unclean.leader.election.enable": "true"}),
            ("error", "unclean.leader.election.enable"),
        ),
        (cluster(topics={"out": topic("out", replicas=1)}), ("error", "topic out")),
        (cluster(topics={"out": topic("out", min_insync=1)}), ("error", "topic out")),
        (
            cluster(topics={"fencepost.ledger": replace(topic("fencepost.ledger"), cleanup="compact,delete")}),
            ("error", "topic fencepost.ledger"),
        ),
        (cluster(topics={"out": topic("out", min_insync=3)}), ("warning", "topic out")),
        (cluster(topics={"out": topic("out", in_sync=(1,))}), ("warning", "topic out")),
        (cluster(topics={"out": topic("out", leader=-1)}), ("error", "topic out")),
        (
            cluster(settings={**SETTINGS, "transaction.partition.verification.enable": "false"}),
            ("warning", "transaction.partition.verification.enable"),
        ),
        (cluster(rights=[lacked(Resource.TOPIC, "out")]), ("error", "topic out")),
        (cluster(rights=[lacked(Resource.GROUP, "shop")]), ("error", "group shop")),
        (cluster(rights=[lacked(Resource.TRANSACTIONAL_ID, "f-shop")]), ("error", "transactional id f-shop")),
        (cluster(rights=[replace(lacked(Resource.TOPIC, "out"), held=Held.UNSEEN)]), ("note", "topic out")),
        (cluster(topics={"out": TopicFacts(None)}, wanted=Wanted(sources=["out"])), ("warning", "topic out")),
        (cluster(topics={"out": TopicFacts(None)}), ("warning", "topic out")),
        (
            cluster(
                topics={"__transaction_state": TopicFacts(None)},
                settings={**SETTINGS, "transaction.state.log.replication.factor": "1"},
            ),
            ("error", "topic __transaction_state"),
        ),
        (cluster(hidden=["x lacks the right Describe. This grants it: kafka-acls --add"]), ("note", "rights")),
    ],
)
def test_what_is_wrong_with_a_cluster_is_found(facts: ClusterFacts, expected: tuple[str, str]) -> None:
    assert bad(facts) == [expected]


def test_on_one_broker_there_is_a_note_and_no_error(shell: Shell, topic) -> None:
    found = shell.asked("doctor", "-t", topic())
    by_subject = {each["subject"]: each["severity"] for each in found}
    assert by_subject["Python"] == by_subject["listeners"] == by_subject["transaction.version"] == "ok"
    assert by_subject["brokers"] == "note"
    assert "error" not in by_subject.values()
    missing = unique("none")
    (warning,) = [
        each
        for each in shell.asked("doctor", "--strict", "-t", missing, code=4)
        if missing in each["text"] + each["subject"]
    ]
    assert warning["remedy"].startswith(f"fencepost topic create {missing}")
    shell.run("doctor", "--transaction-timeout-ms", 1_000_000_000, code=4)


def test_topics_that_the_pipeline_creates_may_be_missing() -> None:
    missing = {"fencepost.ledger": TopicFacts(None), "shop.totals.changelog": TopicFacts(None)}
    assert bad(cluster(topics=missing, wanted=Wanted(changelogs=["shop.totals.changelog"]))) == []


def test_state_that_would_be_deleted_one_day_is_an_error(shell: Shell, topic) -> None:
    pipeline = unique("shop")
    for policy, code in (("delete", 4), ("compact", 0)):
        name = f"{pipeline}.{policy}.changelog"
        shell.run("topic", "create", name, "-c", f"cleanup.policy={policy}")
        (found,) = [
            each
            for each in shell.asked("doctor", "--pipeline", pipeline, "--step", policy, code=code)
            if each["subject"] == f"topic {name}" and "the right" not in each["text"]
        ]
        assert found["severity"] == ("error" if code else "ok")
        assert (
            found["remedy"] is None or f"fencepost topic config {name} --set cleanup.policy=compact" in found["remedy"]
        )


def test_a_pipeline_needs_a_cluster_and_a_step_needs_a_pipeline(shell: Shell) -> None:
    assert "which cluster?" in CliRunner().invoke(main, ["doctor", "--pipeline", "shop"]).stderr
    assert "of which pipeline?" in shell.error("doctor", "--step", "totals", code=2)


def test_the_sinks_timeout_is_what_it_asks_for() -> None:
    assert SINK_TIMEOUT_MS == DEFAULT_TRANSACTION_TIMEOUT_MS
