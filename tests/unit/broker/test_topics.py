"""Topics are there after a restart exactly if they were acknowledged, with their records, settings and ids."""

import os
import random
import time
from pathlib import Path

import pytest

from fencepost.broker import topics
from fencepost.broker.data_directory import META, decode_uuid, load_identity
from fencepost.errors import ConfigError, DataDirectoryLocked, ErrorCode, KafkaError, Malformed
from fencepost.log.checkpoint import LOG_STARTS, RECOVERY_POINTS, read_offsets
from tests.fakes.forgetful_disk import ForgetfulDisk, PowerLost
from tests.unit.broker.admin_world import World


def refused(function, *arguments):
    with pytest.raises(KafkaError) as raised:
        function(*arguments)
    return raised.value.code.name, raised.value.message


def test_a_topic_is_found_by_name_and_by_id_after_a_restart(world):
    topic = world.topics.create("shop", 3, {"retention.ms": "5"})
    world.restart()
    assert world.topics.get("shop") == world.topics.by_id(topic.id) == topic
    assert [found.name for found in world.topics.all()] == ["shop"]
    assert world.topics.log("shop", 2) is world.topics.log_by_id(topic.id, 2)
    assert world.topics.log("shop", 2).config.retention_ms == 5


@pytest.mark.parametrize("partition", [-1, 3, 2**31 - 1])
def test_a_partition_that_does_not_exist_has_no_log(world, partition):
    topic = world.topics.create("shop", 3, {})
    assert world.topics.log("shop", partition) is None
    assert world.topics.log_by_id(topic.id, partition) is None
    assert world.topics.log("nothing", 0) is None
    assert world.topics.log_by_id(bytes(16), 0) is None


def test_partitions_get_a_directory_when_they_are_written(world):
    world.topics.ensure_internal("__consumer_offsets")
    world.topics.create("shop", 2, {})
    for partition in range(50):
        assert world.topics.log("__consumer_offsets", partition) is not None
    assert [name for name in os.listdir(world.directory) if "-" in name and not name.startswith(".")] == []
    world.append("shop", 1)
    assert (world.directory / "shop-1" / "partition.metadata").exists()
    assert not (world.directory / "shop-0").exists()


def test_records_are_there_after_a_clean_shutdown_and_after_a_crash(world):
    world.topics.create("shop", 2, {})
    world.append("shop", 1, 5)
    world.restart()
    assert world.topics.log("shop", 1).log_end_offset == 5
    world.append("shop", 1, 2)
    world.crash()
    world.open()
    assert world.topics.log("shop", 1).log_end_offset == 7


def test_a_clean_shutdown_is_marked_and_the_mark_is_used_up(world):
    mark = world.directory / ".kafka_cleanshutdown"
    world.close()
    assert mark.exists()
    world.open()
    assert not mark.exists()


def test_a_deleted_topic_is_gone_with_its_records_and_its_name_is_free(world):
    old = world.topics.create("shop", 1, {})
    world.append("shop", 0, 5)
    deleted = []
    world.topics.on_delete(deleted.append)
    world.topics.delete_all(["shop"])
    assert deleted == [old]
    assert world.topics.get("shop") is world.topics.by_id(old.id) is world.topics.log_by_id(old.id, 0) is None
    assert refused(world.topics.delete_all, ["shop"])[0] == "UNKNOWN_TOPIC_OR_PARTITION"
    new = world.topics.create("shop", 1, {})
    assert new.id != old.id
    assert world.topics.log("shop", 0).log_end_offset == 0
    world.worker.run()
    world.restart()
    assert world.topics.log("shop", 0).log_end_offset == 0
    assert not list(world.directory.glob("*-delete"))


def test_what_a_crash_left_of_a_deleted_topic_is_removed_at_the_next_start(world):
    world.topics.create("shop", 1, {})
    log = world.append("shop", 0, 5)
    log.delete = lambda: None  # the process ends between the catalogue and the directory
    world.topics.delete_all(["shop"])
    assert (world.directory / "shop-0").exists()
    world.crash()
    world.open()
    assert not (world.directory / "shop-0").exists()
    world.topics.create("shop", 1, {})
    assert world.topics.log("shop", 0).log_end_offset == 0


def test_a_directory_that_no_topic_knows_is_put_aside_not_deleted(world):
    topic = world.topics.create("shop", 1, {})
    world.append("shop", 0, 5)
    world.close()
    (world.directory / "catalogue").unlink()
    world.open()
    assert world.topics.all() == []
    assert (world.directory / f"shop-0.{topic.id.hex()}-stray" / "00000000000000000000.log").exists()


def test_other_directories_are_left_alone(world):
    (world.directory / "backup-1").mkdir()
    (world.directory / "notes").mkdir()
    world.restart()
    assert (world.directory / "backup-1").exists()
    assert (world.directory / "notes").exists()


def test_a_topic_of_the_same_name_does_not_inherit_the_offsets_of_its_predecessor(world):
    world.topics.create("shop", 1, {})
    log = world.append("shop", 0, 5)
    log.delete_records(3)
    world.topics.checkpoint()
    assert read_offsets(world.disk, str(world.directory / LOG_STARTS)) == {("shop", 0): 3}
    world.topics.delete_all(["shop"])
    assert read_offsets(world.disk, str(world.directory / LOG_STARTS)) == {}
    world.topics.create("shop", 1, {})
    assert world.topics.log("shop", 0).log_start_offset == 0


def test_a_checkpoint_under_way_does_not_bring_a_deleted_topics_offsets_back(world):
    world.topics.create("shop", 1, {})
    world.append("shop", 0, 5).delete_records(3)
    world.clock.advance(60_000)  # the regular checkpoint is handed to a thread ...
    world.topics.delete_all(["shop"])
    world.worker.run()  # ... which comes to it only now
    assert read_offsets(world.disk, str(world.directory / LOG_STARTS)) == {}


def test_log_starts_and_recovery_points_are_written_regularly(world):
    world.topics.create("shop", 1, {"internal.segment.bytes": "200"})
    world.append("shop", 0, 10).delete_records(3)
    world.clock.advance(60_000)
    world.worker.run()
    assert read_offsets(world.disk, str(world.directory / LOG_STARTS)) == {("shop", 0): 3}
    assert read_offsets(world.disk, str(world.directory / RECOVERY_POINTS))["shop", 0] > 0
    world.crash()
    world.open()
    assert world.topics.log("shop", 0).log_start_offset == 3


def test_a_checkpoint_that_cannot_be_read_only_costs_recovery(world):
    world.topics.create("shop", 1, {})
    world.append("shop", 0, 5)
    world.crash()
    (world.directory / RECOVERY_POINTS).write_text("nonsense")
    world.open()
    assert world.topics.log("shop", 0).log_end_offset == 5


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("a" * 250, "is longer than the max allowed length 249"),
        ("a/b", "contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("ü", "contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("a\n", "contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
    ],
)
def test_illegal_names_are_refused_as_kafka_does(world, name, why):
    code, message = refused(world.topics.create, name, 1, {})
    assert code == "INVALID_TOPIC_EXCEPTION"
    assert message.startswith("Topic name is invalid: ")
    assert message.endswith(why)


def test_the_longest_name_can_be_written_and_deleted(world):
    name = "n" * 249
    world.topics.create(name, 1, {})
    world.append(name)
    world.topics.delete_all([name])
    world.worker.run()
    assert not [entry for entry in os.listdir(world.directory) if entry.startswith("nnn")]


def test_internal_topics_have_what_their_coordinators_rely_on(open_world):
    world = open_world({"offsets.topic.num.partitions": "7", "offsets.topic.segment.bytes": "5000000"})
    offsets = world.topics.ensure_internal("__consumer_offsets")
    assert (offsets.partitions, offsets.internal) == (7, True)
    assert world.topics.ensure_internal("__consumer_offsets") == offsets
    config = world.topics.log("__consumer_offsets", 0).config
    assert (config.compacts, config.deletes, config.segment_bytes) == (True, False, 5_000_000)
    assert world.topics.ensure_internal("__transaction_state").partitions == 50


def test_an_internal_topic_that_a_client_made_is_compacted_as_well(world):
    topic = world.topics.create("__consumer_offsets", 3, {})
    assert (topic.partitions, topic.internal) == (3, True)
    assert world.topics.log("__consumer_offsets", 0).config.compacts


def test_producer_ids_are_never_given_twice(world):
    first = world.topics.reserve_producer_ids(1000)
    world.crash()
    world.open()
    second = world.topics.reserve_producer_ids(1000)
    assert len(first) == len(second) == 1000
    assert not set(first) & set(second)


def test_a_new_data_directory_survives_a_power_loss_with_all_that_is_above_it():
    disk = ForgetfulDisk()
    world = World(Path("/srv/fencepost/data"), disk=disk)
    world.topics.create("t", 1, {})
    disk.lose_power()
    world.open()
    assert world.topics.get("t") is not None


def test_a_second_broker_on_the_same_directory_is_refused(world):
    with pytest.raises(DataDirectoryLocked, match=rf"is in use by another broker \(process {os.getpid()}\)"):
        World(world.directory)
    world.restart()  # the first one was not disturbed


def test_a_start_that_fails_lets_go_of_the_directory(world):
    world.close()
    (world.directory / META).write_text("version=7\n")
    with pytest.raises(Malformed, match="version 7"):
        world.open()
    (world.directory / META).unlink()
    world.open()


def test_meta_properties_are_kafkas(world):
    lines = (world.directory / META).read_text().splitlines()
    fields = dict(line.split("=", 1) for line in lines if "=" in line)
    assert set(fields) == {"version", "cluster.id", "node.id", "directory.id"}
    assert (fields["version"], fields["node.id"]) == ("1", "1")
    assert len(decode_uuid(fields["cluster.id"])) == 16
    assert world.topics.cluster_id == fields["cluster.id"]
    cluster_id = world.topics.cluster_id
    world.restart()
    assert world.topics.cluster_id == cluster_id


def test_the_file_that_kafka_writes_is_read(tmp_path, world):
    text = (
        "#\n#Sun Nov 15 21:33:37 UTC 2026\nnode.id=1\ndirectory.id=r0iYCkI9ztyEH6T3aCPyPg\nversion=1\ncluster.id=abc\n"
    )
    (tmp_path / META).write_text(text)
    assert load_identity(world.disk, str(tmp_path), 1, random.Random(0)).cluster_id == "abc"


def test_a_directory_of_another_node_is_refused(world):
    world.close()
    world.given = {"node.id": "5"}
    with pytest.raises(ConfigError, match=r"belongs to node.id 1, but node.id is 5"):
        world.open()
    world.given = {}
    world.open()


def test_a_disk_that_takes_nothing_refuses_the_topic(tmp_path, open_world):
    disk = ForgetfulDisk(str(tmp_path))
    world = open_world(disk=disk)
    disk.capacity_bytes = disk.used_bytes()
    assert refused(world.topics.create, "shop", 1, {})[0] == ErrorCode.KAFKA_STORAGE_ERROR.name
    assert world.topics.get("shop") is None
    disk.capacity_bytes = None
    assert world.topics.create("shop", 1, {}).name == "shop"


def test_what_a_killed_broker_left_in_the_page_cache_is_synced_before_the_next_one_serves(
    tmp_path, open_world, monkeypatch
):
    monkeypatch.setattr(topics, "SYNC_LOGS", 2)
    disk = ForgetfulDisk(str(tmp_path))
    world = open_world(disk=disk)
    world.topics.create("shop", 5, {})
    for partition in range(5):
        world.append("shop", partition, 3, sync=False)
    world.crash()
    disk.fail_syncs = True
    with pytest.raises(OSError, match="the disk is broken"):
        world.open()
    disk.fail_syncs = False
    world.open()
    world.crash()
    disk.lose_power()
    world.open()
    assert [world.topics.log("shop", partition).log_end_offset for partition in range(5)] == [3] * 5


@pytest.mark.parametrize("seed", range(3))
def test_power_loss_at_any_step_loses_no_acknowledged_topic_and_brings_no_deleted_one_back(tmp_path, seed):
    rng = random.Random(seed)
    for steps in range(0, 90, 3):
        disk = ForgetfulDisk(str(tmp_path))
        disk.die_after(steps)
        there, gone, records = set(), set(), 0
        world = None
        try:
            world = World(tmp_path, disk=disk)
            for name in ("a", "b", "c"):
                world.topics.create(name, 1, {})
                there.add(name)
            records = world.append("a", 0, 2).high_watermark
            there.discard("b")
            world.topics.delete_all(["b"])
            gone.add("b")
        except PowerLost:
            pass
        if world is not None:
            world.crash()
        disk.lose_power(rng)
        world = World(tmp_path, disk=disk)
        assert there <= {topic.name for topic in world.topics.all()} <= {"a", "b", "c"} - gone
        if records:
            assert world.topics.log("a", 0).log_end_offset >= records
        world.crash()


def test_a_thousand_topics_open_quickly(world):
    new = [world.topics.new(f"topic-{number}", 3, {}) for number in range(1000)]
    world.topics.create_all(new)
    started = time.perf_counter()
    world.restart()
    assert time.perf_counter() - started < 5
    assert len(world.topics.all()) == 1000


def test_other_users_of_the_machine_can_read_no_file(world):
    world.topics.create("shop", 1, {})
    world.append("shop")
    world.restart()
    files = [path for path in world.directory.rglob("*") if path.is_file()]
    assert any(path.suffix == ".log" for path in files)
    assert {oct(path.stat().st_mode & 0o777) for path in files} == {"0o600"}
