"""Who a client is: `User:alice`, by its login or by its certificate.

A certificate's subject becomes a name as in Kafka: the distinguished name of RFC 2253, through
`ssl.principal.mapping.rules` if there are any.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fencepost.errors import ConfigError


class Principal(NamedTuple):
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> "Principal":
        kind, colon, name = text.strip().partition(":")
        if not colon or not kind or not name:
            raise ConfigError(f"{text.strip()!r} is not a principal such as User:alice")
        return cls(kind, name)


def user(name: str) -> Principal:
    return Principal("User", name)


ANONYMOUS = user("ANONYMOUS")

#: OpenSSL's names of the attributes that RFC 2253 abbreviates.
_SHORT = {
    "commonName": "CN", "localityName": "L", "stateOrProvinceName": "ST", "organizationName": "O",
    "organizationalUnitName": "OU", "countryName": "C", "streetAddress": "STREET", "domainComponent": "DC",
    "userId": "UID",
}  # fmt: skip
_SPECIAL = re.compile(r'([,+"\\<>;=])')


def distinguished_name(certificate: Mapping[str, Any]) -> str:
    """Of what `ssl` says of a certificate: the most specific part first, as Java writes it."""
    return ",".join(
        "+".join(f"{_SHORT.get(name, name)}={_escape(value)}" for name, value in attributes)
        for attributes in reversed(certificate.get("subject", ()))
    )


def _escape(value: str) -> str:
    escaped = _SPECIAL.sub(r"\\\1", value)
    if escaped[:1] in ("#", " "):
        escaped = "\\" + escaped
    return escaped[:-1] + "\\ " if escaped.endswith(" ") and len(escaped) > 1 else escaped


_RULE = re.compile(r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)")


class Rule(NamedTuple):
    pattern: re.Pattern[str] | None  #: None takes the name as it is
    replacement: str
    case: str

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        found = self.pattern.fullmatch(name)
        if found is None:
            return None
        mapped = found.expand(self.replacement)
        return {"L": mapped.lower, "U": mapped.upper}.get(self.case, mapped.strip)()


def parse_rules(text: str) -> list[Rule]:
    """`RULE:pattern/replacement/[LU]` and `DEFAULT`, separated by commas; the first that fits decides."""
    rules, position = [], 0
    text = text.strip()
    while position < len(text):
        found = _RULE.match(text, position)
        if found is None:
            raise ConfigError(f"ssl.principal.mapping.rules cannot be read from {text[position:]!r} on")
        default, pattern, replacement, case = found.groups()
        rules.append(Rule(None, "", "") if default else _rule(pattern, replacement, case))
        position = found.end()
        while position < len(text) and text[position] in ", \t\n":
            position += 1
    return rules


def _rule(pattern: str, replacement: str, case: str) -> Rule:
    try:
        compiled = re.compile(pattern.replace(r"\/", "/"))
        expanded = _JAVAS.sub(_python_template, replacement)
        if any(int(group) > compiled.groups for group in re.findall(r"\\g<(\d)>", expanded)):
            raise re.error("the replacement names a group that the pattern does not have")
    except re.error as error:
        raise ConfigError(f"ssl.principal.mapping.rules: RULE:{pattern}/{replacement}/: {error}") from None
    return Rule(compiled, expanded, case)


_JAVAS = re.compile(r"\\(.?)|\$(\d)", re.DOTALL)


def _python_template(found: "re.Match[str]") -> str:
    """`$1` is a group in Java's replacements, and a backslash takes the next character as it is."""
    plain, group = found.groups()
    return f"\\g<{group}>" if group is not None else plain.replace("\\", r"\\")


def by_certificate(certificate: Mapping[str, Any] | None, rules: Sequence[Rule]) -> Principal | None:
    """None for a client that no rule has a name for: it is not let in, as in Kafka."""
    if not certificate:
        return ANONYMOUS
    name = distinguished_name(certificate)
    for rule in rules:
        if (mapped := rule.apply(name)) is not None:
            return user(mapped)
    return user(name) if not rules else None
