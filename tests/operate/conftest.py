"""Pipelines of a test's own, on ours or on any other Kafka (`--bootstrap`, `--apache-kafka`, `--security`)."""

from collections.abc import Callable, Iterator

import pytest

from fencepost.client.cluster import Cluster
from tests import logins
from tests.operate.pipelines import ByHand

MakePipeline = Callable[..., ByHand]


@pytest.fixture
def cluster(bootstrap: str) -> Iterator[Cluster]:
    with logins.cluster(bootstrap) as opened:
        yield opened


@pytest.fixture
def pipeline(cluster: Cluster, bootstrap: str) -> MakePipeline:
    """`pipeline(partitions=2, stateful=True)`."""

    def make(partitions: int = 1, *, stateful: bool = False) -> ByHand:
        return ByHand(cluster, bootstrap, partitions, stateful=stateful)

    return make
