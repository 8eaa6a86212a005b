"""A pipeline that dies at each step, with both transaction protocols, and every second time loses its checkpoint.

Once its batches are written by the driver, as small ones are, once by tasks.

These deaths are played in one process, which makes them cheap. `tests/spark/failures` kills real ones.
"""

import dataclasses

import pytest

from fencepost.spark.sink.steps import BatchStep
from tests.spark.scene import Scene
from tests.spark.sink.inprocess import ENDTXN_SENT, InProcess, dying_at

BATCH_RECORDS = 50
POINTS = [*BatchStep, ENDTXN_SENT]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("protocol", "first", "small"),
    [("1", "checkpoint kept", "1000"), ("2", "checkpoint deleted", "0")],
    ids=["v1, by the driver", "v2, by tasks"],
)
def test_every_record_is_in_effect_once(here: InProcess, scene: Scene, protocol: str, first: str, small: str) -> None:
    options = {**scene.plan.options, "transactionProtocol": protocol, "smallBatchRecords": small}
    plan = dataclasses.replace(scene.plan, batch_records=BATCH_RECORDS, options=options)
    # Only the driver's own thread can die here. The permit for the first task is given in another thread.
    points = [point for point in POINTS if small != "0" or point is not BatchStep.WRITING]
    scene.check.write(BATCH_RECORDS * (len(points) + 3))
    for number, point in enumerate(points):
        with dying_at(point, passes=0 if point is BatchStep.FENCED else 1):
            assert "the pipeline died" in here.run_until_failed(plan)
        scene.check.assert_whole()
        if (number % 2 == 0) == (first == "checkpoint deleted"):
            scene.delete_checkpoint()
    here.run(plan)
    scene.check.assert_complete()
