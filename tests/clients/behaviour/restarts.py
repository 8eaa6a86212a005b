"""A broker that is stopped or killed and started again: live clients go on where they were."""

import contextlib
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic

from fencepost.lab.kit.servers import Ours
from fencepost.security.names import Protocol
from tests.clients.facade import UNCOMMITTED, Client, Spot, refused
from tests.conftest import WAIT_TIMEOUT_S, unique

STOP, KILL = "stopped", "killed"


class TestRestarts:
    @pytest.fixture
    def own_broker(
        self, start_broker: Callable[..., Ours], is_original: bool, security: Protocol | None
    ) -> Iterator[Ours]:
        if is_original:
            pytest.skip("needs a broker of its own")
        broker = start_broker(security=security)
        yield broker
        broker.stop()

    @pytest.fixture
    def own_client(self, request: pytest.FixtureRequest, own_broker: Ours) -> Iterator[Client]:
        with contextlib.closing(request.module.CLIENT(own_broker)) as opened:
            yield opened

    def restart(self, broker: Ours, how: str) -> None:
        if how == STOP:
            assert broker.stop() == 0
        else:
            broker.kill()
        broker.start()

    def make_topic(self, broker: Ours) -> tuple[str, str]:
        """A topic with a setting of its own; its name and id."""
        admin, name = AdminClient(broker.client_config("confluent")), unique("topic")
        admin.create_topics([NewTopic(name, 1, 1, config={"max.message.bytes": "5000"})])[name].result(WAIT_TIMEOUT_S)
        return name, self.topic_id(broker, name)

    def topic_id(self, broker: Ours, name: str) -> str:
        admin = AdminClient(broker.client_config("confluent"))
        (described,) = admin.describe_topics(TopicCollection([name])).values()
        return str(described.result(WAIT_TIMEOUT_S).topic_id)

    @pytest.mark.parametrize("how", [STOP, KILL])
    def test_live_clients_go_on_where_they_were(self, own_broker: Ours, own_client: Client, how: str) -> None:
        name, topic_id = self.make_topic(own_broker)
        producer = own_client.producer(idempotent=True)
        consumer = own_client.consumer(name, group=unique("group"))
        transactional = own_client.producer(transactional_id=unique("tx"))
        producer.put(name, b"a", b"b")
        consumer.read(2)
        consumer.commit({Spot(name, 0): 2})
        transactional.begin()
        transactional.put(name, b"before")

        self.restart(own_broker, how)

        transactional.put(name, b"after")
        transactional.commit()
        assert [m.value for m in consumer.read(2)] == [b"before", b"after"]
        producer.put(name, b"c")
        assert [m.value for m in consumer.read(1)] == [b"c"]
        assert consumer.committed(Spot(name, 0)) == 2
        assert own_client.values(name) == [b"a", b"b", b"before", b"after", b"c"]
        assert self.topic_id(own_broker, name) == topic_id
        with refused("MESSAGE_TOO_LARGE"):
            producer.put(name, b"x" * 6000)

    @pytest.mark.parametrize("how", [STOP, KILL])
    def test_what_a_dead_producer_left_open_is_aborted_by_its_successor(
        self, own_broker: Ours, own_client: Client, how: str
    ) -> None:
        name, _ = self.make_topic(own_broker)
        transactional_id = unique("tx")
        dead = own_client.producer(transactional_id=transactional_id)
        dead.transact(name, b"kept")
        dead.begin()
        dead.put(name, b"lost")

        self.restart(own_broker, how)

        assert own_client.values(name) == [b"kept"]
        assert own_client.values(name, isolation=UNCOMMITTED) == [b"kept", b"lost"]
        successor = own_client.producer(transactional_id=transactional_id)
        successor.transact(name, b"new")
        assert own_client.values(name) == [b"kept", b"new"]
