"""One broker per directory; a restart keeps everything; files that a crash left torn, lost or spoiled are put right."""

import random
import shutil
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from fencepost.client.offsets import LATEST
from fencepost.client.raw import Partition, Session, check, now_ms
from fencepost.errors import ErrorCode
from fencepost.wire.batch import HEADER_BYTES, read_header
from fencepost.wire.records import Record, encode_batch
from fencepost.wire.terms import Isolation
from tests.conftest import wait_until
from tests.faults.conftest import MakeBroker
from tests.faults.observe import settled
from tests.faults.process import BrokerProcess
from tests.faults.raw import CREATE_TOPICS, Kafka
from tests.faults.seeds import chosen_seed, replayable

restarts = pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
DESCRIBE_CONFIGS, TOPIC_RESOURCE = 32, 2


# -- one broker per directory -----------------------------------------------------------------------------------------


def test_a_second_broker_on_the_same_directory_is_refused(make_broker: MakeBroker) -> None:
    first = make_broker().start()
    second = make_broker(directory=first.directory)
    second.launch()
    assert second.wait_until_dead() not in {0, -9, -15}
    assert str(first.directory) in second.log
    assert "another broker" in second.log
    with first.client() as client:
        client.create_topic("still-alive")
        client.write("still-alive", 0, ["a"])
    first.kill()
    second.start()
    with second.client() as client:
        assert client.read("still-alive", 0).values == ["a"]


# -- what a restart keeps ---------------------------------------------------------------------------------------------


def test_a_clean_shutdown_leaves_nothing_to_recover(make_broker: MakeBroker) -> None:
    broker = make_broker().start()
    with broker.client() as client:
        client.create_topic("t", 3)
        for number in range(50):
            client.write("t", number % 3, [f"v:{number}"])
    assert broker.stop() == 0
    assert (broker.directory / ".kafka_cleanshutdown").exists()
    before = {path: path.stat().st_mtime_ns for path in broker.directory.glob("t-*/*")}
    said = len(broker.log)
    broker.start()
    assert not (broker.directory / ".kafka_cleanshutdown").exists()
    assert {path: path.stat().st_mtime_ns for path in broker.directory.glob("t-*/*")} == before
    assert "cut off" not in broker.log[said:]


@restarts
def test_topics_settings_and_ids_survive(make_broker: MakeBroker, kill: bool) -> None:
    broker = make_broker().start()
    with broker.client() as client:
        for number in range(5):
            config = {"retention_ms": str(1000 * number + 86_400_000), "cleanup_policy": "compact"}
            client.create_topic(f"t{number}", number + 1, **config)
        before = client.metadata(None)
        configs = _configs(client, "t3")
    broker.restart(kill=kill)
    with broker.client() as client:
        after = client.metadata(None)
        assert after.cluster_id == before.cluster_id
        assert _shape(after) == _shape(before)
        assert _configs(client, "t3") == configs
        assert configs["retention.ms"] == "86403000"
        answer = client.call(
            CREATE_TOPICS, 5, topics=[{"name": "t3", "num_partitions": 1, "replication_factor": 1}], timeout_ms=5000
        )
        assert answer.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS


def _shape(metadata: object) -> dict[str, tuple[bytes, int]]:
    return {topic.name: (topic.topic_id, len(topic.partitions)) for topic in metadata.topics}  # type: ignore[attr-defined]


def _configs(client: Kafka, topic: str) -> dict[str, str]:
    resource = {"resource_type": TOPIC_RESOURCE, "resource_name": topic, "configuration_keys": None}
    answer = client.call(DESCRIBE_CONFIGS, 4, resources=[resource])
    check(answer.results[0].error_code, "DescribeConfigs")
    return {config.name: config.value for config in answer.results[0].configs}


@restarts
def test_group_offsets_survive(make_broker: MakeBroker, kill: bool) -> None:
    broker = make_broker().start()
    where = ("t", 0)
    with broker.client() as client:
        client.create_topic("t")
        for group in range(20):
            for offset in (1, 2, 10 + group):
                client.commit_offset(f"g{group}", *where, offset)
    broker.restart(kill=kill)
    with broker.client() as client:
        for group in range(20):
            assert client.committed(f"g{group}", [where]) == {where: 10 + group}


@restarts
def test_a_batch_repeated_after_the_restart_is_recognised(make_broker: MakeBroker, kill: bool) -> None:
    broker = make_broker().start()
    with broker.client() as client:
        client.create_topic("t")
        session = client.init_producer()
        sent = []
        for number in range(7):
            batch = session.batch("t", 0, [f"v:{number}", f"w:{number}"])
            sent.append((batch, client.produce("t", 0, batch).base_offset))
    for _ in range(2):
        broker.restart(kill=kill)
        with broker.client() as client:
            for batch, offset in sent[-5:]:
                again = client.produce("t", 0, batch)
                assert (again.error, again.base_offset) == (ErrorCode.NONE, offset)
            gap = session.batch("t", 0, ["gap"], sequence=99)
            assert client.produce("t", 0, gap).error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            assert len(client.read("t", 0).records) == 14
    with broker.client() as client:
        assert client.append(session, "t", 0, ["next"], version=9) == 14
        other = client.init_producer()
        assert other.producer_id != session.producer_id


@restarts
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_an_open_transaction_survives_and_is_ended_by_its_producer(
    make_broker: MakeBroker, kill: bool, commit: bool
) -> None:
    broker = make_broker().start()
    source = ("source", 0)
    with broker.client() as client:
        client.create_topic("t", 2)
        client.create_topic("source")
        session = client.init_producer("tx")
        client.append(session, "t", 0, ["before"])
        assert client.commit_offsets_in_transaction(session, "g", {source: 5}) is ErrorCode.NONE
    broker.restart(kill=kill)
    with broker.client() as client:
        assert client.describe_transaction("tx").transaction_state == "Ongoing"
        assert client.read("t", 0).values == []
        assert client.read("t", 0, Isolation.READ_UNCOMMITTED).values == ["before"]
        assert client.committed("g", [source], require_stable=False) == {source: -1}
        client.append(session, "t", 0, ["after"])
        client.append(session, "t", 1, ["beside"])
        assert client.end(session, commit=commit) is ErrorCode.NONE
        settled(client, [("t", 0), ("t", 1)])
        assert client.read("t", 0).values == (["before", "after"] if commit else [])
        assert client.read("t", 1).values == (["beside"] if commit else [])
        assert client.committed("g", [source]) == {source: 5 if commit else -1}


@restarts
def test_the_timeout_of_an_open_transaction_goes_on(make_broker: MakeBroker, kill: bool) -> None:
    broker = make_broker().start()
    with broker.client() as client:
        client.create_topic("t")
        session = client.init_producer("tx", timeout_ms=1200)
        client.append(session, "t", 0, ["never"])
    broker.restart(kill=kill)
    with broker.client() as client:
        settled(client, [("t", 0)])
        assert client.transactions() == {"tx": "CompleteAbort"}
        assert client.read("t", 0).values == []
        late = client.produce("t", 0, session.batch("t", 0, ["late"]), transactional_id="tx", version=12)
        assert late.error in {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED}


# -- torn, lost and spoiled files -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Template:
    """A data directory as a broker left it, and what its partition holds."""

    directory: Path
    was_killed: bool
    committed: list[str]
    uncommitted: list[str]
    session: Session
    last_batch: bytes
    last_offset: int


WHERE, SOURCE = ("torn", 0), ("source", 0)
SETTINGS = {
    "internal.segment.bytes": "20000",
    "log.index.interval.bytes": "300",
    "log.flush.offset.checkpoint.interval.ms": "100",
}


@pytest.fixture(scope="module", params=["killed", "stopped"])
def template(request: pytest.FixtureRequest, make_module_broker: MakeBroker) -> Template:
    """Several segments, with aborted transactions in each; the last batch is one of an idempotent producer."""
    broker = make_module_broker(SETTINGS).start()
    with broker.client() as client:
        client.create_topic("torn", len(DAMAGES))
        client.create_topic("source")
        session, booked = client.init_producer(), client.init_producer("tx")
        for number in range(60):
            client.append(booked, *WHERE, [f"t:{number}:" + "x" * 600])
            client.append(session, *WHERE, [f"i:{number}:" + "y" * 200, f"j:{number}"], version=9)
            assert client.commit_offsets_in_transaction(booked, "g", {SOURCE: number}) is ErrorCode.NONE
            assert client.end(booked, commit=number % 3 != 0) is ErrorCode.NONE
        batch = session.batch(*WHERE, ["last:1", "last:2"])
        last_offset = client.produce(*WHERE, batch).base_offset
        seen = Template(
            broker.directory,
            request.param == "killed",
            client.read(*WHERE).values,
            client.read(*WHERE, Isolation.READ_UNCOMMITTED).values,
            session,
            bytes(batch),
            last_offset,
        )
    assert len(list((broker.directory / "torn-0").glob("*.log"))) >= 3
    checkpoint = broker.directory / RECOVERY_POINTS
    wait_until(lambda: checkpoint.exists() and "torn 0" in checkpoint.read_text(), "recovery points are written")
    if seen.was_killed:
        broker.kill()
    else:
        broker.stop()
    return seen


def last(directory: Path, suffix: str) -> Path:
    return max(directory.glob(f"*{suffix}"))


def append_to_log(directory: Path, data: bytes) -> None:
    with last(directory, ".log").open("ab") as file:
        file.write(data)


def cut_last_batch(directory: Path) -> None:
    path = last(directory, ".log")
    data = path.read_bytes()
    position = previous = 0
    while position + HEADER_BYTES <= len(data):
        previous, position = position, position + read_header(data, position).size
    path.write_bytes(data[: previous + (position - previous) // 2])


def stray_batch() -> bytes:
    """A sound batch with an offset that is not the next one."""
    batch = encode_batch([Record(None, b"stray", now_ms())])
    struct.pack_into(">q", batch, 0, 10**9)
    return bytes(batch)


def spoil(pattern: str, data: Callable[[bytes], bytes | None]) -> Callable[[Path], None]:
    """Replace files' content, or remove them."""

    def damage(directory: Path) -> None:
        found = sorted(directory.glob(pattern))
        assert found, pattern
        for path in found:
            content = data(path.read_bytes())
            if content is None:
                path.unlink()
            else:
                path.write_bytes(content)

    return damage


def rubbish(old: bytes) -> bytes:
    return random.Random(3).randbytes(max(len(old), 64) + 5)


def nothing(old: bytes) -> bytes:
    return b""


def gone(old: bytes) -> None:
    return None


def half(old: bytes) -> bytes:
    return old[: len(old) // 2 + 1]


def strangers(directory: Path) -> None:
    (directory.parent / "lost+found").mkdir()
    (directory.parent / "README").write_text("what is this doing here")
    (directory.parent / "no-such-topic-0").mkdir()
    (directory / "core.1234").write_bytes(b"\0" * 100)
    (directory / "00000000000000000000.log.deleted").write_bytes(b"old")
    (directory / "00000000000000000007.snapshot.tmp").write_bytes(b"half")
    (directory / "00000000000000000000.log.cleaned").write_bytes(b"half")


#: Damages that a broker has to notice even after a clean shutdown. Each gets a partition of its own.
AT_ANY_TIME: dict[str, Callable[[Path], None]] = {
    "nothing": lambda d: None,
    "no .index": spoil("*.index", gone),
    "no .timeindex": spoil("*.timeindex", gone),
    "no .snapshot": spoil("*.snapshot", gone),
    "empty .index": spoil("*.index", nothing),
    "empty .timeindex": spoil("*.timeindex", nothing),
    "empty .snapshot": spoil("*.snapshot", nothing),
    "no leader epochs": spoil("leader-epoch-checkpoint", gone),
    "rubbish in the leader epochs": spoil("leader-epoch-checkpoint", rubbish),
    "empty leader epochs": spoil("leader-epoch-checkpoint", nothing),
}
#: Damages after a kill, when recovery reads what is there.
AFTER_A_KILL: dict[str, Callable[[Path], None]] = {
    "rubbish after the end": lambda d: append_to_log(d, random.Random(1).randbytes(1000)),
    "zeros after the end": lambda d: append_to_log(d, bytes(4096)),
    "one byte after the end": lambda d: append_to_log(d, b"\0"),
    "half a batch after the end": lambda d: append_to_log(d, stray_batch()[:40]),
    "a batch with a wrong CRC after the end": lambda d: append_to_log(d, stray_batch()[:-1] + b"!"),
    "rubbish in every .index": spoil("*.index", rubbish),
    "rubbish in every .timeindex": spoil("*.timeindex", rubbish),
    "rubbish in the last .txnindex": lambda d: last(d, ".txnindex").write_bytes(b"\7" * 51),
    "no .txnindex of the last segment": lambda d: last(d, ".txnindex").unlink(),
    "rubbish in every .snapshot": spoil("*.snapshot", rubbish),
    "halves of every .snapshot": spoil("*.snapshot", half),
    "strangers": strangers,
}
CUT = "the last batch is cut in the middle"
DAMAGES = {**AT_ANY_TIME, CUT: cut_last_batch, **AFTER_A_KILL}
RECOVERY_POINTS = "recovery-point-offset-checkpoint"


@pytest.fixture(scope="module")
def wreck(
    make_module_broker: MakeBroker, template: Template, tmp_path_factory: pytest.TempPathFactory
) -> BrokerProcess:
    """The template with every damage, each done to a copy of its partition, and a broker that had to start on it."""
    directory = tmp_path_factory.mktemp("wreck") / "data"
    shutil.copytree(template.directory, directory)
    for number in range(1, len(DAMAGES)):
        shutil.copytree(template.directory / "torn-0", directory / f"torn-{number}", dirs_exist_ok=True)
    for number, (kind, damage) in enumerate(DAMAGES.items()):
        if template.was_killed or kind not in AFTER_A_KILL:
            damage(directory / f"torn-{number}")
    _repeat_recovery_point(directory / RECOVERY_POINTS)
    return make_module_broker(SETTINGS, directory=directory).start()


def _repeat_recovery_point(path: Path) -> None:
    """What is said of the partition is true of its copies."""
    version, _, *lines = path.read_text().splitlines()
    point = next(line.split()[2] for line in lines if line.startswith("torn 0 "))
    kept = [line for line in lines if not line.startswith("torn ")]
    kept += [f"torn {number} {point}" for number in range(len(DAMAGES))]
    path.write_text("\n".join([version, str(len(kept)), *kept, ""]))


@pytest.mark.parametrize("kind", [kind for kind in DAMAGES if kind != CUT])
def test_damaged_files_cost_no_whole_batch(wreck: BrokerProcess, template: Template, kind: str) -> None:
    """After a clean shutdown files are trusted as long as they look right, so then only some are damaged at all."""
    with wreck.client() as client:
        check_all_there(client, template, ("torn", list(DAMAGES).index(kind)))


def test_a_batch_cut_in_the_middle_is_dropped_and_nothing_else(wreck: BrokerProcess, template: Template) -> None:
    where = ("torn", list(DAMAGES).index(CUT))
    with wreck.client() as client:
        assert client.read(*where).values == template.committed[:-2]
        again = client.produce(*where, template.last_batch)
        assert (again.error, again.base_offset) == (ErrorCode.NONE, template.last_offset)
        check_it_goes_on(client, template, where)


def check_all_there(client: Kafka, template: Template, where: Partition) -> None:
    settled(client, [where])
    assert client.read(*where).values == template.committed
    assert client.read(*where, Isolation.READ_UNCOMMITTED).values == template.uncommitted
    assert client.offset(*where, LATEST, Isolation.READ_COMMITTED) == template.last_offset + 2
    repeated = client.produce(*where, template.last_batch)
    assert (repeated.error, repeated.base_offset) == (ErrorCode.NONE, template.last_offset)
    check_it_goes_on(client, template, where)


def check_it_goes_on(client: Kafka, template: Template, where: Partition) -> None:
    """Into the next segment, with both kinds of producer."""
    session = Session(template.session.producer_id, template.session.epoch)
    session.sequences[where] = template.session.sequences[WHERE]
    client.append(session, *where, ["more:1"], version=9)
    booked = client.init_producer("tx")
    for number in range(6):
        client.append(booked, *where, [f"u:{number}:" + "z" * 4000])
        assert client.end(booked, commit=number % 2 == 0) is ErrorCode.NONE
    assert client.read(*where).values[-4:] == ["more:1", *(f"u:{n}:" + "z" * 4000 for n in range(0, 6, 2))]


@pytest.mark.parametrize("content", [gone, nothing, rubbish], ids=lambda content: content.__name__)
def test_checkpoints_are_only_hints(
    make_broker: MakeBroker, template: Template, tmp_path: Path, content: Callable[[bytes], bytes | None]
) -> None:
    directory = tmp_path / "copy"
    shutil.copytree(template.directory, directory)
    spoil("*-checkpoint", content)(directory)
    broker = make_broker(SETTINGS, directory=directory).start()
    with broker.client() as client:
        check_all_there(client, template, WHERE)
        assert client.committed("g", [SOURCE]) == {SOURCE: 59}


def test_torn_coordinator_logs_are_put_right(make_broker: MakeBroker, template: Template, tmp_path: Path) -> None:
    directory = tmp_path / "copy"
    shutil.copytree(template.directory, directory)
    (directory / ".kafka_cleanshutdown").unlink(missing_ok=True)
    for topic in ("__transaction_state", "__consumer_offsets"):
        for partition in directory.glob(f"{topic}-*"):
            append_to_log(partition, random.Random(2).randbytes(300))
    broker = make_broker(SETTINGS, directory=directory).start()
    with broker.client() as client:
        check_all_there(client, template, WHERE)
        assert client.committed("g", [SOURCE]) == {SOURCE: 59}


def test_a_broker_killed_while_it_starts_starts_the_next_time(make_broker: MakeBroker) -> None:
    broker = make_broker(SETTINGS).start()
    with broker.client() as client:
        client.create_topic("orders")
        session = client.init_producer("t")
        for number in range(200):
            client.append(session, "orders", 0, [f"{number}:" + "x" * 500])
            client.end(session, commit=number % 4 != 0)
        expected = client.read("orders", 0).values
    with replayable(chosen_seed()) as rng:
        for _ in range(6):
            broker.kill()
            broker.launch()
            time.sleep(rng.uniform(0, 0.4))
        broker.kill()
        broker.start()
        with broker.client() as client:
            assert client.read("orders", 0).values == expected
