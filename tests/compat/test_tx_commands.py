"""`fencepost tx` beside Kafka's own kafka-transactions: both see the same, on ours and on Apache Kafka."""

from pathlib import Path

import pytest
from confluent_kafka import Consumer

from fencepost.client.cluster import Cluster
from fencepost.lab.kit.kafka import AUTHORIZER
from fencepost.lab.kit.servers import Server
from fencepost.security.names import Protocol
from fencepost.wire.terms import TopicPartition
from tests import logins
from tests.compat.tools import Tool, table
from tests.conftest import wait_until
from tests.observe import stuck
from tests.observe.stuck import TRUSTING, told, tx


@pytest.fixture(autouse=True)
def logged_in(server: Server) -> None:
    logins.remember(server.bootstrap, server.security)


@pytest.fixture(params=[None, Protocol.SASL_SSL], ids=["plaintext", "SASL_SSL"])
def trusting(request: pytest.FixtureRequest, start_server, tmp_path: Path) -> tuple[str, Tool]:
    """A broker on which transactions can hang."""
    server = start_server(TRUSTING, request.param)
    logins.remember(server.bootstrap, server.security)
    return server.bootstrap, Tool.of(server, tmp_path)


def test_both_list_and_describe_the_same(server: Server, tool: Tool, topic: str, name: str):
    bootstrap = server.bootstrap
    stuck.commit(bootstrap, f"done-{name}", topic, "x")
    wait_until(
        lambda: told(bootstrap, "describe", f"done-{name}")[0]["state"] == "CompleteCommit", "the commit is complete"
    )
    producer = stuck.begin(bootstrap, f"open-{name}", topic, "a", "b")
    theirs = {
        row["TransactionalId"]: (row["Coordinator"], row["ProducerId"], row["TransactionState"])
        for row in table(tool("transactions", "list"))
        if name in row["TransactionalId"]
    }
    ours = {
        each["id"]: (str(each["coordinator"]), str(each["producer_id"]), each["state"])
        for each in told(bootstrap, "ls", "--match", f".*{name}.*")
    }
    assert ours == theirs and len(ours) == 2
    (row,) = table(tool("transactions", "describe", "--transactional-id", f"open-{name}"))
    (described,) = told(bootstrap, "describe", f"open-{name}")
    assert (described["epoch"], described["timeout_ms"], described["start_ms"]) == (
        int(row["ProducerEpoch"]), int(row["TransactionTimeoutMs"]), int(row["CurrentTransactionStartTimeMs"])
    )  # fmt: skip
    assert [str(TopicPartition(**each)) for each in described["partitions"]] == row["TopicPartitions"].split(",")
    rows = table(tool("transactions", "describe-producers", "--topic", topic, "--partition", "0"))
    assert sorted((row["ProducerId"], row["ProducerEpoch"], row["CurrentTransactionStartOffset"]) for row in rows) == (
        sorted(
            (str(each["producer_id"]), str(each["epoch"]), str(each["txn_start_offset"]))
            for each in told(bootstrap, "producers", f"{topic}:0")
        )
    )
    producer.abort_transaction(30)


def test_a_live_transaction_is_explained_and_ended(server: Server, topic: str, name: str):
    bootstrap = server.bootstrap
    with stuck.following(bootstrap, f"group-{name}", topic) as follower:
        stuck.write(bootstrap, topic, "a")
        follower.read(1)
        producer = stuck.begin(bootstrap, f"fencepost-{name}", topic, "open")
        stuck.write(bootstrap, topic, "b")
        stuck.abort(bootstrap, f"other-{name}", topic, "never")
        assert follower.is_idle()
        (why,) = told(bootstrap, "why", topic, exit_code=4)
        (hold,) = why["holds"]
        assert (hold["cause"], hold["transaction"]["pipeline"], hold["waiting"]) == ("open", name, 1)
        (group,) = why["groups"]
        assert (group["waits"], group["lag"], group["misses"]) == (True, 0, 1)
        refused = tx(bootstrap, "abort", f"{topic}:0", "--yes")
        assert refused.exit_code == 1 and "add --force" in refused.stderr
        (done,) = told(bootstrap, "abort", f"{topic}:0", "--force", "--yes")
        assert done["proven"] and done["way"] == "fence"
        assert follower.read(2) == ["a", "b"]
        with pytest.raises(Exception, match=r"fenced|FENCED|epoch"):
            producer.commit_transaction(30)
    assert told(bootstrap, "why", topic)[0]["verdict"] == "clear"


def test_a_group_of_the_new_protocol_is_shown_with_its_lag(server: Server, kind: str, topic: str, name: str):
    if kind != "kafka":
        pytest.skip("our broker speaks the classic group protocol only")
    bootstrap = server.bootstrap
    settings = {**server.client_config("confluent"), "group.protocol": "consumer", "group.id": name}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe([topic])
    stuck.write(bootstrap, topic, "a", "b")
    message = wait_until(lambda: consumer.poll(1.0), "something is read", 60)
    assert message.value() == b"a"
    consumer.commit(message=message, asynchronous=False)
    (why,) = told(bootstrap, "why", topic, "--group", name)
    (group,) = why["groups"]
    assert (group["state"], group["members"], group["lag"], group["text"]) == (
        "Stable", None, 1, "behind: it can read on"
    )  # fmt: skip
    consumer.close()


def test_both_find_the_same_hanging_transactions_and_ours_ends_them(trusting: tuple[str, Tool], name: str):
    bootstrap, tool = trusting
    tool("topics", "--create", "--topic", name, "--partitions", "2")
    stuck.write(bootstrap, name, "a")
    stuck.leave_hanging(bootstrap, name, 0, producer_id=4_000, values=["lost", "lost"])
    stuck.leave_hanging(bootstrap, name, 1, producer_id=4_001)
    stuck.write(bootstrap, name, "b")
    live = stuck.begin(bootstrap, f"live-{name}", name, "alive")
    words = ("find-hanging", "--topic", name, "--max-transaction-timeout", "0")
    theirs = {
        (row["Topic"], int(row["Partition"]), int(row["ProducerId"]), int(row["StartOffset"]))
        for row in table(tool("transactions", *words))
    }
    ours = {
        (each["topic"], each["partition"], each["producer_id"], each["txn_start_offset"])
        for each in told(bootstrap, "hanging", name, exit_code=4)
    }
    assert ours == theirs == {(name, 0, 4_000, 1), (name, 1, 4_001, 0)}
    with stuck.following(bootstrap, f"group-{name}", name) as follower:
        follower.read(1)
        assert follower.is_idle()
        (why,) = told(bootstrap, "why", f"{name}:0", exit_code=4)
        assert (why["holds"][0]["cause"], why["groups"][0]["misses"]) == ("hanging", 1)
        done = told(bootstrap, "abort", name, "--hanging", "--yes")
        assert len(done) == 2 and all(each["proven"] for each in done)
        assert follower.read(2) == ["a", "b"]
    assert table(tool("transactions", *words)) == []
    assert tx(bootstrap, "hanging", name).exit_code == 0
    live.commit_transaction(30)


def test_a_secured_cluster_names_the_right_that_is_missing(start_server, tmp_path: Path, name: str):
    server = start_server({**TRUSTING, **AUTHORIZER}, Protocol.SASL_SSL)
    logins.remember(server.bootstrap, server.security)
    tool = Tool.of(server, tmp_path)
    tool("topics", "--create", "--topic", name, "--partitions", "1")
    stuck.leave_hanging(server.bootstrap, name)
    tool(
        "configs", "--alter", "--entity-type", "users", "--entity-name", "guest",
        "--add-config", "SCRAM-SHA-512=[iterations=4096,password=guest-secret]",
    )  # fmt: skip
    tool("acls", "--add", "--allow-principal", "User:guest", "--operation", "Read", "--topic", name)
    guest = {
        **logins.java(server.bootstrap),
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="guest" password="guest-secret";',
    }
    with Cluster(guest) as cluster:
        assert cluster.refresh([name])
    (why,) = told(server.bootstrap, "why", name, exit_code=4, more=guest)
    assert why["holds"][0]["cause"] == "hidden", "its id may be one that the guest does not see"
    refused = tx(server.bootstrap, "abort", f"{name}:0", "--yes", more=guest)
    assert refused.exit_code == 1
    assert "it may be alive" in refused.stderr, refused.output
    assert "User:guest lacks the right Describe on transactional id '*'" in refused.stderr
    grant = ("acls", "--add", "--allow-principal", "User:guest")
    tool(*grant, "--operation", "Describe", "--transactional-id", "*")
    refused = tx(server.bootstrap, "abort", f"{name}:0", "--yes", more=guest)
    assert refused.exit_code == 1
    assert "User:guest lacks the right Alter on the cluster" in refused.stderr, refused.output
    assert tx(server.bootstrap, "abort", f"{name}:0", "--yes").exit_code == 0
