"""What a broker's metrics say after real clients did real things."""

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

import fencepost
from fencepost.broker.counts import BrokerCounts
from fencepost.broker.error_places import ErrorPlaces
from fencepost.client.raw import RawConnection
from fencepost.client.settings import parse_address
from fencepost.embedded import BrokerFailed
from fencepost.errors import ConfigError
from fencepost.metrics.address import parse_metrics_address
from fencepost.wire import messages
from fencepost.wire.records import Record, encode_batch
from tests.conftest import unique, wait_until
from tests.metrics.support import Scrape


def scrape(broker: fencepost.Broker) -> Scrape:
    return Scrape.of(broker.metrics_url)


def connection(broker: fencepost.Broker) -> RawConnection:
    return RawConnection(parse_address(broker.bootstrap_servers), timeout_s=20.0)


def begun(broker: fencepost.Broker, name: str, topic: str, timeout_ms: int = 60_000) -> Producer:
    """A producer with an open transaction that has a record."""
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "transactional.id": name,
            "transaction.timeout.ms": timeout_ms,
        }
    )
    producer.init_transactions(30)
    again(producer, topic)
    return producer


def again(producer: Producer, topic: str) -> None:
    producer.begin_transaction()
    producer.produce(topic, b"value")
    assert producer.flush(30) == 0


def test_requests_bytes_and_connections_are_counted(measured: fencepost.Broker) -> None:
    before = scrape(measured)
    producer = Producer({"bootstrap.servers": measured.bootstrap_servers})
    producer.produce(unique("topic"), b"x" * 10_000)
    assert producer.flush(30) == 0
    after = scrape(measured)

    def grown(name: str, **labels: str) -> float:
        earlier = [value for at, value in before.samples(name) if labels.items() <= at.items()]
        return after.value(name, **labels) - sum(earlier)

    assert grown("fencepost_request_seconds_count", api="Produce") == 1
    assert grown("fencepost_request_seconds_bucket", api="Produce", le="+Inf") == 1
    assert grown("fencepost_request_seconds_sum", api="Produce") > 0
    assert 10_000 < grown("fencepost_received_bytes_total") < 12_000
    assert grown("fencepost_sent_bytes_total") > 0
    assert grown("fencepost_connections_accepted_total") >= 1
    assert after.value("fencepost_connections") >= 1
    assert grown("fencepost_log_appended_records_total") == 1
    assert grown("fencepost_log_appended_bytes_total") > 10_000
    assert grown("fencepost_log_sync_seconds_count") >= 1
    assert after.value("process_resident_memory_bytes") > 1_000_000


def test_errors_are_counted_by_their_code_wherever_an_answer_holds_them(measured: fencepost.Broker) -> None:
    with connection(measured) as client:
        batch = bytes(encode_batch([Record(None, b"x", 1)]))
        no_such = {"name": "no-such-topic", "partition_data": [{"index": 9, "records": batch}]}
        client.call(0, 9, transactional_id=None, acks=1, timeout_ms=1000, topic_data=[no_such])
        wanted = {"topic": "no-such-topic", "partitions": [{"partition": 9, "fetch_offset": 0}]}
        client.call(1, 11, replica_id=-1, max_wait_ms=0, session_epoch=-1, topics=[wanted])
        client.call(12, 4, group_id="nobody", generation_id=1, member_id="m")
        client.call(20, 4, topic_names=["no-such-topic"], timeout_ms=1000)
    found = scrape(measured)

    def errors(api: str, error: str) -> float:
        return found.value("fencepost_request_errors_total", api=api, error=error)

    assert errors("Produce", "UNKNOWN_TOPIC_OR_PARTITION") == 1
    assert errors("Fetch", "UNKNOWN_TOPIC_OR_PARTITION") == 1
    assert errors("Heartbeat", "UNKNOWN_MEMBER_ID") == 1
    assert errors("DeleteTopics", "UNKNOWN_TOPIC_OR_PARTITION") == 1


def test_every_place_of_an_error_is_found() -> None:
    counts = BrokerCounts([3], 0).apis[3].errors
    places = ErrorPlaces(messages.api(3).response.fields)
    topics = [{"error_code": 3, "partitions": [{"error_code": 5}, {"error_code": 0}]}, {"partitions": [{}]}]
    places.count({"topics": topics}, counts)
    assert dict(counts) == {3: 1, 5: 1}
    assert not ErrorPlaces(messages.api(3).request.fields)


def test_transactions_are_counted_by_their_end(measured: fencepost.Broker) -> None:
    topic, name = unique("topic"), unique("id")
    before = scrape(measured)

    def grown(metric: str, **labels: str) -> float:
        return scrape(measured).value(metric, **labels) - before.value(metric, **labels)

    aborted, fenced = "fencepost_transactions_aborted_total", "fencepost_producers_fenced_total"
    producer = begun(measured, name, topic)
    assert grown("fencepost_transactions_open") == 1
    assert scrape(measured).value("fencepost_partition_lso_lag_offsets", topic=topic, partition="0") == 1
    assert scrape(measured).value("fencepost_transactional_ids", state="Ongoing") >= 1
    producer.commit_transaction(30)
    assert grown("fencepost_transactions_committed_total") == 1
    again(producer, topic)
    producer.abort_transaction(30)
    assert grown(aborted, reason="client") == 1
    again(producer, topic)
    successor = begun(measured, name, topic)
    assert (grown(aborted, reason="fenced"), grown(fenced, reason="takeover")) == (1, 1)
    successor.commit_transaction(30)
    late = begun(measured, name, topic, timeout_ms=1000)
    wait_until(lambda: grown(aborted, reason="timeout") == 1, "the timeout")
    assert grown(fenced, reason="timeout") == 1
    with pytest.raises(KafkaException):
        late.commit_transaction(30)
    assert grown("fencepost_transactions_begun_total") == 5
    assert grown("fencepost_transactions_open") == 0
    assert grown("fencepost_transaction_open_seconds_count") == 5
    wait_until(lambda: grown("fencepost_transaction_end_seconds_count") == 5, "the markers")
    assert not [at for at, _ in scrape(measured).samples("fencepost_partition_lso_lag_offsets") if at["topic"] == topic]


def test_a_hanging_transaction_is_seen_until_an_administrator_ends_it() -> None:
    settings = {"transaction.partition.verification.enable": "false"}  # as on a Kafka before KIP-890
    with fencepost.Broker(metrics="127.0.0.1:0", settings=settings) as broker:
        broker.create_topic("topic")
        with connection(broker) as client:
            batch = bytes(
                encode_batch(
                    [Record(None, b"x", 1)], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True
                )
            )
            late = {"name": "topic", "partition_data": [{"index": 0, "records": batch}]}
            client.call(0, 9, transactional_id="gone", acks=-1, timeout_ms=1000, topic_data=[late])
            assert scrape(broker).value("fencepost_partitions_hanging") == 1
            assert scrape(broker).value("fencepost_partition_lso_lag_offsets", topic="topic", partition="0") == 1
            where = {"name": "topic", "partition_indexes": [0]}
            marker = {"producer_id": 7, "producer_epoch": 0, "transaction_result": False, "topics": [where]}
            client.call(27, 1, markers=[{**marker, "coordinator_epoch": 0}])
        assert scrape(broker).value("fencepost_partitions_hanging") == 0
        assert scrape(broker).value("fencepost_admin_markers_total") == 1


def test_the_lag_of_a_group_is_what_it_has_not_committed(measured: fencepost.Broker) -> None:
    topic, group = unique("topic"), unique("group")
    producer = Producer({"bootstrap.servers": measured.bootstrap_servers})
    for _ in range(5):
        producer.produce(topic, b"x")
    assert producer.flush(30) == 0
    consumer = Consumer(
        {"bootstrap.servers": measured.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest"}
    )
    try:
        consumer.subscribe([topic])
        first = consumer.poll(30)
        consumer.commit(first, asynchronous=False)
        assert scrape(measured).value("fencepost_group_lag_offsets", group=group, topic=topic) == 4
        assert scrape(measured).value("fencepost_groups", state="Stable") == 1
    finally:
        consumer.close()


def test_series_stay_few_however_many_partitions_are_held_back(measured: fencepost.Broker) -> None:
    topic = unique("topic")
    measured.create_topic(topic, 30)
    producer = begun(measured, unique("id"), topic)
    for partition in range(30):
        producer.produce(topic, b"x", partition=partition)
    assert producer.flush(30) == 0
    found = scrape(measured)
    assert found.value("fencepost_partitions_held_back") == 30
    assert len(list(found.samples("fencepost_partition_lso_lag_offsets"))) == 20
    producer.abort_transaction(30)


def test_the_port_of_the_metrics_stays_over_a_restart() -> None:
    with fencepost.Broker(metrics="127.0.0.1:0") as broker:
        before = broker.metrics_url
        broker.restart()
        assert broker.metrics_url == before
        assert scrape(broker).value("fencepost_log_appended_batches_total") == 0


def test_a_broker_without_metrics_says_how_to_get_them() -> None:
    with pytest.raises(BrokerFailed, match=r'metrics="127\.0\.0\.1:0"'):
        _ = fencepost.Broker().metrics_url
    with pytest.raises(BrokerFailed, match="not been started"):
        _ = fencepost.Broker(metrics="0").metrics_url


@pytest.mark.parametrize(
    ("given", "meant"),
    [("9464", "127.0.0.1:9464"), ("0.0.0.0:1", "0.0.0.0:1"), ("[::1]:2", "[::1]:2"), (":3", "127.0.0.1:3")],
)
def test_an_address_is_a_port_with_or_without_a_host(given: str, meant: str) -> None:
    assert str(parse_metrics_address(given, "--metrics")) == meant


@pytest.mark.parametrize("given", ["", "here", "host:", "host:70000", "::1:5"])
def test_another_address_is_refused_with_an_example(given: str) -> None:
    with pytest.raises(ConfigError, match=r"--metrics is .* give HOST:PORT"):
        parse_metrics_address(given, "--metrics")
