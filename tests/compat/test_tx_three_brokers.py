"""`fencepost tx` on three nodes of Apache Kafka, one of which dies: what cannot be asked hides nothing else."""

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from bench.harness import java
from fencepost.lab.kit.kafka import KafkaCluster
from tests.compat.tools import Tool, table
from tests.conftest import wait_until
from tests.observe import stuck
from tests.observe.stuck import told, tx

pytestmark = pytest.mark.timeout(600)
DEAD = 3


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with KafkaCluster(java.kafka(), tmp_path_factory.mktemp("three")) as cluster:
        yield cluster.start()


def create(three: KafkaCluster, topic: NewTopic) -> None:
    admin = AdminClient({"bootstrap.servers": three.bootstrap})
    admin.create_topics([topic])[topic.topic].result(60)


def test_a_dead_broker_is_told_and_the_rest_is_shown(three: KafkaCluster, name: str):
    safe, strict, solo = f"safe-{name}", f"strict-{name}", f"solo-{name}"
    create(three, NewTopic(safe, 1, replication_factor=3))
    create(three, NewTopic(strict, 1, replication_factor=3, config={"min.insync.replicas": "3"}))
    create(three, NewTopic(solo, 2, replica_assignment=[[1], [DEAD]]))
    bootstrap = three.bootstrap
    ids = [f"{each}-{name}" for each in range(6)]
    producers = [stuck.begin(bootstrap, each, safe, "x") for each in ids]
    listed = told(bootstrap, "ls", "--open", "--match", f".*-{name}")
    assert sorted(each["id"] for each in listed) == ids
    theirs = {
        (row["TransactionalId"], int(row["Coordinator"]))
        for row in table(Tool(bootstrap)("transactions", "list"))
        if name in row["TransactionalId"]
    }
    assert {(each["id"], each["coordinator"]) for each in listed} == theirs
    assert told(bootstrap, "why", solo)[0]["verdict"] == "clear"

    three.nodes[DEAD].kill()
    (why,) = told(bootstrap, "why", solo, exit_code=4)
    assert why["verdict"] == "unavailable"
    (stopped,) = why["stopped"]
    assert stopped["partition"] == 1 and stopped["trouble"] in ("silent", "no_leader")
    wait_until(lambda: _trouble(bootstrap, solo) == "no_leader", "the controller has noticed", 60)
    shown = tx(bootstrap, "why", solo).stdout
    assert f"{solo}-1 cannot be read or written: no leader" in shown
    assert "its replicas are on the brokers 3" in shown
    wait_until(lambda: told(bootstrap, "why", strict, exit_code=4)[0]["verdict"] == "read_only", "it left the ISR", 60)
    assert "2 of 3 in sync, min.insync.replicas is 3" in tx(bootstrap, "why", strict).stdout

    def all_are_seen() -> bool:
        done = tx(bootstrap, "ls", "--open", "--match", f".*-{name}")
        return done.exit_code == 0 and all(each in done.stdout for each in ids)

    wait_until(all_are_seen, "other brokers coordinate now", 60)
    (why,) = told(bootstrap, "why", safe, exit_code=4)
    assert [each["cause"] for each in why["holds"]] == ["open"], "one at a time holds the last stable offset"
    for producer in producers:
        producer.abort_transaction(60)
    wait_until(lambda: tx(bootstrap, "why", safe).exit_code == 0, "nothing holds it", 60)


def _trouble(bootstrap: str, topic: str) -> str:
    (why,) = told(bootstrap, "why", topic, exit_code=4)
    return str(why["stopped"][0]["trouble"])
