"""How tests log in to a broker: its security, by its address.

Tests and their helpers hand addresses around. With `--security` the session's broker is secured; then whoever has its
address finds here what a client needs. An address that nobody has told is one without security.
"""

from typing import Any

from fencepost.client.cluster import Cluster
from fencepost.client.connection import PLAINTEXT
from fencepost.security.settings import ClientSecurity
from fencepost.security.spellings import spelled

_known: dict[str, ClientSecurity] = {}


def remember(bootstrap: str, security: ClientSecurity) -> None:
    _known[bootstrap] = security


def of(bootstrap: str) -> ClientSecurity:
    return _known.get(bootstrap, PLAINTEXT)


def confluent(bootstrap: str) -> dict[str, Any]:
    """For clients of confluent-kafka."""
    return spelled(bootstrap, of(bootstrap), "confluent")


def spark(bootstrap: str) -> dict[str, str]:
    """Options of a source, or of `df.write`."""
    return spelled(bootstrap, of(bootstrap), "spark")


def sink(bootstrap: str) -> dict[str, str]:
    """Options beside `bootstrap_servers`."""
    return {name: value for name, value in spark(bootstrap).items() if name != "kafka.bootstrap.servers"}


def java(bootstrap: str) -> dict[str, str]:
    """By Kafka's own names."""
    return spelled(bootstrap, of(bootstrap), "java")


def cluster(bootstrap: str) -> Cluster:
    return Cluster(java(bootstrap))
