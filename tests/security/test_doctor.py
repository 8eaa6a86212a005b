"""`fencepost doctor` about the rights of a pipeline, on our broker. tests/compat asks Apache Kafka."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from fencepost.lab.kit.servers import Ours, free_ports
from fencepost.wire.terms import Address
from tests.commands import fencepost
from tests.conftest import ROOT
from tests.pages import Reader
from tests.security.rights.doctoring import ID, READ, SETTINGS, TOPIC, USER, WRITE, Clinic, DoctorTells, acl
from tests.security.rights.runner import login


@pytest.fixture(scope="module")
def clinic(start_broker: Callable[..., Ours]) -> Clinic:
    (port,) = free_ports(1)
    listeners = f"PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:{port}"
    return Clinic(start_broker({**SETTINGS, "listeners": listeners}).address, Address("127.0.0.1", port))


class TestTheDoctorTells(DoctorTells):
    """See there."""


class Alice(Reader):
    """Reads the page, and sees its address where the broker has another."""

    def __init__(self, users: Address, home: Path) -> None:
        self._users = str(users)
        settings = home / "client.properties"
        settings.write_text("".join(f"{name}={value}\n" for name, value in login(USER).given))
        page = ROOT / "docs" / "cli.md"
        super().__init__(page, {"kafka.example.org:9093": users, "client.properties": settings})

    def is_error(self, expected: str) -> bool:
        return "error" in expected

    def run(self, words: list[str]) -> "subprocess.CompletedProcess[str]":
        done = fencepost(*words[1:])
        shown = done.stdout.replace(self._users, "kafka.example.org:9093")
        return subprocess.CompletedProcess(words, done.returncode, shown, done.stderr)


def test_the_page_says_what_alice_sees(clinic: Clinic, tmp_path: Path) -> None:
    clinic.create("purchases", "invoices")
    with clinic.granted(acl(ID, "fencepost-shop", WRITE), acl(TOPIC, "purchases", READ)):
        Alice(clinic.users, tmp_path).shown("rights")
