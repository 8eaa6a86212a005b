"""A Spark driver is stopped, as by a hypervisor, and wakes up beside its successor."""

import pytest

from tests.scenarios.playing import assert_right, thorough


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "seed",
    [0, 1, thorough(2)],
    ids=["committing, its timeout passes", "writing, fenced by its successor", "offsets added, its timeout passes"],
)
def test_a_driver_that_wakes_up_beside_its_successor_is_refused(seed: int) -> None:
    assert_right("spark-driver-pauses", seed=seed)
