"""kill -9 of the Spark driver, again and again on one pipeline; `sink/test_deaths.py` has every step there is."""

import pytest

from tests.scenarios.playing import assert_right, thorough

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("quick_python")]


@pytest.mark.parametrize("seed", [0, thorough(1), thorough(2)])
def test_a_driver_that_is_killed_again_and_again_leaves_every_purchase_in_effect_once(seed: int) -> None:
    """The seed chooses the points of the batch at which it dies. One time its checkpoint is lost as well."""
    assert_right("spark-driver-dies", seed=seed)


@pytest.mark.thorough
def test_a_checkpoint_that_is_lost_after_a_commit_repeats_nothing() -> None:
    assert_right("spark-checkpoint-lost")
