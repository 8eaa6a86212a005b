"""Moving a pipeline: offsets, ledger and state together, after its owner was fenced."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from fencepost.child import environment
from fencepost.client.admin import delete_topics
from fencepost.client.groups import committed_offsets
from fencepost.client.offsets import latest
from fencepost.client.scanning import read_records
from fencepost.client.writing import TransactionWriter
from fencepost.errors import Fenced
from fencepost.operate import rewinding
from fencepost.operate.rewinding import in_batches
from fencepost.operate.standing import read
from fencepost.spark import ledger
from fencepost.spark.ledger import InCheckpoint
from fencepost.wire.records import Record, encode_batch
from fencepost.wire.terms import Isolation, TopicPartition
from tests import logins
from tests.operate.conftest import MakePipeline
from tests.operate.pipelines import ByHand, asked, run


def positions(shop: ByHand) -> dict[int, int]:
    """By the group, which a ledger entry of the same transaction must confirm."""
    group = {w.partition: each.offset for w, each in committed_offsets(shop.cluster, shop.name, None).items()}
    entry = ledger.read_entry(shop.cluster, shop.name)
    assert entry is not None
    assert {where.partition: offset for where, offset in entry.offsets.items()} == group
    return group


def records_of(shop: ByHand) -> list[Record]:
    """Of the changelog. Kafka answers a commit before its markers are everywhere, so this waits for them."""
    where = TopicPartition(shop.changelog, 0)
    end = latest(shop.cluster, [where], Isolation.READ_UNCOMMITTED)[where]
    return list(read_records(shop.cluster, where, 0, end))


def state(shop: ByHand) -> dict[str, str]:
    """As a reader of the changelog has it."""
    found: dict[str, str] = {}
    for record in records_of(shop):
        key = (record.key or b"").decode()
        if record.value is None:
            found.pop(key, None)
        else:
            found[key] = record.value.decode()
    return found


def three_batches(pipeline: MakePipeline) -> ByHand:
    """Of a pipeline that counts the letters of its input."""
    shop = pipeline(stateful=True)
    for letter, changes in (("a", {"a": "1"}), ("b", {"b": "1"}), ("a", {"a": "2", "c": "1", "b": None})):
        shop.fill(letter)
        shop.batch(changes)
    return shop


def test_a_reset_moves_group_and_ledger_and_says_what_is_read_again(pipeline: MakePipeline, bootstrap: str):
    shop = pipeline(partitions=2)
    shop.fill("a", "b", "c")
    shop.fill_in_transaction("d", "e", commit=False)
    shop.fill("f", partition=1)
    shop.batch()
    shop.fill("g", partition=1)
    planned = asked(bootstrap, "reset", shop.name, "--to", "earliest", "--dry-run")
    assert not planned["done"]
    assert positions(shop) == {0: 6, 1: 1}, "nothing was changed"
    done = asked(bootstrap, "reset", shop.name, "--to", "earliest", "--force")
    assert done["moves"] == planned["moves"]
    assert [(move["records"], move["effect"], move["exact"]) for move in done["moves"]] == [
        (3, "again", True),
        (1, "again", True),
    ]
    assert positions(shop) == {0: 0, 1: 0}
    assert asked(bootstrap, "lag", shop.name)["records"] == 5
    described = asked(bootstrap, "describe", shop.name)
    assert described["last"]["reset"] == {"query": shop.query_id, "batch": 0, "to": "earliest"}
    assert described["activity"] == "quiet", "a reset is no sign of life"
    text = run(bootstrap, "reset", shop.name, "--to", "latest").output
    assert "EMPTY checkpoint directory" in text
    assert f'.option("pipeline", "{shop.name}")' in text
    assert positions(shop) == {0: 6, 1: 2}


def test_a_live_pipeline_is_not_reset_unless_forced_and_then_it_is_fenced(pipeline: MakePipeline, bootstrap: str):
    shop = pipeline()
    shop.fill("a")
    shop.batch()
    refused = run(bootstrap, "reset", shop.name, "--to", "earliest")
    assert refused.exit_code == 1
    assert "seems to run: probably: its last sign of life is" in refused.stderr
    shop.fill("b")
    shop.open_batch()
    refused = run(bootstrap, "reset", shop.name, "--to", "earliest")
    assert refused.exit_code == 1
    assert "a transaction is open for" in refused.stderr
    assert run(bootstrap, "reset", shop.name, "--to", "earliest", "--force").exit_code == 0
    with pytest.raises(Fenced):
        shop.transaction.commit()
    assert positions(shop) == {0: 0}


def test_a_reset_goes_to_a_time_to_offsets_and_to_a_batch(pipeline: MakePipeline, bootstrap: str, tmp_path: Path):
    shop = pipeline(partitions=2)
    now_ms = int(time.time() * 1000)
    shop.fill("old", time_ms=now_ms - 3 * 86_400_000)
    shop.fill("new", time_ms=now_ms - 3_600_000)
    shop.fill("other", partition=1, time_ms=now_ms - 3 * 86_400_000)
    shop.batch()
    shop.fill("c")
    shop.batch()
    assert run(bootstrap, "reset", shop.name, "--to", "1d", "--force").exit_code == 0
    assert positions(shop) == {0: 1, 1: 1}
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps({shop.topic: {"0": 2}}))
    assert run(bootstrap, "reset", shop.name, "--to", file, "--force").exit_code == 0
    assert positions(shop) == {0: 2, 1: 1}
    assert run(bootstrap, "reset", shop.name, "--to", json.dumps({shop.topic: {"1": -2}}), "--force").exit_code == 0
    assert positions(shop) == {0: 2, 1: 0}
    assert run(bootstrap, "reset", shop.name, "--to", "batch:1", "--force").exit_code == 0
    assert positions(shop) == {0: 3, 1: 1}
    assert run(bootstrap, "reset", shop.name, "--to", "2000-01-01T00:00", "--force").exit_code == 0
    assert positions(shop) == {0: 0, 1: 0}


@pytest.mark.parametrize(
    ("to", "exit_code", "text"),
    [
        ("yesterday", 2, "--to takes earliest, latest"),
        ('{"TOPIC": {"0": 99}}', 1, "has committed records from offset 0 to 1"),
        ('{"TOPIC": {"7": 0}}', 1, "is not a partition that the pipeline reads"),
        ('{"unknown": {"0": 0}}', 1, "is not a partition that the pipeline reads"),
        ('{"TOPIC": {"0": -3}}', 2, "-2 for earliest"),
        ("batch:9", 1, "has no batch 9"),
    ],
)
def test_a_target_that_cannot_be_is_refused_before_the_pipeline_is_fenced(
    pipeline: MakePipeline, bootstrap: str, to: str, exit_code: int, text: str
):
    shop = pipeline()
    shop.fill("a")
    shop.batch()
    done = run(bootstrap, "reset", shop.name, "--force", "--to", to.replace("TOPIC", shop.topic))
    assert done.exit_code == exit_code
    assert text in done.output
    shop.fill("b")
    shop.batch()  # it still has its id


# -- state -----------------------------------------------------------------------------------------------------------


def test_state_is_not_left_behind_by_a_rewind(pipeline: MakePipeline, bootstrap: str):
    shop = three_batches(pipeline)
    for more in ([], ["--state", "keep"]):
        refused = run(bootstrap, "reset", shop.name, "--to", "earliest", "--force", *more)
        assert refused.exit_code == 1
        assert "Nothing was changed" in refused.stderr
    shop.fill("still alive")
    shop.batch()


def test_state_is_kept_by_a_reset_that_only_skips_records(pipeline: MakePipeline, bootstrap: str):
    shop = three_batches(pipeline)
    shop.fill("poison", "d")
    done = asked(bootstrap, "reset", shop.name, "--to", json.dumps({shop.topic: {"0": 4}}), "--force")
    assert (done["state"], done["keys_changed"], done["moves"][0]["effect"]) == ("keep", 0, "skipped")
    assert state(shop) == {"a": "2", "c": "1"}
    assert positions(shop) == {0: 4}


def test_dropped_state_is_empty_in_the_same_transaction(pipeline: MakePipeline, bootstrap: str):
    shop = three_batches(pipeline)
    done = asked(bootstrap, "reset", shop.name, "--to", "earliest", "--state", "drop", "--force")
    assert done["keys_changed"] == 2
    assert state(shop) == {}
    assert positions(shop) == {0: 0}
    entry = ledger.read_entry(shop.cluster, shop.name)
    assert entry is not None
    assert entry.changelogs["totals"].reset_id == entry.query_id, "caches from before are not used any more"
    assert entry.changelogs["totals"].topic == shop.changelogs["totals"].topic


@pytest.mark.parametrize(("batch_id", "then"), [(0, {"a": "1"}), (1, {"a": "1", "b": "1"}), (2, {"a": "2", "c": "1"})])
def test_restored_state_is_that_of_the_batch(
    pipeline: MakePipeline, bootstrap: str, batch_id: int, then: dict[str, str]
):
    shop = three_batches(pipeline)
    done = asked(bootstrap, "reset", shop.name, "--to", f"batch:{batch_id}", "--state", "restore", "--force")
    assert done["restored"]["batch"] == batch_id
    assert state(shop) == then
    assert positions(shop) == {0: batch_id + 1}


def test_state_can_be_restored_after_it_was_dropped(pipeline: MakePipeline, bootstrap: str):
    shop = three_batches(pipeline)
    run(bootstrap, "reset", shop.name, "--to", "batch:0", "--state", "drop", "--force")
    assert state(shop) == {}
    run(bootstrap, "reset", shop.name, "--to", "batch:2", "--state", "restore", "--force")
    assert state(shop) == {"a": "2", "c": "1"}


def test_state_is_restored_by_offsets_only_where_a_batch_ended(pipeline: MakePipeline, bootstrap: str):
    shop = three_batches(pipeline)
    two = json.dumps({shop.topic: {"0": 2}})
    assert run(bootstrap, "reset", shop.name, "--to", two, "--state", "restore", "--force").exit_code == 0
    assert state(shop) == {"a": "1", "b": "1"}
    refused = run(bootstrap, "reset", shop.name, "--to", "earliest", "--state", "restore", "--force")
    assert refused.exit_code == 1
    assert "It has batches 0, 1, 2: use --to batch:N" in refused.stderr


def compact(shop: ByHand) -> None:
    """Give the changelog new segments until the cleaner has removed something."""
    admin = AdminClient(logins.confluent(shop.bootstrap))
    settings = {"segment.ms": "100", "min.cleanable.dirty.ratio": "0.0", "max.compaction.lag.ms": "100"}
    entries = [ConfigEntry(k, v, incremental_operation=AlterConfigOpType.SET) for k, v in settings.items()]
    wanted = ConfigResource(ConfigResource.Type.TOPIC, shop.changelog, incremental_configs=entries)
    for future in admin.incremental_alter_configs([wanted]).values():
        future.result(30)


def offsets_in(shop: ByHand) -> list[int]:
    return [record.offset for record in records_of(shop)]


def test_state_that_compaction_may_have_lost_is_not_restored(pipeline: MakePipeline, bootstrap: str):
    shop = three_batches(pipeline)
    before = offsets_in(shop)
    compact(shop)
    deadline_s = time.monotonic() + 60
    number = 0
    while before[0] in offsets_in(shop):  # the first value of "a"
        assert time.monotonic() < deadline_s, "nothing was compacted"
        number += 1
        shop.fill("x")
        shop.batch({f"x{number}": "1"})
    refused = run(bootstrap, "reset", shop.name, "--to", "batch:0", "--state", "restore", "--force")
    assert refused.exit_code == 1, refused.output
    assert "was compacted" in refused.stderr
    assert run(bootstrap, "reset", shop.name, "--to", "earliest", "--state", "drop", "--force").exit_code == 0
    assert state(shop) == {}


def test_state_whose_topic_is_gone_can_be_dropped(pipeline: MakePipeline, bootstrap: str):
    shop = three_batches(pipeline)
    delete_topics(shop.cluster, [shop.changelog])
    refused = run(bootstrap, "reset", shop.name, "--to", "batch:1", "--state", "restore", "--force")
    assert "is gone or changed" in refused.stderr
    assert run(bootstrap, "reset", shop.name, "--to", "earliest", "--state", "drop", "--force").exit_code == 0
    entry = ledger.read_entry(shop.cluster, shop.name)
    assert entry is not None
    assert entry.changelogs == {}


def test_a_large_state_is_dropped_in_many_batches(pipeline: MakePipeline, bootstrap: str):
    shop = pipeline(stateful=True)
    shop.fill("a")
    keys = {f"customer {number}": "1" for number in range(50_000)}
    records = {key.encode(): value.encode() for key, value in keys.items()}
    shop.open_batch()
    with TransactionWriter(shop.cluster, shop.transaction.identity) as writer:
        for group in in_batches(records, 1):
            writer.write(TopicPartition(shop.changelog, 0), encode_batch(group))
    shop.transaction.commit()
    assert len(state(shop)) == 50_000
    done = asked(bootstrap, "reset", shop.name, "--to", "earliest", "--state", "drop", "--force")
    assert done["keys_changed"] == 50_000
    assert state(shop) == {}


def test_sparks_own_state_is_pointed_out(pipeline: MakePipeline, bootstrap: str):
    shop = pipeline()
    shop.in_checkpoint = frozenset({InCheckpoint.STATE})
    shop.fill("a")
    shop.batch()
    text = run(bootstrap, "reset", shop.name, "--to", "earliest", "--force").output
    assert "failOnStateLoss" in text


# -- deaths ----------------------------------------------------------------------------------------------------------

#: Where the command dies.
DEATHS = {
    "fenced": ("SharedTransaction", "begin"),
    "state is being written": ("TransactionWriter", "flush"),
    "offsets are not in yet": ("SharedTransaction", "add_offsets"),
    "about to commit": ("SharedTransaction", "commit"),
}
DIES = """
import os, signal, sys
from fencepost.client.transaction import SharedTransaction
from fencepost.client.writing import TransactionWriter
from fencepost.cli.main import main
setattr({owner}, {method!r}, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
main()
"""
DIES_AFTER = """
import os, signal
from fencepost.client.transaction import SharedTransaction
from fencepost.cli.main import main
commit = SharedTransaction.commit
SharedTransaction.commit = lambda self: (commit(self), os.kill(os.getpid(), signal.SIGKILL))
main()
"""


def killed(bootstrap: str, script: str, *words: object) -> None:
    security = [word for name, value in logins.java(bootstrap).items() for word in ("-X", f"{name}={value}")]
    command = [sys.executable, "-c", script, "pipeline", *map(str, words), *security]
    done = subprocess.run(command, env={**environment(), **os.environ}, capture_output=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.parametrize("when", DEATHS)
def test_a_reset_that_is_killed_has_changed_nothing_and_can_be_repeated(
    pipeline: MakePipeline, bootstrap: str, when: str
):
    shop = three_batches(pipeline)
    owner, method = DEATHS[when]
    words = ("reset", shop.name, "--to", "earliest", "--state", "drop", "--force")
    killed(bootstrap, DIES.format(owner=owner, method=method), *words)
    shop.start()  # aborts what it left open
    assert positions(shop) == {0: 3}
    assert state(shop) == {"a": "2", "c": "1"}
    assert run(bootstrap, *words).exit_code == 0
    assert (positions(shop), state(shop)) == ({0: 0}, {})


def test_a_reset_that_is_killed_after_its_commit_is_done(pipeline: MakePipeline, bootstrap: str):
    shop = three_batches(pipeline)
    killed(bootstrap, DIES_AFTER, "reset", shop.name, "--to", "earliest", "--state", "drop", "--force")
    assert (positions(shop), state(shop)) == ({0: 0}, {})


# -- deletion --------------------------------------------------------------------------------------------------------


def test_a_deleted_pipeline_leaves_nothing_but_its_topics(pipeline: MakePipeline, bootstrap: str):
    shop = three_batches(pipeline)
    shown = run(bootstrap, "delete", shop.name)
    assert shown.exit_code == 1
    assert f"would delete changelog {shop.changelog}" in shown.output
    assert "transactional.id.expiration.ms" in shown.output
    refused = run(bootstrap, "delete", shop.name, "--yes")
    assert (refused.exit_code, "seems to run" in refused.stderr) == (1, True)
    assert positions(shop) == {0: 3}
    assert run(bootstrap, "delete", shop.name, "--yes", "--force").exit_code == 0
    assert run(bootstrap, "describe", shop.name).exit_code == 3
    assert shop.name not in run(bootstrap, "ls").output.replace(shop.topic, "")
    assert committed_offsets(shop.cluster, shop.name, None) == {}
    assert ledger.read_entry(shop.cluster, shop.name) is None
    found = shop.cluster.refresh([shop.topic, shop.changelog], missing_ok=True)
    assert set(found) == {shop.topic}
    with pytest.raises(Fenced):
        shop.batch()


def test_a_name_can_be_used_again_after_its_pipeline_was_deleted(pipeline: MakePipeline, bootstrap: str):
    shop = pipeline()
    shop.fill("a")
    shop.batch()
    assert run(bootstrap, "delete", shop.name, "--yes", "--force").exit_code == 0
    shop.start()
    shop.batch_id = -1
    shop.batch()
    assert asked(bootstrap, "describe", shop.name, "--history")["history"][-1]["batch"] == 0


def test_what_is_restored_is_judged_by_gaps(pipeline: MakePipeline):
    """A key that is new since then is known to be new if no offset is missing."""
    shop = three_batches(pipeline)
    history = ledger.read_history(shop.cluster, shop.name)
    later = frozenset((each.producer_id, each.epoch) for each in history[1:])
    found = rewinding.restore(shop.cluster, shop.changelog, Isolation.READ_COMMITTED, later)
    assert found[TopicPartition(shop.changelog, 0)] == {b"a": b"1", b"c": None}
    assert read(shop.cluster, shop.name).positions == {TopicPartition(shop.topic, 0): 3}
