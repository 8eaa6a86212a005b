"""Krb5LoginModule's options, the layers that a broker offers, and what is advised when there is no ticket.

What needs a KDC is in `tests/compat/test_kerberos.py`.
"""

import sys

import pytest

from fencepost.errors import AuthenticationFailed, ClientError, ConfigError, ConnectionLost, Malformed
from fencepost.security import kerberos
from fencepost.security.kerberos import Login, Reason
from fencepost.security.settings import ClientSecurity

KEYTAB = {"useKeyTab": "true", "keyTab": "/etc/alice.keytab", "principal": "alice@REALM", "storeKey": "true"}
MODULE = "com.sun.security.auth.module.Krb5LoginModule"
CONFIG = f'{MODULE} required useKeyTab=true keyTab="/etc/alice.keytab" principal="alice@REALM" serviceName=kafka;'


@pytest.mark.parametrize(
    ("options", "login"),
    [
        (KEYTAB, Login("kafka", "alice@REALM", "/etc/alice.keytab", None)),
        ({**KEYTAB, "keyTab": "FILE:/a"}, Login("kafka", "alice@REALM", "/a", None)),
        ({"useTicketCache": "TRUE", "renewTGT": "true"}, Login("kafka", "", None, "")),
        ({"useTicketCache": "true", "ticketCache": "/tmp/cc"}, Login("kafka", "", None, "/tmp/cc")),
        ({**KEYTAB, "useTicketCache": "true"}, Login("kafka", "alice@REALM", "/etc/alice.keytab", "")),
    ],
)
def test_tickets_come_from_a_keytab_or_a_cache(options: dict[str, str], login: Login) -> None:
    assert Login.parse(options, "kafka") == login
    assert Login.parse({**options, "serviceName": "kafka"}, "") == login


@pytest.mark.parametrize(
    ("options", "service", "error"),
    [
        (KEYTAB, "", "sasl.kerberos.service.name is missing"),
        ({**KEYTAB, "serviceName": "a"}, "b", "serviceName='a', but sasl.kerberos.service.name is 'b'"),
        ({}, "kafka", "needs useKeyTab=true keyTab=.* or useTicketCache=true"),
        ({**KEYTAB, "useKeyTab": "false"}, "kafka", "keyTab needs useKeyTab=true"),
        ({"useKeyTab": "true", "principal": "a"}, "kafka", 'needs keyTab="..." and principal="..."'),
        ({"useKeyTab": "true", "keyTab": "/a"}, "kafka", 'needs keyTab="..." and principal="..."'),
        ({**KEYTAB, "ticketCache": "/tmp/cc"}, "kafka", "ticketCache needs useTicketCache=true"),
    ],
)
def test_options_that_lack_something_say_what(options: dict[str, str], service: str, error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        Login.parse(options, service)


def test_settings_are_checked_where_nothing_has_to_be_resolved() -> None:
    settings = {"security.protocol": "SASL_SSL", "sasl.jaas.config": CONFIG}
    assert ClientSecurity.parse(settings).mechanism == "GSSAPI"
    with pytest.raises(ConfigError, match="serviceName='kafka', but"):
        ClientSecurity.parse({**settings, "sasl.kerberos.service.name": "other"})
    ClientSecurity.parse({**settings, "sasl.kerberos.service.name": "${env:NOT_HERE}"})


def test_a_missing_package_is_answered_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    security = ClientSecurity.parse({"security.protocol": "SASL_SSL", "sasl.jaas.config": CONFIG})
    with pytest.raises(ConfigError, match=r"pip install 'fencepost\[kerberos\]'.* libkrb5-dev"):
        next(security.converse("localhost"))


def test_of_the_layers_that_a_broker_offers_none_is_taken() -> None:
    assert kerberos.choose_layer(b"\x01\x00\x00\x00") == b"\x01\x00\x00\x00"
    assert kerberos.choose_layer(b"\x07\x00\xff\xff") == b"\x01\x00\x00\x00"
    with pytest.raises(AuthenticationFailed, match="insists on a security layer"):
        kerberos.choose_layer(b"\x06\x00\xff\xff")
    with pytest.raises(Malformed):
        kerberos.choose_layer(b"")


@pytest.mark.parametrize(
    ("reason", "kind", "said"),
    [
        (Reason.CLOCK_SKEW, AuthenticationFailed, "set this machine's clock"),
        (Reason.CLOCK_SKEW_OF_KDC, AuthenticationFailed, "set this machine's clock"),
        (Reason.KEY_EXPIRED, AuthenticationFailed, "the password of alice@REALM has expired"),
        (Reason.CLIENT_REVOKED, AuthenticationFailed, "have it unlocked"),
        (Reason.KDC_UNREACHABLE, ConnectionLost, "are the KDCs in krb5.conf right"),
        (-1, AuthenticationFailed, "there is no ticket for kafka@host: what the library says"),
    ],
)
def test_what_to_do_without_a_ticket(reason: int, kind: type[ClientError], said: str) -> None:
    error = kerberos.failure(Login.parse(KEYTAB, "kafka"), "kafka@host", reason, "what the library says")
    assert isinstance(error, kind)
    assert said in str(error)
