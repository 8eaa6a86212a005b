"""What `fencepost up` says once clients can connect."""

import json
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from fencepost.security.names import Protocol
from fencepost.security.quick import AUTHORITY, MECHANISM, Quick
from fencepost.security.spellings import spelled

if TYPE_CHECKING:
    from fencepost.broker.node import Node


def greet(node: "Node") -> str:
    """The first line is read by programs that started the broker, and the next one if they asked for metrics."""
    first, *others = node.listeners
    lines = [f"listening on {first.bound}"]
    lines += [f"metrics at {node.metrics.url}"] if node.metrics is not None else []
    lines += [f"also listening on {listener.bound} ({listener.protocol})" for listener in others]
    return "\n".join(lines)


def greet_secured(quick: Quick, node: "Node") -> str:
    """The settings of clients, to be copied."""
    bootstrap = str(node.listeners[0].advertised)
    return "\n".join([greet(node), *_settings(quick, bootstrap)])


def with_console(greeting: "Callable[[Node], str]", listen: str, quick: Quick | None) -> "Callable[[Node], str]":
    """Then also start the console, which says itself where it is. Raises ConfigError for an address that is none."""
    from fencepost.cli.beside import launch
    from fencepost.cli.console import PACKAGES
    from fencepost.cli.options import check_installed

    check_installed(PACKAGES, "console")
    from fencepost.console.server import parse_listen

    parse_listen(listen, "--console")

    def greet_with_console(node: "Node") -> str:
        open_ones = [each for each in node.listeners if each.protocol is Protocol.PLAINTEXT]
        bootstrap = str((open_ones or node.listeners)[0].advertised)
        metrics_url = None if node.metrics is None else node.metrics.url
        if open_ones:
            launch(listen, {"bootstrap.servers": bootstrap}, metrics_url)
        elif quick is not None:
            launch(listen, spelled(bootstrap, quick.client_security(), "java"), metrics_url)
        else:
            why = "every listener wants TLS or a login; run fencepost console with --command-config"
            return f"{greeting(node)}\nno console: {why}"
        return greeting(node)

    return greet_with_console


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
