"""A pipeline that dies at each step in turn, and what must hold after each death."""

import dataclasses
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from fencepost.spark.sink.steps import BatchStep
from tests.spark.scene import Scene
from tests.spark.sink.inprocess import ENDTXN_SENT, InProcess, dying_at

BATCH_RECORDS = 50
POINTS = [*BatchStep, ENDTXN_SENT]


def die_at_every_step(
    here: InProcess, scene: Scene, protocol: str, small: str, *, deletes_first: bool, **more: Any
) -> StreamingQuery:
    """Returns the query that completes the work. Every second checkpoint is deleted, from the first or second on."""
    options = {**scene.plan.options, "transactionProtocol": protocol, "smallBatchRecords": small}
    plan = dataclasses.replace(scene.plan, batch_records=BATCH_RECORDS, options=options)
    # Only the driver's own thread can die here. The permit for the first task is given in another thread.
    points = [point for point in POINTS if small != "0" or point is not BatchStep.WRITING]
    scene.check.write(BATCH_RECORDS * (len(points) + 3))
    for number, point in enumerate(points):
        with dying_at(point, passes=0 if point is BatchStep.FENCED else 1):
            assert "the pipeline died" in here.run_until_failed(plan, **more)
        scene.check.assert_whole()
        if (number % 2 == 0) == deletes_first:
            scene.delete_checkpoint()
    query = here.run(plan, **more)
    scene.check.assert_complete()
    return query
