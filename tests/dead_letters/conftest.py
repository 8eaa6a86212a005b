"""Dead letters that another client has written, on ours or on any other Kafka."""

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient

from fencepost.client.cluster import Cluster
from tests import logins
from tests.conftest import MakeTopic
from tests.dead_letters.support import Desk


@pytest.fixture
def cluster(bootstrap: str) -> Iterator[Cluster]:
    with logins.cluster(bootstrap) as opened:
        yield opened


@pytest.fixture
def desk(bootstrap: str, topic: MakeTopic, admin: AdminClient) -> Desk:
    return Desk(bootstrap, dead=topic(2, prefix="dead"), target=topic(3, prefix="target"))
