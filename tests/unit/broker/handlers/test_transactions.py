"""The transaction APIs as they go over the wire: requests and answers pass through their codecs, in every version."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.broker.dispatch import Call, Waiting, handlers
from fencepost.broker.producer_clients import ProducerClients
from fencepost.broker.session import Session
from fencepost.client.raw import produce_fields
from fencepost.coordinator.txn.decide import Producer
from fencepost.errors import ErrorCode
from fencepost.wire import messages
from fencepost.wire.records import Record, encode_batch
from fencepost.wire.terms import TopicPartition
from tests.fakes import requests
from tests.unit.coordinator.machine import settle, write
from tests.unit.coordinator.txn.rig import COMMIT, ID, P0, P1, V1, Rig

PRODUCE, INIT, ADD_PARTITIONS, ADD_OFFSETS, END, WRITE_MARKERS = 0, 22, 24, 25, 26, 27
DESCRIBE_PRODUCERS, DESCRIBE, LIST = 61, 65, 66
NOBODY = Producer(-1, -1)
Send = Callable[..., Awaitable[Any]]


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.fixture
def send(rig: Rig) -> Send:
    return partial(
        requests.ask,
        SimpleNamespace(
            topics=rig.machine.topics,
            transactions=rig.coordinator,
            authorizer=None,
            producer_clients=ProducerClients(),
        ),
    )


def all_versions(key: int) -> range:
    handler = handlers()[key]
    return range(handler.first, handler.last + 1)


def fields(producer: Producer, name: str | None = ID, **more: Any) -> dict[str, Any]:
    return {
        "transactional_id": name,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.epoch,
        **more,
    }


def init_request(name: str | None = ID, producer: Producer = NOBODY) -> dict[str, Any]:
    return fields(producer, name, transaction_timeout_ms=60_000)


def add_request(version: int, producer: Producer, *partitions: tuple[str, int], verify: bool = False) -> dict[str, Any]:
    topics = [{"name": topic, "partitions": [partition]} for topic, partition in partitions]
    if version < 4:
        return {f"v3_and_below_{name}": value for name, value in fields(producer, topics=topics).items()}
    return {"transactions": [fields(producer, topics=topics, verify_only=verify)]}


def add_codes(version: int, answer: Any) -> dict[tuple[str, int], ErrorCode]:
    topics = answer.results_by_topic_v3_and_below if version < 4 else answer.results_by_transaction[0].topic_results
    return {
        (topic.name, partition.partition_index): ErrorCode(partition.partition_error_code)
        for topic in topics
        for partition in topic.results_by_partition
    }


@pytest.mark.parametrize("version", all_versions(INIT))
async def test_init_producer_id(send: Send, version):
    idempotent = await send(INIT, version, init_request(None))
    assert (idempotent.error_code, idempotent.producer_epoch) == (0, 0)
    first = await send(INIT, version, init_request())
    second = await send(INIT, version, init_request())
    assert (second.producer_id, second.producer_epoch) == (first.producer_id, first.producer_epoch + 1)
    refused = await send(INIT, version, init_request(""))
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert (refused.producer_id, refused.producer_epoch) == (-1, -1)


@pytest.mark.parametrize("version", [3, 4, 5])
async def test_a_fenced_producer_is_told_so_in_words_that_its_version_knows(rig: Rig, send: Send, version):
    old = await rig.init()
    await rig.init()
    answer = await send(INIT, version, init_request(producer=old))
    expected = ErrorCode.INVALID_PRODUCER_EPOCH if version == 3 else ErrorCode.PRODUCER_FENCED
    assert answer.error_code == expected
    half = await send(INIT, version, init_request(producer=Producer(old.producer_id, -1)))
    assert half.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", all_versions(ADD_PARTITIONS))
async def test_add_partitions_to_txn(rig: Rig, send: Send, version):
    producer = await rig.init()

    async def add(who: Producer, *partitions: tuple[str, int]) -> dict[tuple[str, int], ErrorCode]:
        return add_codes(version, await send(ADD_PARTITIONS, version, add_request(version, who, *partitions)))

    assert await add(producer, P0, P1) == {P0: ErrorCode.NONE, P1: ErrorCode.NONE}
    assert rig.state().partitions == {P0, P1}
    assert await add(producer, P0, ("nowhere", 0), ("invoices", 7)) == {
        P0: ErrorCode.OPERATION_NOT_ATTEMPTED,
        ("nowhere", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("invoices", 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    fenced = ErrorCode.INVALID_PRODUCER_EPOCH if version < 2 else ErrorCode.PRODUCER_FENCED
    assert await add(Producer(producer.producer_id, 9), P0) == {P0: fenced}
    assert await add(Producer(1, 0), P0) == {P0: ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    internal = ("__consumer_offsets", 3)
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED if version < 4 else ErrorCode.NONE
    assert await add(producer, internal) == {internal: refused}


@pytest.mark.parametrize("version", [4, 5])
async def test_verification_changes_nothing(rig: Rig, send: Send, version):
    producer = await rig.init()
    await rig.add(producer, P0)
    answer = await send(ADD_PARTITIONS, version, add_request(version, producer, P0, P1, verify=True))
    missing = ErrorCode.TRANSACTION_ABORTABLE
    assert add_codes(version, answer) == {P0: ErrorCode.NONE, P1: missing}
    assert rig.state().partitions == {P0}
    stranger = add_request(version, Producer(1, 0), P0, verify=True)
    codes = add_codes(version, await send(ADD_PARTITIONS, version, stranger))
    assert codes == {P0: ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    nowhere = add_request(version, producer, ("nowhere", 0), verify=True)
    codes = add_codes(version, await send(ADD_PARTITIONS, version, nowhere))
    assert codes == {("nowhere", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


@pytest.mark.parametrize("version", all_versions(ADD_OFFSETS))
async def test_add_offsets_to_txn(rig: Rig, send: Send, version):
    producer = await rig.init()
    request = fields(producer, group_id="my-transactional-id")
    assert (await send(ADD_OFFSETS, version, request)).error_code == ErrorCode.NONE
    assert rig.state().partitions == {("__consumer_offsets", 46)}
    fenced = await send(ADD_OFFSETS, version, {**request, "producer_epoch": 9})
    expected = ErrorCode.INVALID_PRODUCER_EPOCH if version < 2 else ErrorCode.PRODUCER_FENCED
    assert fenced.error_code == expected


@pytest.mark.parametrize("version", all_versions(END))
async def test_end_txn(rig: Rig, send: Send, version):
    producer = await rig.init()
    empty = await send(END, version, fields(producer, committed=True))
    assert empty.error_code == ErrorCode.INVALID_TXN_STATE
    await rig.add(producer)
    answer = await send(END, version, fields(producer, committed=True))
    assert answer.error_code == ErrorCode.NONE
    assert (await send(END, version, fields(producer, committed=True))).error_code == ErrorCode.NONE
    if version >= 5:
        assert (answer.producer_id, answer.producer_epoch) == (producer.producer_id, producer.epoch + 1)
    fenced = await send(END, version, fields(Producer(producer.producer_id, 9), committed=True))
    expected = ErrorCode.INVALID_PRODUCER_EPOCH if version < 2 else ErrorCode.PRODUCER_FENCED
    assert fenced.error_code == expected
    assert (fenced.producer_id, fenced.producer_epoch) == (-1, -1)


@pytest.mark.parametrize("version", all_versions(WRITE_MARKERS))
async def test_write_txn_markers_ends_a_hanging_transaction(rig: Rig, send: Send, version):
    write(rig.machine.log(*P0), 77, 3)
    request = {
        "markers": [
            {
                "producer_id": 77,
                "producer_epoch": 3,
                "transaction_result": False,
                "topics": [
                    {"name": "invoices", "partition_indexes": [0, 9]},
                    {"name": "__consumer_offsets", "partition_indexes": [1]},
                ],
                "coordinator_epoch": 0,
            }
        ]
    }
    (marker,) = (await send(WRITE_MARKERS, version, request)).markers
    codes = {
        (topic.name, partition.partition_index): partition.error_code
        for topic in marker.topics
        for partition in topic.partitions
    }
    assert codes == {("invoices", 0): 0, ("invoices", 9): 3, ("__consumer_offsets", 1): 0}
    assert rig.outcomes(P0) == {b"v": "aborted"}
    assert rig.group_markers == [("__consumer_offsets", 1, 77, 3, False)]


async def test_describe_transactions(rig: Rig, send: Send):
    producer = await rig.init()
    await rig.add(producer, P0, P1)
    answer = await send(DESCRIBE, 0, {"transactional_ids": [ID, "nobody", ""]})
    known, unknown, empty = answer.transaction_states
    assert (known.error_code, known.transaction_state, known.transaction_timeout_ms) == (0, "Ongoing", 60_000)
    assert known.transaction_start_time_ms == rig.clock.now_ms()
    assert [(topic.topic, topic.partitions) for topic in known.topics] == [("invoices", [0]), ("shipments", [1])]
    assert unknown.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert empty.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", all_versions(LIST))
async def test_list_transactions(rig: Rig, send: Send, version):
    producer = await rig.init()
    await rig.add(producer)
    await rig.init(name="till")
    answer = await send(LIST, version, {"state_filters": ["Ongoing", "Odd"], "producer_id_filters": []})
    assert answer.unknown_state_filters == ["Odd"]
    assert [(one.transactional_id, one.transaction_state) for one in answer.transaction_states] == [(ID, "Ongoing")]


async def test_describe_producers(rig: Rig, send: Send):
    write(rig.machine.log(*P0), 77, 3)
    request = {"topics": [{"name": "invoices", "partition_indexes": [0, 5]}]}
    (topic,) = (await send(DESCRIBE_PRODUCERS, 0, request)).topics
    known, unknown = topic.partitions
    (producer,) = known.active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.current_txn_start_offset) == (77, 3, 0)
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_batched_request_serves_its_transactions_side_by_side(rig: Rig, send: Send):
    producers = {name: await rig.init(name=name) for name in ("a", "b", "c")}
    request = {
        "transactions": [
            fields(producer, name, topics=[{"name": "invoices", "partitions": [0]}])
            for name, producer in producers.items()
        ]
    }
    answer = await asyncio.wait_for(send(ADD_PARTITIONS, 4, request), 5)
    assert [result.transactional_id for result in answer.results_by_transaction] == ["a", "b", "c"]
    for name, producer in producers.items():
        await rig.coordinator.end(name, producer, COMMIT, V1)


async def test_produce_writes_to_a_topic_that_came_while_it_registered_others_only_within_the_transaction(rig: Rig):
    producer, late = await rig.init(), TopicPartition("late", 0)
    record = encode_batch(
        [Record(b"k", b"v", rig.clock.now_ms())], producer_id=producer.producer_id, producer_epoch=producer.epoch,
        base_sequence=0, transactional=True,
    )  # fmt: skip
    frame = messages.api(PRODUCE).request.encode(12, produce_fields({P0: record, late: record}, ID))
    broker = SimpleNamespace(topics=rig.machine.topics, transactions=rig.coordinator, authorizer=None)
    call = Call(broker, PRODUCE, 12, 1, None, Session("/127.0.0.1", requests.LISTENER, None))  # type: ignore[arg-type]
    produce = handlers()[PRODUCE].raw
    assert produce is not None
    answer = produce(call, memoryview(bytearray(frame)), 0)
    assert isinstance(answer, Waiting) and not answer.done
    rig.machine.topics.create(late.topic, 1, {})
    await settle()
    assert answer.done
    assert rig.machine.log(*late).log_end_offset == 1
    assert rig.state().partitions == {P0, late}
