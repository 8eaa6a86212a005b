"""kill -9 of the server at each step of a batch. The process of `foreachBatch` outlives it, and wakes up too late.

A server on the same port takes its place, and the same program is run again.
"""

import dataclasses
import os
import signal

import pytest

from fencepost.lab.scenarios.orders import ENDTXN_SENT, WRITTEN_SOME, Action
from fencepost.spark.sink.steps import BatchStep
from tests.spark.connect.remote import Runner
from tests.spark.connect.server import ConnectServer
from tests.spark.scene import Scene

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]

BATCH_RECORDS = 50
POINTS = [*(step.name for step in BatchStep), ENDTXN_SENT, WRITTEN_SOME]


@pytest.mark.parametrize("then", ["its process wakes up", "its process dies, too"])
def test_every_record_is_in_effect_once(own_server: ConnectServer, scene: Scene, then: str) -> None:
    options = {**scene.plan.options, "smallBatchRecords": "0"}
    plan = dataclasses.replace(scene.plan, batch_records=BATCH_RECORDS, options=options)
    scene.check.write(BATCH_RECORDS * (len(POINTS) + 3))
    for point in POINTS:
        runner = Runner(own_server)
        own_server.orders.give(point, Action.WAIT, passes=0 if point == BatchStep.FENCED.name else 1)
        runner.start(plan)
        process = runner.wait_for_order(point)
        own_server.kill()
        if then == "its process dies, too":
            os.kill(process, signal.SIGKILL)
        own_server.forget_sessions()
        own_server.start()
        if point == POINTS[-1]:
            Runner(own_server).run(plan)
        own_server.orders.withdraw_all()  # beside its successor, or before there is one
        scene.check.assert_whole()
    Runner(own_server).run(plan)
    scene.check.assert_complete()
