"""Clusters to look at: the session's broker (or another Kafka, `--bootstrap`), and one that lets transactions hang."""

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AdminClient

from fencepost.client.cluster import Cluster
from fencepost.lab.kit.servers import Ours
from tests import logins
from tests.conftest import MakeTopic, topic_maker
from tests.observe.stuck import TRUSTING


@pytest.fixture
def cluster(bootstrap: str) -> Iterator[Cluster]:
    with logins.cluster(bootstrap) as opened:
        yield opened


@pytest.fixture(scope="session")
def trusting(start_broker: Callable[..., Ours]) -> str:
    """The address of a broker on which a transaction can hang."""
    return start_broker(TRUSTING).bootstrap


@pytest.fixture
def trusting_cluster(trusting: str) -> Iterator[Cluster]:
    with Cluster(trusting) as opened:
        yield opened


@pytest.fixture(scope="session")
def trusting_topic(trusting: str) -> MakeTopic:
    return topic_maker(AdminClient({"bootstrap.servers": trusting}))
