"""A client that goes away leaves its query running in the server; other clients find it, and take its place."""

import dataclasses
import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fencepost.child import Child
from fencepost.errors import BatchRefused
from fencepost.spark import lag, progress
from fencepost.spark.sessions import tells_limits
from tests.conftest import ROOT, wait_until
from tests.spark import numbers_job
from tests.spark.connect.remote import failure_of
from tests.spark.connect.server import ConnectServer
from tests.spark.numbers_job import Plan
from tests.spark.scene import MakeScene, Scene

TIMEOUT_S = 60.0


@contextmanager
def client(server: ConnectServer, plan: Plan, log: Path) -> Iterator[tuple[Child, str, str]]:
    """A program that has started the pipeline, with the ids of its session and query."""
    with Child(log, "the client") as child:
        plan_text = json.dumps(dataclasses.asdict(plan))
        child.start([sys.executable, "-m", "tests.spark.connect.client_program", server.url, plan_text], None, ROOT)
        line = child.first_line(TIMEOUT_S)
        assert line, child.said()
        session_id, query_id = json.loads(line)
        yield child, session_id, query_id


def wait_until_processed(scene: Scene) -> None:
    wait_until(lambda: sum(scene.check.committed().values()) == scene.check.written, "all is processed", TIMEOUT_S)


def test_a_query_whose_client_was_killed_goes_on_and_another_client_takes_its_place(
    connect_server: ConnectServer, make_scene: MakeScene, tmp_path: Path
) -> None:
    scene = make_scene(100, is_endless=True)
    with client(connect_server, scene.plan, tmp_path / "client.log") as (child, session_id, query_id):
        wait_until_processed(scene)
        child.signal(signal.SIGKILL)
        child.wait(TIMEOUT_S)
    scene.check.write(50)
    wait_until_processed(scene)

    found = connect_server.session(session_id).streams.get(query_id)
    assert found.isActive
    sums = progress(found)
    assert sums is not None and sums.records == 2 * scene.check.written
    assert (lag(found) is not None) == tells_limits()

    scene.check.write(50)
    successor = numbers_job.start(connect_server.session(), dataclasses.replace(scene.plan, is_endless=False))
    numbers_job.end_when_done(successor)
    assert successor.awaitTermination(TIMEOUT_S)
    assert successor.exception() is None
    assert not found.isActive
    scene.check.assert_complete()


@pytest.mark.thorough
def test_a_query_with_another_checkpoint_fences_that_of_another_session(
    connect_server: ConnectServer, make_scene: MakeScene, tmp_path: Path
) -> None:
    scene = make_scene(100, is_endless=True)
    first = numbers_job.start(connect_server.session(), scene.plan)
    wait_until_processed(scene)
    second_plan = dataclasses.replace(scene.plan, checkpoint=str(tmp_path / "other"))
    session = connect_server.session()
    second = numbers_job.start(session, second_plan)
    scene.check.write(50)
    assert "fenced" in failure_of(first)
    wait_until_processed(scene)
    with pytest.raises(BatchRefused, match="which is running"):
        numbers_job.start(session, scene.plan)  # within one session it is refused
    second.stop()
    scene.check.assert_complete()
