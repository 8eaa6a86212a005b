"""What a user can set, and what is refused before anything runs."""

import pytest

from fencepost.client.identity import TransactionProtocol
from fencepost.errors import ConfigError
from fencepost.spark.sink.settings import SinkSettings
from fencepost.wire.compression import Compression

BOOTSTRAP = "localhost:9092"


def settings(**options: object) -> SinkSettings:
    return SinkSettings.of("shop", BOOTSTRAP, None, {name.replace("__", "."): value for name, value in options.items()})


def test_the_pipeline_names_group_and_transactional_id() -> None:
    assert settings().pipeline == "shop"
    assert settings().transactional_id == "fencepost-shop"


def test_options_are_taken_under_their_names_in_any_case() -> None:
    found = settings(kafka__compression__type="lz4", kafka__batch__size=2000, kafka__transaction__timeout__ms="5000")
    assert (found.compression, found.batch_bytes, found.transaction_timeout_ms) == (Compression.LZ4, 2000, 5000)
    assert settings(SMALLBATCHRECORDS="7").small_batch_records == 7


def test_a_topic_for_all_rows_may_be_an_argument_or_an_option() -> None:
    assert SinkSettings.of("shop", BOOTSTRAP, "a").topic == "a"
    assert settings(topic="b").topic == "b"


@pytest.mark.parametrize(("text", "protocol"), [("1", 1), ("2", 2), ("auto", None), ("AUTO", None)])
def test_the_protocol_can_be_chosen(text: str, protocol: int | None) -> None:
    assert settings(transactionProtocol=text).protocol == (protocol and TransactionProtocol(protocol))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"transactionProtocol": "3"}, "one of auto, 1, 2, not '3'"),
        ({"kafka.compression.type": "brotli"}, "one of none, gzip"),
        ({"kafka.batch.size": "1000"}, r"'kafka\.batch\.size' must be a whole number of at least 1024"),
        ({"kafka.transaction.timeout.ms": "soon"}, "whole number of at least 1"),
        ({"smallBatchRecords": "few"}, "whole number"),
        ({"maxAttempts": "0"}, "at least 1"),
        ({"replicationFactor": "0"}, "at least 1"),
        ({"kafka.transactional.id": "mine"}, "cannot be set: the sink's guarantees"),
        ({"kafka.enable.idempotence": "false"}, "idempoten"),
        ({"kafka.acks": "1"}, "acks"),
        ({"maxAttemps": "3"}, "did you mean 'maxAttempts'"),
        ({"kafka.compresion.type": "lz4"}, "did you mean"),
    ],
)
def test_an_impossible_option_is_refused_with_its_name(options: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        SinkSettings.of("shop", BOOTSTRAP, None, options)


@pytest.mark.parametrize("name", ["", "  "])
def test_a_pipeline_needs_a_name(name: str) -> None:
    with pytest.raises(ConfigError, match="needs a name"):
        SinkSettings.of(name, BOOTSTRAP)


@pytest.mark.parametrize("address", ["", "localhost:port", "http://localhost:9092"])
def test_a_wrong_address_is_refused_at_once(address: str) -> None:
    with pytest.raises(ConfigError):
        SinkSettings.of("shop", address)


def test_settings_that_the_sink_keeps_anyway_may_be_given() -> None:
    settings(kafka__acks="all", kafka__enable__idempotence="true")
