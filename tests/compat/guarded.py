"""A broker with two listeners: one without a login, one with SASL over plaintext."""

from collections.abc import Mapping
from pathlib import Path

from bench.harness import java
from fencepost.lab.kit.kafka import ApacheKafka
from fencepost.lab.kit.servers import HOST, LAB_SETTINGS, Ours, free_ports
from fencepost.wire.terms import Address


def make(kind: str, home: Path, settings: Mapping[str, str]) -> tuple[Ours | ApacheKafka, Address]:
    """Not started yet; and the address where clients log in."""
    plain, users, controller = free_ports(3)
    listeners = f"PLAINTEXT://{HOST}:{plain},SASL_PLAINTEXT://{HOST}:{users}"
    given = {**LAB_SETTINGS, **settings}
    if kind == "fencepost":
        return Ours(home, {**given, "listeners": listeners}), Address(HOST, users)
    given["listeners"] = f"{listeners},CONTROLLER://{HOST}:{controller}"
    given["listener.security.protocol.map"] = "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
    kafka = ApacheKafka(java.kafka(), home, given, controllers={1: controller})
    kafka.port = plain
    return kafka, Address(HOST, users)
