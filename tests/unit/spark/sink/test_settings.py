"""What a user can set, and what is refused before anything runs."""

import pytest

from fencepost.client.identity import TransactionProtocol
from fencepost.errors import ConfigError
from fencepost.spark.sink.settings import SinkSettings
from fencepost.wire.compression import Compression

BOOTSTRAP = "localhost:9092"


def settings(pipeline: str = "shop", topic: str | None = None, **options: object) -> SinkSettings:
    return SinkSettings.of(
        pipeline, BOOTSTRAP, topic, {name.replace("__", "."): value for name, value in options.items()}
    )


def test_the_pipeline_names_group_and_transactional_id() -> None:
    assert settings().pipeline == "shop"
    assert settings().transactional_id == "fencepost-shop"


@pytest.mark.parametrize("name", ["", "  "])
def test_a_pipeline_needs_a_name(name: str) -> None:
    with pytest.raises(ConfigError, match="needs a name"):
        settings(name)


def test_kafkas_settings_are_taken_under_their_names() -> None:
    found = settings(kafka__compression__type="lz4", kafka__batch__size=2000, kafka__transaction__timeout__ms="5000")
    assert (found.compression, found.batch_bytes, found.transaction_timeout_ms) == (Compression.LZ4, 2000, 5000)


def test_names_are_found_in_any_case() -> None:
    assert settings(SMALLBATCHRECORDS="7").small_batch_records == 7


def test_a_topic_for_all_rows_may_be_an_argument_or_an_option() -> None:
    assert settings(topic="a").topic == "a"
    assert SinkSettings.of("shop", BOOTSTRAP, None, {"topic": "b"}).topic == "b"


@pytest.mark.parametrize(("text", "protocol"), [("1", 1), ("2", 2), ("auto", None), ("AUTO", None)])
def test_the_protocol_can_be_chosen(text: str, protocol: int | None) -> None:
    assert settings(transactionProtocol=text).protocol == (protocol and TransactionProtocol(protocol))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"transactionProtocol": "3"}, "auto, 1 or 2"),
        ({"kafka.compression.type": "brotli"}, "one of none, gzip"),
        ({"kafka.batch.size": "1000"}, "whole number of at least 1024"),
        ({"kafka.transaction.timeout.ms": "soon"}, "whole number of at least 1"),
        ({"smallBatchRecords": "few"}, "whole number"),
        ({"maxAttempts": "0"}, "at least 1"),
        ({"kafka.transactional.id": "mine"}, "cannot be set: the sink's guarantees"),
        ({"kafka.enable.idempotence": "false"}, "idempoten"),
        ({"kafka.acks": "1"}, "acks"),
        ({"maxAttemps": "3"}, "did you mean 'maxAttempts'"),
        ({"kafka.compresion.type": "lz4"}, "did you mean"),
    ],
)
def test_what_cannot_be_is_refused_with_its_name(options: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        SinkSettings.of("shop", BOOTSTRAP, None, options)


@pytest.mark.parametrize("address", ["", "localhost:port", "http://localhost:9092"])
def test_an_address_that_is_none_is_refused_at_once(address: str) -> None:
    with pytest.raises(ConfigError):
        SinkSettings.of("shop", address)


def test_settings_that_the_sink_keeps_anyway_may_be_given() -> None:
    settings(kafka__acks="all", kafka__enable__idempotence="true")
