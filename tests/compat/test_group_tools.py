"""kafka-consumer-groups and kafka-groups."""

from collections.abc import Callable, Iterator

import pytest

from tests.compat.tools import Tool, table
from tests.conftest import wait_until


@pytest.fixture
def group(tool, topic, fill) -> str:
    """An empty group that has read the 6 records of its topic."""
    return read_in_a_group(tool, topic, fill)


def read_in_a_group(tool: Tool, topic: str, fill: Callable[..., None]) -> str:
    fill(topic, 0, ["a", "b", "c"])
    fill(topic, 1, ["d", "e", "f"])
    name = f"group-{topic}"
    words = ("--topic", topic, "--group", name, "--from-beginning", "--max-messages", "6", "--timeout-ms", "30000")
    assert len(tool("console-consumer", *words).split()) == 6
    return name


def offsets(tool: Tool, group: str) -> dict[int, dict[str, str]]:
    rows = table(tool("consumer-groups", "--describe", "--group", group, "--offsets"), separator=r"\s+")
    return {int(row["PARTITION"]): row for row in rows}


def test_a_group_is_listed_with_its_state_and_type(tool, group):
    assert group in tool("consumer-groups", "--list").split()
    states = {row["GROUP"]: row["STATE"] for row in table(tool("consumer-groups", "--list", "--state"))}
    assert states[group] == "Empty"
    assert group in tool("consumer-groups", "--list", "--state", "empty")
    assert group not in tool("consumer-groups", "--list", "--state", "stable")
    (row,) = [row for row in table(tool("groups", "--list"), separator=r"\s+") if row["GROUP"] == group]
    assert (row["TYPE"], row["PROTOCOL"]) == ("Classic", "consumer")


def test_a_groups_offsets_and_lag_are_described(tool, topic, group, fill):
    fill(topic, 0, ["g", "h"])
    described = offsets(tool, group)
    assert [described[0][name] for name in ("CURRENT-OFFSET", "LOG-END-OFFSET", "LAG")] == ["3", "5", "2"]
    assert [described[1][name] for name in ("CURRENT-OFFSET", "LOG-END-OFFSET", "LAG")] == ["3", "3", "0"]
    state = tool("consumer-groups", "--describe", "--group", group, "--state").strip().splitlines()[-1].split()
    assert state[-2:] == ["Empty", "0"]


def test_an_unknown_group_is_not_found(tool, name):
    described = tool.run("consumer-groups", "--describe", "--group", name)
    assert f"Group {name} not found" in described.stdout + described.stderr


def test_offsets_are_reset_first_in_words_then_in_deed(tool, topic, group):
    reset = ("--reset-offsets", "--group", group, "--topic", topic)
    planned = table(tool("consumer-groups", *reset, "--to-earliest", "--dry-run"))
    assert {row["PARTITION"]: row["NEW-OFFSET"] for row in planned} == {"0": "0", "1": "0", "2": "0"}
    assert offsets(tool, group)[0]["CURRENT-OFFSET"] == "3", "a dry run changes nothing"

    tool("consumer-groups", *reset, "--to-offset", "1", "--execute")
    assert {p: row["CURRENT-OFFSET"] for p, row in offsets(tool, group).items()} == {0: "1", 1: "1", 2: "0"}
    tool("consumer-groups", *reset, "--shift-by", "1", "--execute")
    assert offsets(tool, group)[0]["CURRENT-OFFSET"] == "2"
    tool("consumer-groups", *reset, "--to-datetime", "2001-01-01T00:00:00.000", "--execute")
    assert offsets(tool, group)[0]["CURRENT-OFFSET"] == "0"
    tool("consumer-groups", *reset, "--to-latest", "--execute")
    assert offsets(tool, group)[0]["LAG"] == "0"


def test_offsets_of_a_partition_and_then_the_group_are_deleted(tool, topic, group):
    deleted = tool("consumer-groups", "--delete-offsets", "--group", group, "--topic", f"{topic}:0")
    assert "Request succeeded for deleting offsets" in deleted
    assert 0 not in offsets(tool, group)
    assert "was successful" in tool("consumer-groups", "--delete", "--group", group)
    assert group not in tool("consumer-groups", "--list").split()


@pytest.fixture
def living(tool: Tool, topic: str, name: str, fill) -> Iterator[str]:
    """A group with one member that stays."""
    fill(topic, 0, ["a", "b", "c"])
    group = f"living-{name}"
    lines: list[str] = []
    words = ("--topic", topic, "--group-id", group, "--reset-policy", "earliest")
    with tool.start(lines.append, "verifiable-consumer", *words) as member:
        wait_until(lambda: "partitions_assigned" in "".join(lines), "the member has its partitions", 60)
        yield group
        member.terminate(30)


def test_members_and_their_assignments_are_described_while_the_group_lives(tool, topic, living):
    printed = tool("consumer-groups", "--describe", "--group", living, "--members", "--verbose")
    assert f"{topic}:0,1,2" in printed
    assert "/127.0.0.1" in printed
    state = tool("consumer-groups", "--describe", "--group", living, "--state")
    assert "Stable" in state
    assert "range" in state or "cooperative-sticky" in state


def test_a_group_with_members_is_neither_deleted_nor_reset(tool, topic, living):
    deleted = tool.run("consumer-groups", "--delete", "--group", living)
    assert "GroupNotEmptyException" in deleted.stdout + deleted.stderr
    reset = tool.run(
        "consumer-groups", "--reset-offsets", "--group", living, "--topic", topic, "--to-earliest", "--execute"
    )
    assert "Assignments can only be reset if the group" in reset.stdout + reset.stderr
    offsets_deleted = tool.run("consumer-groups", "--delete-offsets", "--group", living, "--topic", f"{topic}:0")
    assert "subscribed" in offsets_deleted.stdout + offsets_deleted.stderr


def test_a_query_that_commits_its_offsets_shows_its_lag(tool, topic, fill, tmp_path):
    """With any sink; 0 after it has read everything."""
    from tests import logins, quick_spark

    fill(topic, 0, ["a", "b", "c"])
    spark = quick_spark.start("lag", tmp_path)
    try:
        reader = (
            spark.readStream.format("fencepost")
            .options(**logins.spark(tool.bootstrap_servers))
            .option("subscribe", topic)
        )
        reader = reader.option("startingOffsets", "earliest").option("kafka.group.id", f"lag-{topic}")
        writer = reader.option("commitOffsets", "true").load().writeStream.format("noop").trigger(availableNow=True)
        assert writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination(100)
    finally:
        spark.stop()
    assert {row["LAG"] for row in offsets(tool, f"lag-{topic}").values()} == {"0"}
    fill(topic, 0, ["d", "e"])
    assert offsets(tool, f"lag-{topic}")[0]["LAG"] == "2"
