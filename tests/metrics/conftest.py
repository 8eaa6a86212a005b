"""One broker for all tests of this directory."""

from collections.abc import Iterator

import pytest

import fencepost


@pytest.fixture(scope="module")
def measured() -> Iterator[fencepost.Broker]:
    settings = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 50}
    with fencepost.Broker(metrics="127.0.0.1:0", settings=settings) as broker:
        yield broker
