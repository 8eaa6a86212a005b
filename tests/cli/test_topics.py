"""`fencepost topic` from the first look to the deletion."""

from tests.cli.shell import Shell
from tests.conftest import unique


def test_a_topic_is_created_shown_changed_grown_and_deleted(shell: Shell) -> None:
    name = unique("made")
    assert "would be created" in shell.says("topic", "create", name, "-p", 2, "--dry-run")
    assert name not in shell.says("topic", "ls")
    shell.run("topic", "create", name, "-p", 2, "-c", "cleanup.policy=compact")
    assert "exists already" in shell.says("topic", "create", name, code=1)
    shell.run("topic", "create", name, "--if-not-exists")
    (listed,) = [each for each in shell.asked("topic", "ls") if each["topic"] == name]
    assert (listed["partitions"], listed["internal"], listed["problem"]) == (2, False, None)
    shell.write(name, [(b"k", b"v", [], 1)] * 3, partition=1)
    (described,) = shell.asked("topic", "describe", name)
    assert described["configs"] == {"cleanup.policy": "compact"}
    second = described["partitions"][1]
    assert (second["start_offset"], second["last_stable_offset"], second["end_offset"]) == (0, 3, 3)
    assert second["in_sync"] == second["replicas"] == [second["leader"]]

    shell.run("topic", "config", name, "--set", "retention.ms=1000", "--dry-run")
    assert [each["name"] for each in shell.asked("topic", "config", name)] == ["cleanup.policy"]
    found = shell.asked("topic", "config", name, "--set", "retention.ms=1000", "--unset", "cleanup.policy")
    assert found == [{"name": "retention.ms", "value": "1000", "from": "topic"}]
    everything = {each["name"]: each for each in shell.asked("topic", "config", name, "--all")}
    assert everything["cleanup.policy"]["value"] == "delete"
    assert everything["cleanup.policy"]["from"] != "topic"
    assert "retention.ms" in shell.error("topic", "config", name, "--set", "retention.ms=soon")

    shell.run("topic", "add-partitions", name, "-n", 1, "--dry-run")
    assert shell.asked("topic", "add-partitions", name, "-n", 2)[0]["partitions"] == 4
    assert len(shell.asked("topic", "describe", name)[0]["partitions"]) == 4

    assert "add --yes" in shell.error("topic", "delete", name)
    assert "would be deleted" in shell.says("topic", "delete", name, "--dry-run", "--yes")
    shell.run("topic", "delete", name, "--yes")
    assert "does not exist" in shell.error("topic", "describe", name, code=3)


def test_a_stable_offset_before_the_end_is_shown(shell: Shell, topic) -> None:
    name = topic()
    with shell.transaction() as open_one:
        open_one.produce(name, b"undecided")
        open_one.flush()
        (found,) = shell.asked("topic", "describe", name)
        (partition,) = found["partitions"]
        assert (partition["last_stable_offset"], partition["end_offset"]) == (0, 1)
        open_one.abort_transaction()


def test_internal_topics_are_shown_on_request(shell: Shell) -> None:
    with shell.transaction():
        pass  # makes __transaction_state
    assert "__transaction_state" not in shell.says("topic", "ls")
    assert "__transaction_state" in shell.says("topic", "ls", "--all")


def test_absurd_numbers_are_wrong_arguments(shell: Shell, topic) -> None:
    for words in (["create", "t", "-p", 2**31], ["create", "t", "-r", 2**15], ["add-partitions", topic(), "-n", 2**31]):
        assert "is not in the range" in shell.error("topic", *words, code=2)


def test_a_topic_that_is_refused_does_not_hide_the_one_before_it(shell: Shell) -> None:
    name = unique("good")
    done = shell.run("topic", "create", name, "no topic has such a name", code=1)
    assert done.stdout == f"{name}: created\n" and "no topic has such a name" in done.stderr
