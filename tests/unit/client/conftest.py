"""A scripted broker for each test, and a cluster that has no other."""

from collections.abc import Iterator

import pytest

from fencepost.client import Cluster
from tests.unit.client.scripted import ScriptedBroker, settings


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as broker:
        yield broker


@pytest.fixture
def cluster(broker: ScriptedBroker) -> Iterator[Cluster]:
    """Connects when it is first used, so a test can say before which versions the broker speaks."""
    with Cluster(settings(broker)) as cluster:
        yield cluster


@pytest.fixture
def impatient(broker: ScriptedBroker) -> Iterator[Cluster]:
    """Gives up soon: for what never succeeds."""
    with Cluster(settings(broker, request_timeout_ms=500, default_api_timeout_ms=500)) as cluster:
        yield cluster
