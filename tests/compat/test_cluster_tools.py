"""kafka-broker-api-versions, kafka-cluster, kafka-features, kafka-log-dirs: the tools about the broker itself."""

import json
import re


def test_the_java_client_can_use_every_api_that_is_announced(tool):
    printed = tool("broker-api-versions")
    assert re.search(r"\(id: \d+ rack: null isFenced: false\) -> \(", printed)
    usable = {int(key): int(version) for key, version in re.findall(r"\((\d+)\): .*?\[usable: (\d+)\]", printed)}
    wanted = {0: 13, 1: 18, 2: 10, 3: 13, 8: 9, 9: 9, 10: 6, 11: 9, 12: 4, 13: 5, 14: 5, 15: 6, 16: 5, 18: 4}
    wanted |= {21: 2, 22: 5, 23: 4, 24: 5, 25: 4, 26: 5, 27: 1, 28: 5, 32: 4, 35: 4, 37: 3, 42: 2, 44: 1, 47: 0, 60: 2}
    wanted |= {19: 7, 20: 6, 61: 0, 65: 0, 66: 1, 75: 0}
    missing = {key: version for key, version in wanted.items() if usable.get(key, -1) < version}
    assert not missing, f"the Java client would use newer versions of {missing}"
    assert re.search(r"Produce\(0\): 0 to 13", printed), "old librdkafka looks at the first version"


def test_the_cluster_has_an_id_and_one_node(server, tool):
    where = ("--bootstrap-server", server.bootstrap)
    assert re.search(r"Cluster ID: [A-Za-z0-9_-]{22}\n", tool("cluster", "cluster-id", *where))
    assert str(server.address.port) in tool("cluster", "list-endpoints", *where)


def test_the_second_transaction_protocol_is_announced(tool):
    printed = tool("features", "describe")
    line = next(line for line in printed.splitlines() if "transaction.version" in line)
    assert "FinalizedVersionLevel: 2" in line
    assert "SupportedMaxVersion: 2" in line


def test_log_directories_tell_what_each_partition_takes(tool, topic, fill):
    fill(topic, 0, ["x" * 1000])
    printed = tool("log-dirs", "--describe", "--topic-list", topic)
    (directory,) = json.loads(printed.splitlines()[-1])["brokers"][0]["logDirs"]
    sizes = {each["partition"]: each["size"] for each in directory["partitions"]}
    assert set(sizes) == {f"{topic}-{partition}" for partition in range(3)}
    assert sizes[f"{topic}-0"] > 1000
    assert directory["error"] is None


def test_electing_the_only_leader_there_is_changes_nothing(tool, topic):
    tool("leader-election", "--election-type", "preferred", "--topic", topic, "--partition", "0")


def test_no_reassignment_is_under_way(tool):
    assert "No partition reassignments found." in tool("reassign-partitions", "--list")
