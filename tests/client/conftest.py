"""A cluster for the tests: ours by default, any other with `--bootstrap` or `--apache-kafka`."""

from collections.abc import Callable, Iterator

import pytest

from fencepost.client import Cluster, TransactionProtocol
from fencepost.lab.kit.servers import Ours


@pytest.fixture
def cluster(bootstrap: str) -> Iterator[Cluster]:
    with Cluster(bootstrap) as opened:
        yield opened


@pytest.fixture(scope="session")
def old_broker(start_broker: Callable[..., Ours], is_original: bool) -> Ours:
    """One that has protocol 1 and nothing else."""
    if is_original:
        pytest.skip("needs a broker with other settings")
    return start_broker({"transaction.version": "1"})


@pytest.fixture(params=list(TransactionProtocol), ids=lambda protocol: f"protocol {protocol}")
def protocol(request: pytest.FixtureRequest) -> TransactionProtocol:
    """Both are spoken by one cluster, to clients of either age."""
    return request.param
