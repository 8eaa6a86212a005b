"""Settings under Kafka's names."""

import pytest

from fencepost.client.settings import ClientSettings, parse_address
from fencepost.errors import ConfigError
from fencepost.wire.terms import Address


@pytest.mark.parametrize(
    ("word", "address"),
    [
        ("localhost:9092", Address("localhost", 9092)),
        (" kafka-1.example ", Address("kafka-1.example", 9092)),
        ("PLAINTEXT://10.0.0.1:19092", Address("10.0.0.1", 19092)),
        ("[::1]:9093", Address("::1", 9093)),
        ("[::1]", Address("::1", 9092)),
    ],
)
def test_an_address_is_read_in_the_forms_that_people_write(word, address):
    assert parse_address(word) == address


@pytest.mark.parametrize("word", ["", ":9092", "host:", "host:port", "host:0", "host:70000", "https://host:9092"])
def test_what_is_not_an_address_is_refused_by_name(word):
    with pytest.raises(ConfigError, match="bootstrap"):
        ClientSettings.parse({"bootstrap.servers": word})


def test_an_ipv6_address_is_written_with_brackets():
    assert str(Address("::1", 9092)) == "[::1]:9092"


def test_known_settings_are_taken_and_meaningless_ones_left_alone():
    settings = ClientSettings.parse(
        {"bootstrap.servers": "a:1, b:2,", "client.id": "me", "request.timeout.ms": "700", "linger.ms": "5"}
    )
    assert settings.bootstrap == (Address("a", 1), Address("b", 2))
    assert (settings.client_id, settings.request_timeout_ms) == ("me", 700)


@pytest.mark.parametrize("value", ["soon", "0", "-1"])
def test_a_timeout_that_is_none_is_refused(value):
    with pytest.raises(ConfigError, match=r"request\.timeout\.ms"):
        ClientSettings.parse({"bootstrap.servers": "a:1", "request.timeout.ms": value})
