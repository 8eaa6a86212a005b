"""The broker is killed under a Spark job, and aborts a transaction that takes too long."""

import pytest

from tests.scenarios.playing import assert_right, thorough

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("quick_python")]


@pytest.mark.parametrize("seed", [0, thorough(1)], ids=["protocol 1", "protocol 2"])
def test_a_pipeline_survives_its_broker(seed: int) -> None:
    assert_right("spark-broker-dies", seed=seed)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [0, 1], ids=["protocol 1", "protocol 2"])
def test_a_batch_that_exceeds_the_transaction_timeout_fails_and_names_the_setting(seed: int) -> None:
    """In a session of its own. `sink/test_refusals.py` has the same error, in a session that is there anyway."""
    assert_right("spark-too-slow", seed=seed)
