"""`fencepost dead-letters`: what it shows, and what it writes again, seen by another client."""

import itertools
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from fencepost.child import environment
from fencepost.client.cluster import Cluster
from fencepost.client.transaction import SharedTransaction
from fencepost.dead_letters import replay as replaying
from fencepost.dead_letters import replayed
from fencepost.errors import ConfigError, Fenced
from tests.conftest import MakeTopic
from tests.dead_letters.support import Desk
from tests.spark.source.support import create_again


class Died(BaseException):
    """Nothing catches it: what was open stays open."""


def test_letters_are_counted_by_reason_topic_and_pipeline(desk: Desk) -> None:
    assert desk.said("ls") == "no dead letters\n"
    for number in range(3):
        desk.post("k", str(number), "too-large", at=number % 2)
    desk.post("k", "v", "no-topic", topic=None)
    desk.post(None, "somebody else's", None, topic=None, pipeline=None)
    found = desk.objects("ls")
    assert [(each["count"], each["reason"], each["topic"], each["pipeline"]) for each in found] == [
        (3, "too-large", desk.target, "shop"),
        (1, None, None, None),
        (1, "no-topic", None, "shop"),
    ]
    first, last = (datetime.fromisoformat(found[0][name]) for name in ("first", "last"))
    assert first <= last <= datetime.now(UTC)
    lines = desk.said("ls", "--where", "reason=too-large").splitlines()
    assert lines[0].split() == ["COUNT", "REASON", "TOPIC", "PIPELINE", "FIRST", "LAST"]
    assert lines[1].split()[:4] == ["3", "too-large", desk.target, "shop"]
    assert len(lines) == 2


def test_a_letter_is_shown_with_all_that_it_says(desk: Desk) -> None:
    own = {"trace": b"abc", "raw": b"\xff", "none": None}
    more = {"source_topic": "orders", "source_partition": 2, "source_offset": 77, "batch": 5, "partition": 9}
    desk.post("ada\n", b'{"n": 1}' * 100, "too-large", own=own, **more, **{"value.size": 5000})
    desk.post(None, None, at=1)
    (shown,) = desk.objects("show", "--partition", 0, "--offset", 0)
    assert shown["record.key"] == "ada\n"
    assert shown["record.value"] == '{"n": 1}' * 100
    assert shown["record.headers"] == [
        {"key": "trace", "value": "abc"},
        {"key": "raw", "value.base64": "/w=="},
        {"key": "none", "value": None},
    ]
    assert (shown["error"], shown["error.reason"]) == ("wrong: too-large", "too-large")
    assert (shown["source.offset"], shown["batch"], shown["value.size"]) == (77, 5, 5000)
    text = desk.said("show", "--partition", 0, "--offset", 0)
    for part in (
        f"{desk.dead}-0 offset 0, ",
        "  too-large: wrong: too-large",
        f"  for      {desk.target}, partition 9",
        "  from     orders-2 offset 77",
        "  by       pipeline shop, batch 5",
        "  key      'ada\\n'",
        "… (800 bytes) (cut: it had 5000 bytes)",
        "  header   raw: b'\\xff'",
    ):
        assert part in text
    assert "800 bytes" not in desk.said("show", "--partition", 0, "--offset", 0, "--full")
    assert "  key      null\n  value    null\n" in desk.said("show", "--last", 1)
    done = desk.run("show", "--partition", 0, "--offset", 3)
    assert done.exit_code == 1
    assert "has no letter at offset 3; it holds offsets 0 to 0" in done.output


def test_the_last_letters_are_the_newest_of_all_partitions(desk: Desk) -> None:
    now_ms = time.time_ns() // 1_000_000
    for number in range(12):
        desk.post("k", str(number), at=number % 2, time_ms=now_ms + number)
    assert [shown["record.value"] for shown in desk.objects("show", "--last", 3)] == ["9", "10", "11"]
    assert [shown["record.value"] for shown in desk.objects("show", "--last", 2, "--partition", 0)] == ["8", "10"]
    assert len(desk.objects("show")) == 10


def test_letters_become_the_records_that_they_were_once(desk: Desk) -> None:
    own = {"trace": b"abc", "none": None}
    for number in range(20):
        desk.post(f"key-{number}", str(number), at=number % 2, own=own, timestamp=1_700_000_000_000 + number)
    desk.post(None, None, at=1, partition=1)
    assert desk.said("replay", "--dry-run") == f"21 would be written to {desk.target}\n"
    assert desk.written() == []
    assert desk.said("replay") == f"21 written to {desk.target}\n"
    found = desk.written()
    assert Counter(message.value() for message in found) == Counter([b"%d" % n for n in range(20)] + [None])
    assert all(message.headers() == [*own.items()] for message in found if message.value())
    assert all(
        message.timestamp()[1] == 1_700_000_000_000 + int(message.value()) for message in found if message.value()
    )
    assert [message.partition() for message in found if message.key() is None] == [1]
    again = desk.said("replay").splitlines()
    assert again == ["nothing was written", "21 were replayed before; --again writes them once more"]
    assert len(desk.written()) == 21
    desk.post("new", "new")
    assert desk.objects("replay") == [{"written": {desk.target: 1}, "replayedBefore": 21, "left": {}}]
    assert desk.objects("replay", "--again")[0]["written"] == {desk.target: 22}


def test_only_what_is_asked_for_is_replayed_and_the_rest_later(desk: Desk, topic: MakeTopic) -> None:
    other = topic(1)
    for number in range(6):
        desk.post("k", str(number), ("query", "too-large")[number % 2], source_topic="orders")
    assert desk.said("replay", "--where", "reason=query", "--to", other) == f"3 written to {other}\n"
    assert desk.values(other) == ["0", "2", "4"]
    assert desk.objects("replay", "--where", "source=elsewhere")[0]["written"] == {}
    assert desk.objects("replay")[0] == {"written": {desk.target: 3}, "replayedBefore": 3, "left": {}}
    assert desk.values() == ["1", "3", "5"]


def test_what_cannot_be_written_again_is_left_and_told(desk: Desk, topic: MakeTopic) -> None:
    small, compacted = topic(1, config={"max.message.bytes": 500}), topic(1, config={"cleanup.policy": "compact"})
    desk.post("good", "good")
    desk.post("cut", "cu", **{"value.size": 3})
    desk.post("none", "x", topic=None)
    desk.post("gone", "x", topic="not-there")
    desk.post("partition", "x", partition=0)
    desk.post("no such partition", "x", "unknown-partition", partition=9)
    desk.post("beyond", "x", "unknown-partition", own={}, timestamp=4_000_000_000_000)
    desk.post("large", bytes(range(256)) * 20, topic=small)
    desk.post("fits", "x" * 5000, topic=small)  # compressed
    desk.post(None, "x", topic=compacted)
    desk.post("not ours", "x", None)
    left = {"cut": 1, "no-topic": 1, "unknown-topic": 1, "timestamp": 1, "no-key": 1, "not-ours": 1}
    left["unknown-partition"] = 1
    (found,) = desk.objects("replay", code=4)
    assert found["written"][desk.target] == 2
    assert found["written"][small] >= 1
    assert {name: found["left"][name] for name in left} == left
    text = desk.said("replay", code=4)
    assert "1 cannot be written again: only a part of the record was kept" in text
    (to_other,) = desk.objects("replay", "--to", desk.target, code=4)
    assert to_other["left"] == {"cut": 1, "timestamp": 1, "not-ours": 1}
    assert b"x" * 5000 in [message.value() for message in desk.written(small)]


@pytest.fixture
def in_small_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replaying, "LETTERS_MAX", 3)


@pytest.fixture
def many(desk: Desk, in_small_transactions: None) -> Desk:
    for number in range(10):
        desk.post(f"key-{number}", str(number), at=number % 2)
    return desk


@pytest.mark.parametrize("moment", ["before the commit", "after the commit", "before anything is written"])
@pytest.mark.parametrize("passes", [0, 2])
def test_a_replay_that_dies_is_continued_and_nothing_is_written_twice(
    many: Desk, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, moment: str, passes: int
) -> None:
    left = itertools.count(passes, -1)
    commit, begin = SharedTransaction.commit, SharedTransaction.begin

    def dying_commit(self: SharedTransaction, *more: float) -> None:
        is_last = next(left) == 0
        if is_last and moment == "before the commit":
            raise Died
        commit(self, *more)
        if is_last and moment == "after the commit":
            raise Died

    def dying_begin(self: SharedTransaction) -> object:
        if moment == "before anything is written" and next(left) == 0:
            raise Died
        return begin(self)

    with monkeypatch.context() as patched:
        patched.setattr(SharedTransaction, "begin" if "anything" in moment else "commit",
                        dying_begin if "anything" in moment else dying_commit)  # fmt: skip
        with pytest.raises(Died):
            replaying.replay(cluster, replaying.Order(many.dead))
    done = passes + (moment == "after the commit")
    found = replaying.replay(cluster, replaying.Order(many.dead))
    assert found.before == 3 * done
    assert found.written == {many.target: 10 - 3 * done}
    assert many.values() == sorted(map(str, range(10)))


def test_an_older_replay_of_the_same_topic_is_stopped(many: Desk, cluster: Cluster) -> None:
    def meanwhile(_outcome: replaying.Outcome) -> None:
        many.said("replay")

    with pytest.raises(Fenced, match=r"another replay of topic .* has taken over"):
        replaying.replay(cluster, replaying.Order(many.dead), committed=meanwhile)
    assert many.values() == sorted(map(str, range(10)))


def test_letters_of_a_topic_that_was_created_again_are_new(desk: Desk, cluster: Cluster) -> None:
    desk.post("k", "old")
    desk.said("replay")
    create_again(desk.bootstrap, desk.dead, 2)
    desk.post("k", "new")
    assert desk.objects("replay")[0]["written"] == {desk.target: 1}
    assert desk.values() == ["new", "old"]


def test_wrong_words_are_refused(desk: Desk, cluster: Cluster) -> None:
    done = desk.run("ls", "--where", "reason")
    assert done.exit_code == 2
    assert "selected by reason, topic, pipeline, batch, source" in done.output
    assert "--offset needs --partition" in desk.run("show", "--offset", 3).output
    assert "are in that topic" in desk.run("replay", "--to", desk.dead).output
    with pytest.raises(ConfigError):
        replaying.replay(cluster, replaying.Order(desk.dead, to=desk.dead))
    missing = Desk(desk.bootstrap, "not-there", desk.target)
    for verb in ("ls", "show", "replay"):
        done = missing.run(verb)
        assert done.exit_code == 1
        assert "topic 'not-there' does not exist" in done.output


WITHOUT_EXTRAS = """
import sys
for name in ("numpy", "pyarrow", "numba", "pyspark", "pandas"):
    sys.modules[name] = None  # cannot be imported
from fencepost.cli.main import main
main(sys.argv[1:])
"""


def test_the_base_install_is_enough(desk: Desk) -> None:
    desk.post("k", "v")
    for verb, said in (("ls", "query"), ("show", "'v'"), ("replay", "1 written")):
        words = [sys.executable, "-c", WITHOUT_EXTRAS, *desk.words(verb)]
        done = subprocess.run(words, capture_output=True, text=True, env=environment(), check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        assert said in done.stdout
    assert desk.values() == ["v"]


def offsets(found: replayed.Replayed, partition: int) -> Iterator[int]:
    for (index, _), numbers in sorted(found._offsets.items()):
        if index == partition:
            yield from sorted(numbers)


def test_what_was_replayed_is_read_again_as_it_was_noted(
    desk: Desk, cluster: Cluster, in_small_transactions: None
) -> None:
    for number in range(9):
        desk.post("k", str(number), ("query", "too-large")[number % 3 == 0])
    desk.said("replay", "--where", "reason=query")
    assert list(offsets(replayed.read(cluster, desk.dead), 0)) == [1, 2, 4, 5, 7, 8]
