"""A cluster for the tests: ours by default, any other with `--bootstrap` or `--apache-kafka`."""

from collections.abc import Iterator

import pytest

from fencepost.client import Cluster, TransactionProtocol


@pytest.fixture
def cluster(bootstrap: str) -> Iterator[Cluster]:
    with Cluster(bootstrap) as opened:
        yield opened


@pytest.fixture(params=list(TransactionProtocol), ids=lambda protocol: f"protocol {protocol}")
def protocol(request: pytest.FixtureRequest) -> TransactionProtocol:
    """Both are spoken by one cluster, to clients of either age."""
    return request.param
