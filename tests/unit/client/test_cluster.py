"""Finding brokers, leaders and coordinators, and noticing when they move."""

import os
import pickle
import socket

import pytest

from fencepost.client import Cluster
from fencepost.client.cluster import Coordinates
from fencepost.errors import BootstrapFailed, ConnectionLost, ErrorCode, GaveUp, Refused, TopicNotFound
from tests.fakes.frames import HANG_UP
from tests.unit.client.scripted import FIND_COORDINATOR, METADATA, TOPIC_ID, ScriptedBroker, settings

HEARTBEAT = 12


def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        return int(unused.getsockname()[1])


def test_no_bootstrap_address_that_answers_names_each_and_why():
    first, second = unused_port(), unused_port()
    cluster = Cluster(f"127.0.0.1:{first},127.0.0.1:{second}")
    with pytest.raises(BootstrapFailed) as raised:
        cluster.refresh()
    assert str(raised.value) == (
        "no broker answers at bootstrap.servers "
        f"(127.0.0.1:{first}: Connection refused; 127.0.0.1:{second}: Connection refused)"
    )


def test_a_host_that_does_not_exist_is_named():
    with pytest.raises(BootstrapFailed, match=r"no-such-host\.invalid:9092"):
        Cluster("no-such-host.invalid").refresh()


def test_one_bootstrap_address_that_answers_is_enough():
    with ScriptedBroker() as broker, Cluster(f"127.0.0.1:{unused_port()},{broker.bootstrap}") as cluster:
        assert cluster.topic("t").id == TOPIC_ID


def test_a_cluster_that_answered_once_is_waited_for():
    with ScriptedBroker() as broker:
        cluster = Cluster(settings(broker, default_api_timeout_ms=50))
        cluster.refresh()
    with pytest.raises(GaveUp, match="no broker answers"):
        cluster.refresh()


def test_metadata_is_remembered_until_it_is_forgotten():
    with ScriptedBroker() as broker, Cluster(settings(broker)) as cluster:
        for _ in range(3):
            cluster.topic("t")
        cluster.forget_topic("t")
        cluster.topic("t")
        assert [key for key, _ in broker.asked].count(METADATA) == 2


def test_a_missing_topic_or_partition_is_named_and_never_created():
    with ScriptedBroker() as broker, Cluster(settings(broker)) as cluster:
        with pytest.raises(TopicNotFound, match="topic 'nope' does not exist"):
            cluster.topic("nope")
        with pytest.raises(TopicNotFound, match="topic 't' has no partition 8"):
            cluster.leader_address("t", 8)
        assert list(cluster.refresh(["nope", "t"], missing_ok=True)) == ["t"]
        assert not any(r.allow_auto_topic_creation for key, r in broker.asked if key == METADATA)


def test_a_leader_that_is_being_elected_is_waited_for():
    answers = [-1, -1, 7]

    def script(api_key, _request):
        if api_key != METADATA:
            return None
        partition = {"partition_index": 0, "leader_id": answers.pop(0) if len(answers) > 1 else 7}
        brokers = [{"node_id": 7, "host": "127.0.0.1", "port": broker.port}]
        return {"brokers": brokers, "topics": [{"name": "t", "partitions": [partition]}]}

    with ScriptedBroker(script) as broker, Cluster(settings(broker)) as cluster:
        assert cluster.leader("t", 0).address.port == broker.port


def test_a_topic_that_one_may_not_see_is_refused_with_the_code():
    def script(api_key, _request):
        entry = {"name": "t", "error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
        return {"topics": [entry]} if api_key == METADATA else None

    with (
        ScriptedBroker(script) as broker,
        Cluster(settings(broker)) as cluster,
        pytest.raises(Refused, match="TOPIC_AUTHORIZATION_FAILED: topic 't'"),
    ):
        cluster.topic("t")


def ask(cluster: Cluster) -> ErrorCode:
    _, code = cluster.call_coordinator(Coordinates.GROUP, "g", HEARTBEAT, {"group_id": "g"}, what="heartbeat")
    return code


@pytest.mark.parametrize(
    "trouble",
    [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, HANG_UP],
    ids=["moved", "not available", "hung up"],
)
def test_a_coordinator_that_moved_is_looked_for_anew(trouble):
    answers = [trouble, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION]

    def script(api_key, _request):
        if api_key != HEARTBEAT:
            return None
        answer = answers.pop(0)
        return answer if answer is HANG_UP else {"error_code": answer}

    with ScriptedBroker(script) as broker, Cluster(settings(broker)) as cluster:
        assert ask(cluster) is ErrorCode.ILLEGAL_GENERATION
        assert [key for key, _ in broker.asked].count(FIND_COORDINATOR) == 2


@pytest.mark.parametrize("newest", [3, 6])
def test_a_coordinator_is_found_by_old_and_new_brokers(newest):
    def script(api_key, _request):
        return {"error_code": 0} if api_key == HEARTBEAT else None

    with ScriptedBroker(script, versions={FIND_COORDINATOR: (0, newest)}) as broker:
        assert ask(Cluster(settings(broker))) is ErrorCode.NONE


def test_a_coordinator_that_does_not_come_is_given_up():
    def script(api_key, _request):
        failed = {"key": "g", "error_code": ErrorCode.COORDINATOR_NOT_AVAILABLE}
        return {"coordinators": [failed]} if api_key == FIND_COORDINATOR else None

    with (
        ScriptedBroker(script) as broker,
        Cluster(settings(broker, default_api_timeout_ms=50)) as cluster,
        pytest.raises(GaveUp, match="COORDINATOR_NOT_AVAILABLE"),
    ):
        ask(cluster)


def test_a_borrowed_connection_is_used_again_when_it_was_given_back_in_order():
    with ScriptedBroker() as broker, Cluster(settings(broker)) as cluster:
        address = cluster.settings.bootstrap[0]
        first = cluster.borrow(address)
        assert cluster.borrow(address) is not first
        cluster.release(first)
        assert cluster.borrow(address) is first
        first.send(METADATA, {"topics": []})
        cluster.release(first)
        assert not first.is_usable()
        with pytest.raises(ConnectionLost):
            first.call(METADATA, {"topics": []})


def test_a_cluster_travels_as_its_settings():
    with ScriptedBroker() as broker, Cluster(settings(broker)) as cluster:
        cluster.refresh()
        copy = pickle.loads(pickle.dumps(cluster))
        assert copy.settings == cluster.settings
        assert copy.topic("t") == cluster.topic("t")
        copy.close()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_after_a_fork_nothing_is_said_on_the_parents_connections():
    with ScriptedBroker() as broker, Cluster(settings(broker)) as cluster:
        cluster.refresh()
        before = broker.connections
        child = os.fork()
        if not child:
            os._exit(0 if cluster.refresh() else 1)
        assert os.waitpid(child, 0)[1] == 0
        cluster.refresh()
        assert broker.connections == before + 1
