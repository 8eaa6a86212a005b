"""Behaviours that all clients share, over TLS and SASL.

Each client meets each of these behaviours, and both meet each protocol, once. `--security SASL_SSL` runs every test of
the three clients over a protocol; `make compat` does that.
"""

import contextlib
from collections.abc import Callable, Iterator
from functools import cache

import pytest
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient

from fencepost.lab.kit.servers import Ours
from fencepost.security.names import Protocol
from tests.clients import behaviour, test_aiokafka, test_confluent, test_kafka_python
from tests.clients.facade import Client
from tests.clients.registry import CLIENTS
from tests.conftest import MakeTopic, topic_maker

ServerOf = Callable[[Protocol], Ours]
PROTOCOLS = (Protocol.SASL_SSL, Protocol.SSL, Protocol.SASL_PLAINTEXT)


def administer(client: Client, topic: MakeTopic) -> None:
    match client.name:
        case "confluent":
            admin = AdminClient(client.address)
            test_confluent.TestTopicAdmin().test_topics_are_created_with_settings_described_grown_and_deleted(admin)
        case "kafka-python":
            with contextlib.closing(KafkaAdminClient(**client.address)) as manager:
                test_kafka_python.TestTopicAdmin().test_topics_are_created_described_grown_and_deleted(manager)
        case "aiokafka":
            ask = test_aiokafka.asker(client.address)
            test_aiokafka.TestAdmin().test_topics_are_created_listed_described_grown_and_deleted(ask)


records, groups = behaviour.TestRecords(), behaviour.TestGroups()
transactions, exactly_once = behaviour.TestTransactions(), behaviour.TestExactlyOnce()
BEHAVIOURS: dict[str, Callable[[Client, MakeTopic], None]] = {
    "records": records.test_an_idempotent_producer_writes_each_record_once_and_in_order,
    "large records": lambda client, topic: records.test_a_record_of_some_megabytes_makes_the_round_trip(
        client, topic, "none"
    ),
    "an aborted transaction": transactions.test_an_abort_hides_its_records_from_a_reader_of_committed_ones,
    "a group": groups.test_every_record_goes_to_one_member,
    "exactly once": exactly_once.test_a_loop_of_failing_workers_takes_every_record_exactly_once,
    "topics": administer,
}
CELLS = [
    (client, what, PROTOCOLS[(row + column) % len(PROTOCOLS)])
    for row, what in enumerate(BEHAVIOURS)
    for column, client in enumerate(CLIENTS)
]


@pytest.fixture(scope="module")
def server_of(start_broker: Callable[..., Ours], is_original: bool) -> ServerOf:
    """The broker that speaks a protocol."""
    if is_original:
        pytest.skip("--security runs all of it on another Kafka")
    return cache(lambda protocol: start_broker(security=protocol))


@pytest.fixture
def client(name: str, protocol: Protocol, server_of: ServerOf) -> Iterator[Client]:
    with contextlib.closing(CLIENTS[name](server_of(protocol))) as opened:
        yield opened


@pytest.mark.parametrize(("name", "what", "protocol"), CELLS)
def test_a_secured_broker_is_the_same_broker(client: Client, what: str) -> None:
    BEHAVIOURS[what](client, topic_maker(AdminClient(client.server.client_config("confluent"))))
