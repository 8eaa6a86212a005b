"""What `fencepost up` says once clients can connect."""

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from fencepost.security.quick import AUTHORITY, MECHANISM, Quick
from fencepost.security.spellings import spelled

if TYPE_CHECKING:
    from fencepost.broker.node import Node


def greet(node: "Node") -> str:
    """The first line is read by programs that started the broker."""
    first, *others = node.listeners
    lines = [f"listening on {first.bound}"]
    lines += [f"also listening on {listener.bound} ({listener.protocol})" for listener in others]
    return "\n".join(lines)


def greet_secured(quick: Quick, node: "Node") -> str:
    """The settings of clients, to be copied."""
    bootstrap = str(node.listeners[0].advertised)
    return "\n".join([greet(node), *_settings(quick, bootstrap)])


def _settings(quick: Quick, bootstrap: str) -> Iterator[str]:
    java = spelled(bootstrap, quick.client_security(), "java")
    yield "\nFor Java clients, Kafka's own tools and ours (in a file, with --command-config):\n"
    yield from (f"  {name}={_in_properties(value)}" for name, value in java.items())
    yield "\nFor librdkafka (confluent-kafka and others):\n"
    librdkafka = {
        "bootstrap.servers": bootstrap,
        "security.protocol": quick.protocol,
        "ssl.ca.location": quick.directory / AUTHORITY,
        "sasl.mechanisms": MECHANISM,
        "sasl.username": quick.user,
        "sasl.password": quick.password,
    }
    yield from (f"  {name}={value}" for name, value in librdkafka.items())
    yield "\nFor Spark:\n"
    yield from (f"  .option({f'kafka.{name}'!r}, {value!r})" for name, value in java.items())


def _in_properties(value: str) -> str:
    """As a properties file has it, which Java reads as Latin-1."""
    return re.sub(r"[^ -~]", lambda found: json.dumps(found[0])[1:-1], value.replace("\\", "\\\\"))
