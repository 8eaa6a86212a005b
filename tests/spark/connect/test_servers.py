"""What a server of Spark Connect may lack, and where it may keep checkpoints. Each test has a server of its own."""

import dataclasses
import os
import site
import venv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from fencepost.errors import ConfigError
from fencepost.spark import progress, write_stream
from fencepost.spark.session import CHECKPOINT_FILES, recommended
from tests.spark import numbers_job
from tests.spark.connect.remote import Runner
from tests.spark.connect.server import ConnectServer
from tests.spark.scene import Scene

pytestmark = pytest.mark.thorough

TIMEOUT_S = 120
MakeServer = Callable[..., ConnectServer]


@pytest.fixture
def make_server(tmp_path: Path) -> Iterator[MakeServer]:
    made: list[ConnectServer] = []

    def make(**more: Any) -> ConnectServer:
        made.append(ConnectServer(tmp_path / "server", **more))
        return made[-1].start()

    yield make
    for server in made:
        server.stop()


def python_without(package: str, home: Path) -> dict[str, str]:
    """The variables for a Python that has what this one has, without a package and without this checkout."""
    venv.create(home, symlinks=True)
    (packages,) = home.glob("lib/python*/site-packages")
    for entry in os.scandir(site.getsitepackages()[0]):
        if package not in entry.name and not entry.name.endswith(".pth") and not (packages / entry.name).exists():
            (packages / entry.name).symlink_to(entry.path)
    python = str(home / "bin" / "python")
    return {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}


PLAIN_DAEMON = {"spark.python.daemon.module": "pyspark.daemon"}


def test_a_server_without_fencepost_is_told_what_to_do(make_server: MakeServer, scene: Scene, tmp_path: Path) -> None:
    variables = {**python_without("fencepost", tmp_path / "python"), "PYTHONPATH": ""}
    session = make_server(conf=PLAIN_DAEMON, variables=variables).session()
    rows = session.readStream.format("rate").load().selectExpr("CAST(value AS STRING) AS value")
    with pytest.raises(ConfigError, match=r"cannot import fencepost: .* PYSPARK_PYTHON .* a server of Spark Connect"):
        write_stream(
            rows,
            pipeline=scene.plan.pipeline,
            bootstrap_servers=scene.plan.bootstrap,
            checkpoint=scene.plan.checkpoint,
            topic=scene.plan.left,
        )


def test_a_server_without_grpc_is_told_what_to_do(make_server: MakeServer, scene: Scene, tmp_path: Path) -> None:
    server = make_server(conf=PLAIN_DAEMON, variables=python_without("grpc", tmp_path / "python"))
    with pytest.raises(ConfigError, match=r"pip install 'fencepost\[connect\]'"):
        numbers_job.start(server.session(), scene.plan)


@pytest.mark.parametrize("path", ["relative", "file:{home}/a checkpoint", "file://{home}/one", "{home}/with spaces/é"])
def test_a_checkpoint_may_be_written_in_many_ways(connect_server: ConnectServer, scene: Scene, path: str) -> None:
    """A relative path is one of the server's."""
    home = connect_server.home / scene.plan.pipeline
    checkpoint = path.format(home=home) if "{" in path else f"{scene.plan.pipeline}/{path}"
    plan = dataclasses.replace(scene.plan, checkpoint=checkpoint, batch_records=50)
    scene.check.write(60)
    there = Runner(connect_server)
    query = there.run(plan)
    scene.check.write(60)
    there.run(plan)
    scene.check.assert_complete()
    assert progress(query) is not None
    assert list(home.rglob("offsets")), "the server keeps it elsewhere"
    there.close()


@pytest.mark.parametrize("stale", ["nothing", "another query", "something else"])
def test_a_checkpoint_may_be_on_the_servers_default_file_system(
    make_server: MakeServer, scene: Scene, tmp_path: Path, stale: str
) -> None:
    """A directory of the same name on the server's own disk is another one."""
    disk, name = tmp_path / "disk", tmp_path / "checkpoint"
    disk.mkdir()
    mount = "spark.hadoop.fs.viewfs.mounttable.test"
    conf = {
        "spark.hadoop.fs.defaultFS": "viewfs://test/",
        f"{mount}.link.{tmp_path}": disk.as_uri(),
        f"{mount}.link./tmp/hive": disk.as_uri(),
        CHECKPOINT_FILES: recommended("local[2]", version=pyspark.__version__)[CHECKPOINT_FILES].replace(
            "FileSystemBased", "FileContextBased"
        ),
        "spark.sql.warehouse.dir": (tmp_path / "warehouse").as_uri(),
    }
    if stale != "nothing":
        name.mkdir()
        text = '{"id":"5f1fb7ba-a8bd-4bd6-b66a-7ea0cb0a5b31"}' if stale == "another query" else "garbage"
        (name / "metadata").write_text(text)
    plan = dataclasses.replace(scene.plan, checkpoint=str(name), batch_records=50)
    there = Runner(make_server(conf=conf))
    scene.check.write(120)
    there.run(plan)
    scene.check.write(60)
    there.run(plan)
    scene.check.assert_complete()
    assert (disk / "checkpoint" / "offsets" / "0").exists()
    assert not (name / "offsets").exists()


def test_the_source_behind_a_view_must_be_named(connect_server: ConnectServer, scene: Scene) -> None:
    session, plan = connect_server.session(), scene.plan
    scene.check.write(60)
    numbers_job.transform(numbers_job.read(session, plan), plan).createOrReplaceTempView("numbers")
    records, everything = session.table("numbers"), {"availableNow": True}
    with pytest.raises(ConfigError, match=r"give the argument 'pipeline': .* behind a view"):
        write_stream(records, checkpoint=plan.checkpoint, trigger=everything)
    with pytest.raises(ConfigError, match=r"give the argument 'bootstrap_servers': .* behind a view"):
        write_stream(records, pipeline=plan.pipeline, checkpoint=plan.checkpoint, trigger=everything)
    query = write_stream(
        records,
        pipeline=plan.pipeline,
        bootstrap_servers=plan.bootstrap,
        checkpoint=plan.checkpoint,
        trigger=everything,
    )
    assert query.awaitTermination(TIMEOUT_S)
    scene.check.assert_complete()
