"""A certificate's name as Kafka writes it, and the rules that turn it into a user's."""

from typing import Any

import pytest

from fencepost.broker.principals import ANONYMOUS, Principal, by_certificate, distinguished_name, parse_rules, user
from fencepost.errors import ConfigError

SUBJECT = [
    (("countryName", "DE"),),
    (("organizationName", "Acme, Inc."),),
    (("organizationalUnitName", "a"), ("organizationalUnitName", "b")),
    (("commonName", "alice"),),
]
CERTIFICATE = {"subject": SUBJECT}
NAME = r"CN=alice,OU=a+OU=b,O=Acme\, Inc.,C=DE"


@pytest.mark.parametrize(
    ("value", "written"),
    [("plain", "plain"), ('a"b\\c', r"a\"b\\c"), ("#x", r"\#x"), (" x ", r"\ x\ "), ("a=b;c", r"a\=b\;c"), ("ä", "ä")],
)
def test_special_characters_are_escaped(value: str, written: str) -> None:
    assert distinguished_name({"subject": [(("commonName", value),)]}) == f"CN={written}"


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("DEFAULT", NAME),
        ("RULE:^CN=(.*?),.*$/$1/", "alice"),
        ("RULE:^CN=(.*?),.*$/$1@acme/U", "ALICE@ACME"),
        ("RULE:^CN=bob.*$/bob/,RULE:^CN=(.*?),OU=(.).*$/$2-$1/L, DEFAULT", "a-alice"),
        ("RULE:^CN=bob.*$/bob/,DEFAULT", NAME),
        (r"RULE:^CN=(.*?),.*$/a\/$1/", "a/alice"),
    ],
)
def test_the_first_rule_that_fits_names_the_user(rules: str, name: str) -> None:
    assert by_certificate(CERTIFICATE, parse_rules(rules)) == user(name)


@pytest.mark.parametrize("certificate", [None, {}])
def test_nobody_is_known_without_a_certificate(certificate: dict[str, Any] | None) -> None:
    assert by_certificate(certificate, parse_rules("DEFAULT")) == ANONYMOUS


def test_nobody_is_known_by_a_certificate_that_no_rule_fits() -> None:
    assert by_certificate(CERTIFICATE, parse_rules("RULE:^CN=bob$/bob/")) is None


@pytest.mark.parametrize("rules", ["RULE:(/x/", "RULE:a/$1/", "NONSENSE", "RULE:a/b"])
def test_a_rule_that_cannot_be_read_is_refused(rules: str) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules"):
        parse_rules(rules)


def test_a_principal_is_written_with_its_kind() -> None:
    assert Principal.parse(" User:a:b ") == Principal("User", "a:b")
    assert str(user("a:b")) == "User:a:b"
    for wrong in ("alice", ":alice", "User:"):
        with pytest.raises(ConfigError, match="not a principal such as User:alice"):
            Principal.parse(wrong)
