"""kafka-topics, kafka-configs, kafka-get-offsets and kafka-delete-records."""

import json

from tests.compat.tools import Tool


def offsets(tool: Tool, topic: str, *more: str) -> dict[int, int]:
    lines = tool("get-offsets", "--topic", topic, *more).split()
    return {int(partition): int(offset) for _, partition, offset in (line.rsplit(":", 2) for line in lines)}


def test_topics_are_created_listed_described_and_deleted(tool, name):
    assert f"Created topic {name}." in tool(
        "topics", "--create", "--topic", name, "--partitions", "3", "--config", "retention.ms=100000"
    )
    assert name in tool("topics", "--list").split()

    head, *partitions = tool("topics", "--describe", "--topic", name).strip().splitlines()
    assert f"Topic: {name}\t" in head
    assert "PartitionCount: 3\tReplicationFactor: 1" in head
    assert "retention.ms=100000" in head
    assert [line.split("\t")[2] for line in partitions] == ["Partition: 0", "Partition: 1", "Partition: 2"]
    for line in partitions:
        fields = dict(field.split(": ") for field in line.strip().split("\t")[:5])
        assert fields["Leader"] == fields["Replicas"] == fields["Isr"]

    tool("topics", "--delete", "--topic", name)
    assert name not in tool("topics", "--list").split()


def test_a_topic_that_exists_cannot_be_created_again_unless_asked_nicely(tool, topic):
    assert f"Topic '{topic}' already exists." in tool.refused("topics", "--create", "--topic", topic)
    tool("topics", "--create", "--topic", topic, "--if-not-exists")


def test_illegal_names_and_unknown_topics_are_refused_with_kafkas_words(tool):
    assert "InvalidTopicException" in tool.refused("topics", "--create", "--topic", "what is this")
    unknown = tool.refused("topics", "--describe", "--topic", "no-such-topic-anywhere")
    assert "does not exist as expected" in unknown


def test_partitions_can_be_added_but_not_removed(tool, topic):
    tool("topics", "--alter", "--topic", topic, "--partitions", "5")
    assert "PartitionCount: 5" in tool("topics", "--describe", "--topic", topic)
    fewer = tool.refused("topics", "--alter", "--topic", topic, "--partitions", "2")
    assert "InvalidPartitionsException" in fewer


def test_a_topics_settings_are_changed_described_and_reset(tool, topic):
    which = ("--entity-type", "topics", "--entity-name", topic)
    done = tool("configs", *which, "--alter", "--add-config", "cleanup.policy=compact,max.message.bytes=2000")
    assert f"Completed updating config for topic {topic}." in done
    described = tool("configs", *which, "--describe")
    assert "  cleanup.policy=compact sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact" in described
    assert "  max.message.bytes=2000 sensitive=false" in described

    tool("configs", *which, "--alter", "--delete-config", "cleanup.policy")
    after = tool("configs", *which, "--describe", "--all")
    assert "  cleanup.policy=delete sensitive=false synonyms={DEFAULT_CONFIG:log.cleanup.policy=delete}" in after
    assert "  max.message.bytes=2000" in after
    for setting in ("segment.bytes=1073741824", "message.timestamp.type=CreateTime", "min.insync.replicas=1"):
        assert f"  {setting} " in after


def test_a_setting_that_does_not_exist_or_has_a_wrong_value_is_refused(tool, topic):
    which = ("--entity-type", "topics", "--entity-name", topic)
    for setting in ("nonsense=1", "retention.ms=soon", "cleanup.policy=sometimes"):
        refused = tool.refused("configs", *which, "--alter", "--add-config", setting)
        assert "InvalidConfigurationException" in refused, setting


def test_the_brokers_settings_are_described(tool):
    described = tool("configs", "--entity-type", "brokers", "--entity-name", "1", "--describe", "--all")
    assert "All configs for broker 1 are:" in described
    for setting in (
        "num.partitions",
        "log.retention.hours",
        "transaction.max.timeout.ms",
        "log.flush.interval.messages",
    ):
        assert f"\n  {setting}=" in described


def test_offsets_are_looked_up_by_position_and_time(tool, topic, fill):
    fill(topic, 0, ["a", "b", "c"])
    fill(topic, 2, ["d"])
    assert offsets(tool, topic) == {0: 3, 1: 0, 2: 1}
    assert offsets(tool, topic, "--time", "earliest") == {0: 0, 1: 0, 2: 0}
    assert offsets(tool, topic, "--time", "latest", "--partitions", "0,2") == {0: 3, 2: 1}
    assert offsets(tool, topic, "--time", "max-timestamp")[2] == 0
    assert offsets(tool, topic, "--time", "1") in ({0: 0, 1: 0, 2: 0}, {0: 0, 2: 0})


def test_records_are_deleted_up_to_an_offset(tool, topic, fill, tmp_path):
    fill(topic, 0, [str(i) for i in range(10)])
    wanted = tmp_path / "delete.json"
    wanted.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "offset": 4}], "version": 1}))
    assert f"partition: {topic}-0\tlow_watermark: 4" in tool("delete-records", "--offset-json-file", str(wanted))
    assert offsets(tool, topic, "--time", "earliest")[0] == 4
    wanted.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "offset": 99}], "version": 1}))
    assert "OffsetOutOfRangeException" in tool("delete-records", "--offset-json-file", str(wanted))


def test_console_producer_and_consumer_carry_keys_values_headers_and_every_compression(tool, topic):
    text = "".join(f"h{i}:1\tkey{i}\tvalue{i}\n" for i in range(8))
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        tool(
            "console-producer",
            *("--topic", topic, "--compression-codec", codec),
            *("--property", "parse.key=true", "--property", "parse.headers=true"),
            stdin=text,
        )
    printed = tool(
        "console-consumer",
        *("--topic", topic, "--from-beginning", "--max-messages", "40", "--timeout-ms", "30000"),
        *("--property", "print.key=true", "--property", "print.headers=true"),
    )
    assert sorted(printed.splitlines()) == sorted(text.splitlines() * 5)
