"""A broker for the tests that need one beside the command."""

from collections.abc import Iterator

import pytest

import fencepost
from fencepost.client import Cluster
from fencepost.client.admin import NewTopic, create_topics
from fencepost.shop import TOPICS


@pytest.fixture(scope="session", autouse=True)
def always_quick(quick_start: None) -> None:
    pass


@pytest.fixture
def bootstrap() -> Iterator[str]:
    with fencepost.Broker() as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def cluster(bootstrap: str) -> Iterator[Cluster]:
    """With the shop's topics."""
    with Cluster(bootstrap) as opened:
        create_topics(opened, {name: NewTopic(2) for name in TOPICS})
        yield opened
