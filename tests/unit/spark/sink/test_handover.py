"""Parts that encoders hand to the driver: all are written, in order, or the job fails."""

import contextlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.client import Cluster, ProducerIdentity, TransactionProtocol
from fencepost.errors import ErrorCode, Fenced, WriteFailed
from fencepost.spark.sink.handover import Handover, PaceGuess
from fencepost.spark.sink.permits import PermitDesk, ask
from fencepost.spark.sink.spool import Place, Spool, SpoolDirectory, SpoolWriter
from fencepost.spark.sink.stages import ReportKind, WriterReport
from tests.fakes.frames import SILENCE
from tests.unit.client.scripted import TOPIC, ScriptedBroker, settings
from tests.unit.client.test_writing import PRODUCE, WHERE, Leader, blob, refused

IDENTITY = ProducerIdentity("x", 9, 4, TransactionProtocol.V2)


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as made:
        yield made


@pytest.fixture
def leader(broker: ScriptedBroker) -> Leader:
    return Leader(broker)


@pytest.fixture
def cluster(broker: ScriptedBroker, leader: Leader) -> Iterator[Cluster]:
    with Cluster(settings(broker)) as made:
        yield made


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    directory = SpoolDirectory(str(tmp_path))
    with directory.job() as made:
        yield made
    directory.close()


@pytest.fixture
def file(spool: Spool) -> Iterator[SpoolWriter]:
    with contextlib.closing(SpoolWriter(spool, 7)) as made:
        yield made


def part(file: SpoolWriter, *values: bytes) -> Place:
    """A list of record batches with one record each."""
    return file.append(json.dumps([(TOPIC, 0, file.append(blob(value))) for value in values]).encode())


def handed(task: int, parts: int) -> WriterReport:
    return WriterReport(ReportKind.HANDED, records=parts, writer=task)


def test_parts_are_written_in_order_while_the_file_grows(
    cluster: Cluster, leader: Leader, spool: Spool, file: SpoolWriter
) -> None:
    expected = []
    with Handover(cluster, spool) as handover:
        for number in range(30):
            values = [b"%d.%d" % (number, each) for each in range(5)]
            handover.take(IDENTITY, 0, part(file, *values))
            expected += values
        written = handover.finish([handed(0, 30)])
    assert leader.values == expected
    assert written[WHERE].records == 150


def test_tasks_that_hand_over_nothing_write_nothing(broker: ScriptedBroker, cluster: Cluster, spool: Spool) -> None:
    with Handover(cluster, spool) as handover:
        assert handover.finish([handed(0, 0), handed(1, 0)]) == {}
    assert broker.requests(PRODUCE) == []


@pytest.mark.parametrize("reports", [[], [handed(0, 1)], [handed(0, 3)], [handed(1, 2)], [handed(0, 2), handed(1, 1)]])
def test_a_job_that_reports_other_parts_than_came_fails(
    cluster: Cluster, spool: Spool, file: SpoolWriter, reports: list[WriterReport]
) -> None:
    with Handover(cluster, spool) as handover:
        for value in (b"a", b"b"):
            handover.take(IDENTITY, 0, part(file, value))
        with pytest.raises(WriteFailed, match="parts"):
            handover.finish(reports)


def test_an_error_keeps_its_class_and_nothing_more_is_taken(
    broker: ScriptedBroker, cluster: Cluster, spool: Spool, file: SpoolWriter
) -> None:
    broker.queued[PRODUCE] = [refused(ErrorCode.INVALID_PRODUCER_EPOCH)]
    with Handover(cluster, spool) as handover:
        handover.take(IDENTITY, 0, part(file, b"a"))
        with pytest.raises(Fenced):
            handover.finish([handed(0, 1)])
        second = part(file, b"b")
        with pytest.raises(Fenced):
            handover.take(IDENTITY, 0, second)


def test_what_cannot_be_read_fails_the_job(cluster: Cluster, spool: Spool) -> None:
    with Handover(cluster, spool) as handover:
        handover.take(IDENTITY, 0, Place(99, 0, 10))
        with pytest.raises(WriteFailed, match="gone"):
            handover.finish([handed(0, 1)])


def test_a_writer_that_waits_for_a_silent_broker_can_be_cancelled(
    broker: ScriptedBroker, cluster: Cluster, spool: Spool, file: SpoolWriter
) -> None:
    asked = threading.Event()

    def silent(_request: object) -> object:
        asked.set()
        return SILENCE

    broker.answers[PRODUCE] = silent
    with Handover(cluster, spool) as handover:
        handover.take(IDENTITY, 0, part(file, b"a"))
        assert asked.wait(30)
        handover.cancel()
        with pytest.raises(WriteFailed, match="cancelled"):
            handover.finish([handed(0, 1)])


def test_parts_of_a_second_attempt_of_a_task_are_refused(spool: Spool) -> None:
    desk = PermitDesk("127.0.0.1", "127.0.0.1")
    taken: list[tuple[int, Place]] = []
    ticket = desk.open(lambda: IDENTITY, lambda _identity, task, place: taken.append((task, place)))
    ask(ticket, 0, "1.0 (attempt 5)", Place(5, 0, 10))
    ask(ticket, 0, "1.0 (attempt 5)", Place(5, 10, 10))
    with pytest.raises(WriteFailed, match="attempt 5"):
        ask(ticket, 0, "1.0 (attempt 6)", Place(6, 0, 10))
    with pytest.raises(WriteFailed, match="attempt 5"):
        ask(ticket, 0, "1.0 (attempt 5)")  # a permit is given once
    assert desk.close() == 1
    with pytest.raises(WriteFailed, match="is over"):
        ask(ticket, 0, "1.0 (attempt 5)", Place(5, 20, 10))
    desk.shut()
    assert taken == [(0, Place(5, 0, 10)), (0, Place(5, 10, 10))]


def test_the_pace_is_that_of_the_largest_batch() -> None:
    guess = PaceGuess()
    assert guess.seconds(100) is None
    guess.learn(1000, 2.0)
    guess.learn(10, 9.0)  # a pause of the driver's says nothing about large ones
    assert guess.seconds(None) is None
    assert [guess.seconds(records) for records in (10, 1000, 4000)] == [2.0, 2.0, 8.0]
    guess.learn(1000, 1.0)
    assert guess.seconds(1000) == 1.0
