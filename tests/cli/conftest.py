"""The command line on ours or on any other Kafka (`--bootstrap`, `--apache-kafka`, `--security`)."""

from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from tests.cli.shell import Shell
from tests.conftest import MakeTopic, topic_maker


@pytest.fixture(scope="session")
def shell(bootstrap: str) -> Shell:
    return Shell(bootstrap)


@pytest.fixture(scope="session")
def topic(admin: AdminClient) -> MakeTopic:
    """Topics that keep what is as old as the records of these tests."""
    make = topic_maker(admin)

    def create(partitions: int = 1, *, config: Mapping[str, Any] | None = None, **more: Any) -> str:
        return make(partitions, config={"retention.ms": -1, **(config or {})}, **more)

    return create
