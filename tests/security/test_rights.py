"""Every API with all the rights that it needs, and with each of them taken away. `make compat` asks Apache Kafka."""

import contextlib
from collections.abc import Callable, Iterator

import pytest

from fencepost.broker.dispatch import handlers
from fencepost.lab.kit.servers import Ours, free_ports
from fencepost.wire.terms import Address
from tests.security.rights.runner import KEYS, Case, Scene, broker_settings, cases
from tests.security.rights.table import ROWS

CASES = cases(ROWS)


@pytest.fixture(scope="module")
def scene(start_broker: Callable[..., Ours]) -> Iterator[Scene]:
    (port,) = free_ports(1)
    listeners = f"PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:{port}"
    server = start_broker({**broker_settings(CASES), "listeners": listeners})
    with contextlib.closing(Scene(CASES, server.address, Address("127.0.0.1", port))) as opened:
        yield opened


@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_right_is_needed_and_all_together_are_enough(scene: Scene, case: Case) -> None:
    scene.run(case)


def test_every_api_that_is_announced_has_a_row() -> None:
    assert {KEYS[row.api] for row in ROWS} == set(handlers())
