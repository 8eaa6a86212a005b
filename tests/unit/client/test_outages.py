"""An outage is told once, when it has lasted a while and somebody waits, and so is its end."""

import logging
import os
import threading

import pytest

from fencepost.client import Cluster, outages, retry
from fencepost.client.outages import Outages, outages_of
from fencepost.client.retry import Retry
from fencepost.client.settings import ClientSettings
from fencepost.embedded import Broker
from fencepost.errors import ConnectionLost, ErrorCode
from fencepost.wire.terms import Address
from tests.conftest import wait_until

SETTINGS = ClientSettings.parse({"bootstrap.servers": "a:1,b:2", "retry.backoff.ms": 1000})
A, B = SETTINGS.bootstrap


class Network:
    """Time that passes when somebody waits, and brokers that are down when told so."""

    def __init__(self, monkeypatch) -> None:
        self.now_s = 100.0
        self.connect_s = 0
        self.down: dict[Address, str] = {}
        self.outages = Outages(lambda: self.now_s)
        monkeypatch.setattr(retry, "JITTER", 0)
        monkeypatch.setitem(outages._of_clusters, SETTINGS.bootstrap, self.outages)

    def connect(self, address: Address) -> None:
        with self.outages.connecting(address):
            if reason := self.down.get(address):
                self.now_s += self.connect_s
                raise ConnectionLost(f"{address}: {reason}")

    def sleep(self, pause_s: float) -> None:
        self.now_s += pause_s

    def retry(self, what: str = "metadata", timeout_s: float = 60.0) -> Retry:
        return Retry(what, SETTINGS, timeout_s, sleep=self.sleep, monotonic=lambda: self.now_s)

    def keep_trying(self, retry: Retry, *addresses: Address, until_s: float) -> None:
        while self.now_s < until_s:
            for address in addresses:
                try:
                    self.connect(address)
                except ConnectionLost as error:
                    reason = error
            retry.wait(reason)


@pytest.fixture
def network(monkeypatch):
    return Network(monkeypatch)


@pytest.fixture
def told(caplog):
    caplog.set_level(logging.INFO, "fencepost.client")
    return lambda: [record.getMessage() for record in caplog.records]


def test_an_outage_is_told_after_five_seconds_and_its_end_as_well(network, told, caplog):
    network.down[A] = "Connection refused"
    patience = network.retry()
    network.keep_trying(patience, A, until_s=104)
    assert told() == []
    network.keep_trying(patience, A, until_s=121)
    (warning,) = told()
    assert warning == "no connection to broker a:1 (Connection refused) for 5 s; retrying for another 55 s: metadata"
    del network.down[A]
    network.connect(A)
    network.connect(A)
    assert told()[1:] == ["broker a:1 is reachable again after 21 s"]
    assert {record.levelname for record in caplog.records} == {"WARNING"}
    assert {record.name for record in caplog.records} == {"fencepost.client.outages"}


def test_a_short_outage_is_not_told(network, told):
    network.down[A] = "Connection refused"
    network.keep_trying(network.retry(), A, until_s=103)
    del network.down[A]
    network.connect(A)
    network.now_s += 3
    network.down[A] = "Connection refused"
    network.keep_trying(network.retry(), A, until_s=109)
    assert told() == []


def test_all_who_wait_are_told_by_one_line_and_by_another_each_half_minute(network, told):
    network.down |= {A: "Connection refused", B: "timed out"}
    many = [network.retry(f"reading t-{number}", 300) for number in range(5)]
    while network.now_s < 175:
        for each in many:
            network.keep_trying(each, A, B, until_s=network.now_s + 0.1)
    assert len(told()) == 3
    assert "a:1 (Connection refused), b:2 (timed out)" in told()[0]


def test_a_slow_attempt_counts_from_its_beginning(network, told):
    network.down[A], network.connect_s = "timed out", 10
    network.keep_trying(network.retry(), A, until_s=101)
    assert told() == ["no connection to broker a:1 (timed out) for 10 s; retrying for another 50 s: metadata"]


def test_who_waits_for_something_else_does_not_tell(network, told):
    network.down[A] = "Connection refused"
    with pytest.raises(ConnectionLost):
        network.connect(A)
    patience = network.retry()
    for _ in range(20):
        network.connect(B)
        patience.wait("there is nothing to read yet")
        patience.wait(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert told() == []


def test_a_failure_long_after_the_last_is_another_outage(network, told):
    network.down[A] = "Connection refused"
    network.keep_trying(network.retry(), A, until_s=106)
    network.now_s += 1000
    network.keep_trying(network.retry(), A, until_s=1109)
    assert len(told()) == 1
    network.keep_trying(network.retry(), A, until_s=1113)
    assert told()[1].startswith("no connection to broker a:1 (Connection refused) for 5 s")


def test_one_of_two_that_is_back_ends_the_outage_and_the_other_is_told_again(network, told):
    network.down |= {A: "Connection refused", B: "Connection refused"}
    patience = network.retry()
    network.keep_trying(patience, A, B, until_s=110)
    del network.down[A]
    network.connect(A)
    network.keep_trying(patience, B, until_s=118)
    del network.down[B]
    network.connect(B)
    one, two, three, four = told()
    assert one.startswith("no connection to broker a:1 (Connection refused), b:2 (Connection refused) for 5 s")
    assert two == "broker a:1 is reachable again after 10 s"
    assert three.startswith("no connection to broker b:2 (Connection refused) for 10 s")
    assert four == "broker b:2 is reachable again after 18 s"


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_sees_for_itself():
    before = outages_of(SETTINGS)
    assert outages_of(SETTINGS) is before
    child = os.fork()
    if not child:
        os._exit(0 if outages_of(SETTINGS) is not before else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_broker_that_was_away_is_mentioned(told, monkeypatch):
    monkeypatch.setattr(outages, "WARN_AFTER_S", 0.2)
    with Broker() as broker, Cluster(broker.bootstrap_servers) as cluster:
        cluster.refresh()
        broker.kill()
        client = threading.Thread(target=cluster.refresh)
        client.start()
        (warning,) = wait_until(told, "the outage is in the log")
        assert warning.startswith(f"no connection to broker {broker.bootstrap_servers} (Connection refused) for")
        broker.start()
        client.join()
        assert len(told()) == 2
        assert f"{broker.bootstrap_servers} is reachable again after " in told()[1]
