"""Finding brokers, leaders and coordinators, and noticing when they move."""

import os
import pickle
import socket

import pytest

from fencepost.client import Cluster
from fencepost.client.cluster import Coordinates
from fencepost.errors import BootstrapFailed, ConnectionLost, ErrorCode, GaveUp, NotAuthorized, TopicNotFound
from tests.fakes.frames import HANG_UP
from tests.unit.client.scripted import FIND_COORDINATOR, METADATA, TOPIC_ID, settings

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


def test_one_bootstrap_address_that_answers_is_enough(broker):
    with Cluster(f"127.0.0.1:{unused_port()},{broker.bootstrap}") as cluster:
        assert cluster.topic("t").id == TOPIC_ID


def test_a_cluster_that_answered_once_is_waited_for(broker):
    cluster = Cluster(settings(broker, default_api_timeout_ms=50))
    cluster.refresh()
    broker.close()
    with pytest.raises(GaveUp, match="no broker answers"):
        cluster.refresh()


def test_metadata_is_remembered_until_it_is_forgotten(broker, cluster):
    for _ in range(3):
        cluster.topic("t")
    cluster.forget_topic("t")
    cluster.topic("t")
    assert len(broker.requests(METADATA)) == 2


def test_a_missing_topic_or_partition_is_named_and_never_created(broker, cluster):
    with pytest.raises(TopicNotFound, match="topic 'nope' does not exist"):
        cluster.topic("nope")
    with pytest.raises(TopicNotFound, match="topic 't' has no partition 8"):
        cluster.leader_address("t", 8)
    assert list(cluster.refresh(["nope", "t"], missing_ok=True)) == ["t"]
    assert not any(request.allow_auto_topic_creation for request in broker.requests(METADATA))


def test_a_topic_that_one_may_not_see_names_the_right(broker, cluster):
    broker.answers[METADATA] = {"topics": [{"name": "t", "error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED}]}
    with pytest.raises(NotAuthorized, match=r"the right Describe on topic 't' \(TOPIC_AUTHORIZATION_FAILED\)"):
        cluster.topic("t")
    assert cluster.refresh(["t"], hidden_ok=True) == {}


def ask(cluster: Cluster) -> ErrorCode:
    _, code = cluster.call_coordinator(Coordinates.GROUP, "g", HEARTBEAT, {"group_id": "g"}, what="heartbeat")
    return code


@pytest.mark.parametrize(
    "trouble",
    [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, HANG_UP],
    ids=["moved", "not available", "hung up"],
)
def test_a_coordinator_that_moved_is_looked_for_again(broker, cluster, trouble):
    broker.queued[HEARTBEAT] = [trouble, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION]
    assert ask(cluster) is ErrorCode.ILLEGAL_GENERATION
    assert len(broker.requests(FIND_COORDINATOR)) == 2


@pytest.mark.parametrize("newest", [3, 6])
def test_a_coordinator_is_found_by_old_and_new_brokers(broker, cluster, newest):
    broker.versions[FIND_COORDINATOR] = (0, newest)
    broker.answers[HEARTBEAT] = ErrorCode.NONE
    assert ask(cluster) is ErrorCode.NONE


def test_a_coordinator_that_does_not_come_is_given_up(broker):
    failed = {"key": "g", "error_code": ErrorCode.COORDINATOR_NOT_AVAILABLE}
    broker.answers[FIND_COORDINATOR] = {"coordinators": [failed]}
    with (
        Cluster(settings(broker, default_api_timeout_ms=50)) as cluster,
        pytest.raises(GaveUp, match="COORDINATOR_NOT_AVAILABLE"),
    ):
        ask(cluster)


def test_a_borrowed_connection_is_used_again_when_it_was_given_back_in_order(cluster):
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


def test_a_cluster_travels_as_its_settings(cluster):
    cluster.refresh()
    with pickle.loads(pickle.dumps(cluster)) as copy:
        assert copy.settings == cluster.settings
        assert copy.topic("t") == cluster.topic("t")


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_after_a_fork_nothing_is_said_on_the_parents_connections(broker, cluster):
    cluster.refresh()
    before = broker.connections
    child = os.fork()
    if not child:
        os._exit(0 if cluster.refresh() else 1)
    assert os.waitpid(child, 0)[1] == 0
    cluster.refresh()
    assert broker.connections == before + 1
