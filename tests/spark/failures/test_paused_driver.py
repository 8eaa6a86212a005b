"""A Spark driver is stopped, as by a hypervisor, and wakes up beside its successor."""

import pytest

from tests.scenarios.playing import assert_right, thorough


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "seed",
    [1, thorough(0), thorough(2)],
    ids=["writing, fenced by its successor", "committing, its timeout passes", "offsets added, its timeout passes"],
)
def test_a_driver_that_wakes_up_beside_its_successor_is_refused(seed: int) -> None:
    """`sink/test_refusals.py` has the other points, with drivers that are held up in one process."""
    assert_right("spark-driver-pauses", seed=seed)
