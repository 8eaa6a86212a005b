"""Listeners: where the broker listens, what it speaks there, what clients are told."""

import pytest

from fencepost.broker.listeners import listeners_of
from fencepost.broker.settings import Settings
from fencepost.errors import ConfigError
from fencepost.wire.terms import Address


def listeners(**given: str) -> list[tuple[str, str, str]]:
    settings = Settings.parse({name.replace("_", "."): value for name, value in given.items()})
    return [(each.name, each.protocol, str(each.advertised)) for each in listeners_of(settings, "127.0.0.1", 9092)]


def test_there_is_one_listener_without_security_by_default() -> None:
    assert listeners() == [("PLAINTEXT", "PLAINTEXT", "127.0.0.1:9092")]
    assert listeners(advertised_listeners="PLAINTEXT://kafka:19") == [("PLAINTEXT", "PLAINTEXT", "kafka:19")]
    assert listeners(advertised_listeners="kafka:19") == [("PLAINTEXT", "PLAINTEXT", "kafka:19")]


def test_each_listener_has_its_protocol_and_address() -> None:
    assert listeners(
        listeners="INSIDE://[::1]:9092,outside://127.0.0.1:0",
        listener_security_protocol_map="INSIDE:PLAINTEXT,OUTSIDE:SASL_SSL",
        advertised_listeners="OUTSIDE://kafka.example.org:443",
        inter_broker_listener_name="INSIDE",
    ) == [("INSIDE", "PLAINTEXT", "[::1]:9092"), ("OUTSIDE", "SASL_SSL", "kafka.example.org:443")]


def test_nobody_is_told_to_connect_to_every_address() -> None:
    for host in ("0.0.0.0", "", "[::]"):
        ((_, _, told),) = listeners(listeners=f"PLAINTEXT://{host}:9092")
        assert told.endswith(":9092") and told[:-5] not in ("0.0.0.0", "::", "", "[::]")


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"listeners": "PLAINTEXT://nowhere"}, r"expected NAME://host:port"),
        ({"listeners": "PLAINTEXT://a:99999"}, r"expected NAME://host:port"),
        ({"listeners": "PLAINTEXT://a:1,PLAINTEXT://a:2"}, "two listeners with the name PLAINTEXT"),
        ({"listeners": "OUTSIDE://a:1"}, "listener.security.protocol.map does not say what listener OUTSIDE speaks"),
        ({"listener_security_protocol_map": "A:TLS"}, "A:TLS is not NAME:PROTOCOL"),
        ({"advertised_listeners": "SSL://a:1"}, "advertised.listeners names SSL, which listeners does not have"),
        ({"advertised_listeners": "PLAINTEXT://:1"}, r"expected NAME://host:port"),
        ({"advertised_listeners": "PLAINTEXT://a:0"}, r"expected NAME://host:port"),
        ({"inter_broker_listener_name": "INSIDE"}, "inter.broker.listener.name=INSIDE is not one of the listeners"),
    ],
)
def test_says_what_is_wrong(given: dict[str, str], error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        listeners(**given)


def test_a_setting_may_hold_for_one_listener_or_one_of_its_mechanisms() -> None:
    settings = Settings.parse(
        {
            "ssl.client.auth": "none",
            "listener.name.OUTSIDE.ssl.client.auth": "required",
            "sasl.jaas.config": "everywhere",
            "listener.name.outside.sasl.jaas.config": "outside",
            "listener.name.outside.plain.sasl.jaas.config": "plain outside",
        }
    )
    assert [settings.for_listener(name, "ssl.client.auth") for name in ("OUTSIDE", "INSIDE")] == ["required", "none"]
    asked = [("OUTSIDE", "plain"), ("OUTSIDE", ""), ("INSIDE", "plain")]
    logins = [settings.for_listener(listener, "sasl.jaas.config", mechanism) for listener, mechanism in asked]
    assert logins == ["plain outside", "outside", "everywhere"]
    for name, value in [("listener.name.x.no.such.setting", "1"), ("listener.name.x.ssl.client.auth", "maybe")]:
        with pytest.raises(ConfigError):
            Settings.parse({name: value})


def test_an_address_is_written_as_clients_read_it() -> None:
    assert [str(Address("::1", 1)), str(Address("h", 2))] == ["[::1]:1", "h:2"]
