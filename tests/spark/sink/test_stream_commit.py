"""Commits of one batch by several processes: played by threads, on a real broker, with a checkpoint made by hand."""

import json
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fencepost.errors import BatchRefused, Fenced, FencepostError
from fencepost.spark.checkpoint import ArrowFiles
from fencepost.spark.sink import steps
from fencepost.spark.sink.encoded import SentBlob
from fencepost.spark.sink.logged import find_query, open_checkpoint, read_batch
from fencepost.spark.sink.settings import SinkSettings
from fencepost.spark.sink.steps import BatchStep
from fencepost.spark.sink.stream_commit import commit_batch
from fencepost.wire.records import Record, encode_batch
from fencepost.wire.terms import TopicPartition
from tests import logins
from tests.conftest import unique
from tests.spark.checker import read_committed

TIMEOUT_S = 60.0


class Query:
    """A query whose checkpoint is written by hand: batch N reads ten records of its topic and writes `N`."""

    def __init__(self, bootstrap: str, root: Path, source: str, target: str) -> None:
        self.id = str(uuid.uuid4())
        self.root, self.source, self.target = root, source, target
        self.bootstrap = bootstrap
        self.settings = SinkSettings.of(unique("pipeline"), bootstrap, None, logins.sink(bootstrap))
        (root / "offsets").mkdir(parents=True)
        (root / "metadata").write_text(json.dumps({"id": self.id}))

    def plan(self, batch_id: int) -> None:
        end = {self.source: {"0": 10 * (batch_id + 1)}}
        if batch_id == 0:
            end["@from"] = {self.source: {"0": 0}}  # type: ignore[dict-item]
        (self.root / "offsets" / str(batch_id)).write_text(f"v1\n{{}}\n{json.dumps(end)}")

    def commit(self, batch_id: int) -> None:
        """As a process of its own would."""
        query = find_query(self.id, "run", str(self.root))
        blobs = [SentBlob(TopicPartition(self.target, 0), bytes(encode_batch([Record(None, b"%d" % batch_id, 1)])))]
        with logins.cluster(self.bootstrap) as cluster:
            commit_batch(cluster, self.settings, query, read_batch(query, batch_id), blobs)

    def written(self) -> Counter[str]:
        return Counter(read_committed(self.bootstrap, self.target))


@pytest.fixture
def query(bootstrap: str, tmp_path: Path, topic: Callable[..., str]) -> Query:
    return Query(bootstrap, tmp_path / "checkpoint", topic(1), topic(1))


class Late(threading.Thread):
    """Commits a batch, and waits at a step until it is told to go on."""

    def __init__(self, query: Query, batch_id: int, step: BatchStep) -> None:
        super().__init__(daemon=True)
        self._query, self._batch_id, self._step = query, batch_id, step
        self.is_there, self._go_on = threading.Event(), threading.Event()
        self.error: FencepostError | None = None

    def look(self, here: BatchStep, _batch_id: int) -> None:
        if threading.current_thread() is self and here is self._step:
            self.is_there.set()
            assert self._go_on.wait(TIMEOUT_S)

    def run(self) -> None:
        try:
            self._query.commit(self._batch_id)
        except FencepostError as error:
            self.error = error
        finally:
            self.is_there.set()

    def go_on(self) -> None:
        self._go_on.set()
        self.join(TIMEOUT_S)
        assert not self.is_alive()


@pytest.fixture
def late(query: Query, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int, BatchStep], Late]]:
    started: list[Late] = []

    def start(batch_id: int, step: BatchStep) -> Late:
        started.append(Late(query, batch_id, step))
        monkeypatch.setattr(steps, "hook", started[-1].look)
        started[-1].start()
        assert started[-1].is_there.wait(TIMEOUT_S)
        return started[-1]

    yield start
    for each in started:
        each.go_on()


@pytest.mark.parametrize("step", BatchStep, ids=lambda step: step.name)
def test_a_late_process_with_the_same_batch_adds_nothing(
    query: Query, late: Callable[[int, BatchStep], Late], step: BatchStep
) -> None:
    query.plan(0)
    old = late(0, step)
    query.commit(0)
    assert query.written() == {"0": 1}
    old.go_on()
    if step in (BatchStep.FENCED, BatchStep.COMMITTED):
        assert old.error is None  # it reads the group's offsets only now; or it was done
    else:
        assert isinstance(old.error, Fenced)
    query.plan(1)
    query.commit(1)
    assert query.written() == {"0": 1, "1": 1}


def test_a_process_that_comes_after_the_commit_skips_the_batch(query: Query) -> None:
    query.plan(0)
    for _ in range(3):
        query.commit(0)
    assert query.written() == {"0": 1}


def test_a_process_that_comes_after_a_later_batch_is_refused(query: Query) -> None:
    for batch_id in (0, 1):
        query.plan(batch_id)
        query.commit(batch_id)
    with pytest.raises(BatchRefused, match="is older than batch 1, which the pipeline has committed"):
        query.commit(0)
    assert query.written() == {"0": 1, "1": 1}


# -- the checkpoint ----------------------------------------------------------------------------------------------------


def test_the_checkpoint_of_another_query_does_not_count(query: Query) -> None:
    query.plan(0)
    assert read_batch(find_query(query.id, "run", str(query.root)), 0).has_offsets
    assert not read_batch(find_query(str(uuid.uuid4()), "run", str(query.root)), 0).has_offsets
    assert not read_batch(find_query(query.id, "run", str(query.root / "elsewhere")), 0).has_offsets
    assert not read_batch(find_query(query.id, "run", None), 0).has_offsets


def test_a_checkpoint_that_arrow_can_open_is_read_like_a_local_one(query: Query) -> None:
    from pyarrow.fs import FileSystem

    query.plan(0)
    system, inside = FileSystem.from_uri(query.root.as_uri())
    files = ArrowFiles(system, inside)
    assert files.read("metadata") == json.dumps({"id": query.id})
    assert files.read("offsets/1") is None
    assert (files.has("offsets"), files.has("state")) == (True, False)
    assert (files.names("offsets"), files.names("commits")) == (["0"], [])


def test_a_file_system_that_nobody_here_knows_has_no_checkpoint() -> None:
    assert open_checkpoint("maprfs://cluster/checkpoint") is None
