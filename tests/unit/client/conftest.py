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
