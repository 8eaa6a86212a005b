"""Connections: too many are refused, too many at once wait."""

import asyncio
import ssl
from typing import Any, cast

import pytest

from fencepost.broker.connection import Connection
from fencepost.broker.connection_limits import ConnectionLimits
from fencepost.broker.encryption import Encryption
from fencepost.broker.settings import Settings, Source
from fencepost.clock import ManualClock
from fencepost.errors import ConfigError


def limits(**given: str) -> ConnectionLimits:
    settings = Settings.parse({name.replace("_", "."): value for name, value in given.items()})
    return ConnectionLimits(settings, ManualClock())


def test_one_too_many_is_refused_until_another_has_left() -> None:
    limited = limits(max_connections="2")
    assert [limited.refusal("a"), limited.refusal("b")] == [None, None]
    assert "max.connections)" in str(limited.refusal("c"))
    limited.left("a")
    assert limited.refusal("c") is None


def test_each_address_has_its_own_limit() -> None:
    limited = limits(max_connections_per_ip="1", max_connections_per_ip_overrides="b:2, [::1]:0")
    assert [limited.refusal(host) is None for host in ("a", "a", "b", "b", "b", "::1", "c")] == [
        True, False, True, True, False, False, True,
    ]  # fmt: skip
    limited.left("a")
    assert limited.refusal("a") is None


def test_too_many_new_ones_a_second_wait_for_their_turn() -> None:
    clock = ManualClock()
    limited = ConnectionLimits(Settings.parse({"max.connection.creation.rate": "10"}), clock)
    assert [limited.delay_ms() for _ in range(12)] == [0] * 10 + [100, 200]
    clock.advance(5_000)
    assert limited.delay_ms() == 0
    assert limits().delay_ms() == 0


class Socket:
    """What a client that connects and says nothing is to TLS."""

    is_closed = False
    is_paused = False

    def get_extra_info(self, name: str) -> Any:
        return ("10.0.0.7", 4242) if name == "peername" else None

    def set_write_buffer_limits(self, high: int) -> None: ...

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    abort = close

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False


def arrive(limited: ConnectionLimits, clock: ManualClock) -> tuple[Encryption, Socket]:
    encryption = Encryption(cast(Connection, None), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), (), clock, limited)
    socket = Socket()
    encryption.connection_made(cast(asyncio.Transport, socket))
    return encryption, socket


def test_a_client_counts_before_its_tls_handshake() -> None:
    limited = limits(max_connections_per_ip="1")
    first, kept = arrive(limited, ManualClock())
    second, refused = arrive(limited, ManualClock())
    assert (kept.is_closed, refused.is_closed) == (False, True)
    second.connection_lost(None)
    assert limited.refusal("10.0.0.7")
    first.connection_lost(None)
    assert limited.refusal("10.0.0.7") is None


def test_a_tls_handshake_waits_for_its_turn_and_has_its_time_from_then_on() -> None:
    clock = ManualClock()
    limited = ConnectionLimits(Settings.parse({"max.connection.creation.rate": "1"}), clock)
    limited.delay_ms()
    limited.delay_ms()
    _, socket = arrive(limited, clock)
    assert socket.is_paused
    clock.advance(2_000)
    assert not socket.is_paused
    clock.advance(9_999)
    assert not socket.is_closed
    clock.advance(1)
    assert socket.is_closed


@pytest.mark.parametrize("wrong", ["a", "a:b", ":1"])
def test_an_override_that_cannot_be_read_is_refused_before_it_can_refuse_everybody(wrong: str) -> None:
    given = {"max.connections.per.ip.overrides": wrong}
    with pytest.raises(ConfigError, match="is not host:number"):
        Settings.parse(given)
    with pytest.raises(ConfigError, match="is not host:number"):
        Settings().set_dynamic(Source.CLUSTER, given)
