"""aiokafka: the behaviours that all clients share, its admin client, and what is its own: iteration and batches."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import InvalidPartitionsError

from tests.clients.aio import Aio
from tests.clients.behaviour import *  # noqa: F403 - tests, which pytest finds here
from tests.clients.facade import Client, Spot
from tests.conftest import MakeTopic, unique

CLIENT = Aio


class ChangedMyMind(Exception): ...


async def until(condition: Callable[[], Coroutine[Any, Any, bool]]) -> None:
    while not await condition():  # noqa: ASYNC110 - no event says that a broker has changed
        await asyncio.sleep(0.01)


Question = Callable[[Any], Coroutine[Any, Any, Any]]
Ask = Callable[[Question], Any]


def asker(config: Mapping[str, Any]) -> Ask:
    """Runs a coroutine function with an admin client: `ask(lambda admin: admin.list_topics())`."""

    async def asked(question: Question) -> Any:
        admin = AIOKafkaAdminClient(**config)
        await admin.start()
        try:
            return await question(admin)
        finally:
            await admin.close()

    return lambda question: asyncio.run(asyncio.wait_for(asked(question), 20))


class TestAsync:
    def test_a_consumer_is_iterated_and_transactions_are_contexts(self, client: Client, topic: MakeTopic) -> None:
        name = topic()

        async def drop(producer: AIOKafkaProducer) -> None:
            async with producer.transaction():
                await producer.send_and_wait(name, b"dropped")
                raise ChangedMyMind

        async def write() -> None:
            async with AIOKafkaProducer(**client.address, transactional_id=unique("tx")) as producer:
                async with producer.transaction():
                    await producer.send_and_wait(name, b"kept")
                with pytest.raises(ChangedMyMind):
                    await drop(producer)
                async with producer.transaction():
                    await producer.send_and_wait(name, b"kept too")

        async def read() -> list[bytes | None]:
            consumer = AIOKafkaConsumer(
                name, **client.address, auto_offset_reset="earliest", isolation_level="read_committed"
            )
            found: list[bytes | None] = []
            async with consumer:
                async for message in consumer:
                    found.append(message.value)
                    if len(found) == 2:
                        break
            return found

        asyncio.run(asyncio.wait_for(write(), 20))
        assert asyncio.run(asyncio.wait_for(read(), 20)) == [b"kept", b"kept too"]

    def test_a_batch_made_by_hand_is_written_whole(self, topic: MakeTopic, client: Client) -> None:
        name = topic()

        async def write() -> int:
            async with AIOKafkaProducer(**client.address) as producer:
                batch = producer.create_batch()
                for n in range(5):
                    batch.append(key=None, value=b"%d" % n, timestamp=None)
                batch.close()
                sent = await producer.send_batch(batch, name, partition=0)
                return (await sent).offset

        assert asyncio.run(asyncio.wait_for(write(), 20)) == 0
        assert client.values(name) == [b"0", b"1", b"2", b"3", b"4"]


class TestAdmin:
    @pytest.fixture
    def ask(self, client: Client) -> Ask:
        return asker(client.address)

    def test_topics_are_created_listed_described_grown_and_deleted(self, ask: Ask) -> None:
        name = unique("made")

        async def live(admin: Any) -> None:
            async def is_listed() -> bool:
                return name in await admin.list_topics()

            async def is_gone() -> bool:
                return not await is_listed()

            async def is_grown() -> bool:
                return len((await admin.describe_topics([name]))[0]["partitions"]) == 3

            created = await admin.create_topics([NewTopic(name, 2, 1, topic_configs={"retention.ms": "5000"})])
            assert [error[:2] for error in created.topic_errors] == [(name, 0)]
            again = await admin.create_topics([NewTopic(name, 2, 1)])
            assert again.topic_errors[0][1] == 36  # TOPIC_ALREADY_EXISTS
            await until(is_listed)
            await admin.create_partitions({name: NewPartitions(3)})
            with pytest.raises(InvalidPartitionsError):
                await admin.create_partitions({name: NewPartitions(1)})
            await until(is_grown)
            deleted = await admin.delete_topics([name])
            assert list(deleted.topic_error_codes) == [(name, 0)]
            await until(is_gone)

        ask(live)

    def test_settings_are_described_and_altered(self, ask: Ask, topic: MakeTopic) -> None:
        name = topic()

        async def retention(admin: Any) -> str:
            (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])
            ((code, _message, _kind, _name, entries),) = answer.resources
            assert code == 0
            return next(entry[1] for entry in entries if entry[0] == "retention.ms")

        async def change(admin: Any) -> None:
            async def is_altered() -> bool:
                return await retention(admin) == "777"

            assert await retention(admin) == "604800000"
            wanted = ConfigResource(ConfigResourceType.TOPIC, name, {"retention.ms": "777"})
            (answer,) = await admin.alter_configs([wanted])
            assert answer.resources[0][0] == 0
            await until(is_altered)

        ask(change)

    def test_the_cluster_is_described(self, ask: Ask, bootstrap: str) -> None:
        found = ask(lambda admin: admin.describe_cluster())
        (node,) = found["brokers"]
        assert f"{node['host']}:{node['port']}" == bootstrap
        assert found["controller_id"] == node["node_id"]

    def test_groups_are_listed_and_described_with_their_offsets(
        self, ask: Ask, topic: MakeTopic, client: Client
    ) -> None:
        name, group = topic(partitions=2), unique("group")
        consumer = client.consumer(name, group=group)
        consumer.until_assigned([Spot(name, 0), Spot(name, 1)])
        consumer.commit({Spot(name, 0): 5})
        assert (group, "consumer") in [tuple(each[:2]) for each in ask(lambda admin: admin.list_consumer_groups())]
        (answer,) = ask(lambda admin: admin.describe_consumer_groups([group]))
        (described,) = answer.groups
        assert described[:5] == (0, group, "Stable", "consumer", "range")
        offsets = ask(lambda admin: admin.list_consumer_group_offsets(group))
        assert {spot: found.offset for spot, found in offsets.items()} == {TopicPartition(name, 0): 5}

    def test_records_are_deleted(self, ask: Ask, topic: MakeTopic, client: Client) -> None:
        name = topic()
        client.producer().put(name, b"a", b"b", b"c")
        spot = TopicPartition(name, 0)
        assert ask(lambda admin: admin.delete_records({spot: RecordsToDelete(before_offset=2)})) == {spot: 2}
        assert client.values(name) == [b"c"]
