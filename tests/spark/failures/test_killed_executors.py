"""Executors of a Spark job are killed and paused. With one of them go the record batches it made for other writers."""

import pytest

from tests.scenarios.playing import assert_right, thorough

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("seed", [1, thorough(0)], ids=["protocol 2", "protocol 1"])
def test_a_pipeline_survives_its_executors(seed: int) -> None:
    assert_right("spark-executor-dies", seed=seed)


@pytest.mark.thorough
def test_an_executor_that_is_away_for_longer_than_every_timeout_does_no_harm() -> None:
    assert_right("spark-executor-pauses")
