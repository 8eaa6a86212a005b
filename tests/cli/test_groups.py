"""`fencepost group`: true lag, seeking, deleting, and what is refused."""

import json

import pytest
from confluent_kafka import Consumer

from tests import logins
from tests.cli.shell import Shell
from tests.conftest import WAIT_TIMEOUT_S, unique, wait_until


@pytest.fixture(scope="module")
def mixed(shell: Shell, topic) -> str:
    """A topic with three plain records, two aborted, one committed, and markers of both."""
    name = topic()
    shell.write(name, [(b"k", b"%d" % number, [], 1_000 * (number + 1)) for number in range(3)])  # offsets 0 to 2
    with shell.transaction() as producer:
        producer.produce(name, b"undone")
        producer.produce(name, b"undone")
        producer.flush()
        producer.abort_transaction(WAIT_TIMEOUT_S)  # 3, 4, its marker 5
        producer.begin_transaction()
        producer.produce(name, b"done")
        producer.commit_transaction(WAIT_TIMEOUT_S)  # 6, its marker 7
    return name


def test_lag_counts_neither_markers_nor_aborted_records(shell: Shell, mixed: str) -> None:
    group = unique("group")
    shell.run("group", "seek", group, "-o", "start", "-t", mixed)
    (found,) = shell.asked("group", "describe", group)
    assert found["lag"] == {"records": 4, "exact": True}
    (partition,) = found["partitions"]
    assert (partition["offset"], partition["counted"], partition["oldest_ms"]) == (0, "counted", 1000)
    shell.run("group", "describe", group, "--max-records", 4)
    shell.run("group", "describe", group, "--max-records", 3, code=4)


def test_records_behind_an_open_transaction_are_held_and_not_counted(shell: Shell, topic) -> None:
    name, group = topic(), unique("group")
    shell.run("group", "seek", group, "-o", "start", "-t", name)
    with shell.transaction() as open_one:
        open_one.produce(name, b"undecided")
        open_one.flush()
        (found,) = shell.asked("group", "describe", group)
        assert found["lag"]["records"] == 0
        assert found["partitions"][0]["held"] == 1
        open_one.abort_transaction(WAIT_TIMEOUT_S)


@pytest.mark.parametrize(
    ("target", "offset"),
    [("start", 0), ("end", 8), ("2", 2), ("-1", 6), ("-2", 2), ("@2000", 1), ("@-0s", 8), ("@1970-01-01T00:00:03", 2)],
)
def test_seek_goes_where_consume_would_begin(shell: Shell, mixed: str, target: str, offset: int) -> None:
    group = unique("group")
    (planned,) = shell.asked("group", "seek", group, "-o", target, "-t", mixed, "--dry-run")
    assert (planned["before"], planned["after"], planned["done"]) == (None, offset, False)
    assert "no group" in shell.error("group", "describe", group, code=3)
    shell.run("group", "seek", group, "-o", target, "-t", f"{mixed}:0")
    assert shell.asked("group", "describe", group)[0]["partitions"][0]["offset"] == offset
    read = [json.loads(line)["offset"] for line in shell.lines(mixed, "-g", group).splitlines()]
    assert read == [each for each in (0, 1, 2, 6) if each >= offset]


def test_a_group_with_members_is_neither_moved_nor_deleted(shell: Shell, mixed: str) -> None:
    group = unique("group")
    settings = {**logins.confluent(shell.bootstrap), "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "client.id": "till", "enable.auto.commit": False})
    consumer.subscribe([mixed])
    try:
        wait_until(lambda: consumer.poll(0.1), "the consumer reads")
        consumer.commit(asynchronous=False)
        assert "till" in shell.says("group", "describe", group)
        assert "has members (till on" in shell.error("group", "seek", group, "-o", "start")
        assert "has members" in shell.error("group", "delete", group, "--yes")
    finally:
        consumer.close()
    shell.run("group", "seek", group, "-o", "end")
    assert group in shell.says("group", "ls")
    assert "add --yes" in shell.error("group", "delete", group)
    shell.run("group", "delete", group, "--yes")
    assert group not in shell.says("group", "ls")


def test_what_cannot_be_is_refused_with_the_remedy(shell: Shell, mixed: str) -> None:
    group = unique("group")
    assert "name a topic" in shell.error("group", "seek", group, "-o", "start", code=3)
    assert "has offsets 0 to 8" in shell.error("group", "seek", group, "-o", "9", "-t", mixed)
    assert "no place in a partition" in shell.error("group", "seek", group, "-o", "soon", "-t", mixed, code=2)
    assert "does not exist" in shell.error("group", "seek", group, "-o", "start", "-t", unique("none"), code=3)
