"""Python workers of a Spark job are killed, fail, hang, or run twice. The job goes on by itself."""

import pytest

from tests.scenarios.playing import assert_right, thorough

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("quick_python")]


@pytest.mark.parametrize("seed", [1, thorough(0)], ids=["protocol 2", "protocol 1"])
def test_a_pipeline_survives_its_workers(seed: int) -> None:
    assert_right("spark-workers-die", seed=seed)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [0, 1], ids=["protocol 1", "protocol 2"])
def test_a_task_that_writes_after_its_transaction_is_over_is_refused(seed: int) -> None:
    assert_right("spark-straggler", seed=seed)


@pytest.mark.thorough
def test_tasks_that_spark_starts_twice_write_once() -> None:
    assert_right("spark-speculation")
