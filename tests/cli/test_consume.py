"""`fencepost consume`: views, places, filters, formats, and groups."""

import json

import pytest

from tests.cli.shell import Shell
from tests.conftest import WAIT_TIMEOUT_S, unique

SHAPE = r"%o %x %k %s\n"


@pytest.fixture(scope="module")
def story(shell: Shell, topic):
    """Plain, aborted, committed; then an open transaction, with a committed one and a plain record behind it."""
    name = topic(partitions=2)
    shell.write(name, [(b"p", b"plain", [("h", b"1"), ("h", None)], 1_000)])  # 0
    with shell.transaction() as producer:
        producer.produce(name, b"undone", b"a", 0)
        producer.flush()
        producer.abort_transaction(WAIT_TIMEOUT_S)  # 1, 2
        producer.begin_transaction()
        producer.produce(name, b"done", b"c", 0)
        producer.commit_transaction(WAIT_TIMEOUT_S)  # 3, 4
        producer.begin_transaction()
        producer.produce(name, b"undecided", b"o", 0)
        producer.flush()  # 5
        with shell.transaction() as second:
            second.produce(name, b"behind", b"b", 0)
            second.commit_transaction(WAIT_TIMEOUT_S)  # 6, 7
        shell.write(name, [(None, b"last", [], 2_000)])  # 8
        shell.write(name, [(b"q", b"other", [], 3_000)], partition=1)
        yield name
        producer.abort_transaction(WAIT_TIMEOUT_S)


def test_committed_ends_before_the_open_transaction(shell: Shell, story: str) -> None:
    assert shell.says("consume", story, "-p", 0, "-e") == "plain\ndone\n"


def test_who_gets_less_than_was_written_is_told(shell: Shell, story: str) -> None:
    done = shell.run("consume", story, "-e", "-f", r"%o\n")
    assert f"{story}-0 goes on for 4 offsets behind an open transaction. See: fencepost tx why {story}" in done.stderr
    for words in (["-p", 1], ["-n", 1], ["--isolation", "uncommitted"], ["--isolation", "raw"]):
        assert shell.run("consume", story, "-e", *words).stderr == ""


def test_only_raw_knows_outcomes(shell: Shell, story: str) -> None:
    for isolation in ("committed", "uncommitted"):
        said = shell.error("consume", story, "-e", "--isolation", isolation, "-f", "%o %x", code=2)
        assert "only --isolation raw knows the outcome" in said


def test_uncommitted_has_all_records_and_no_markers(shell: Shell, story: str) -> None:
    read = shell.says("consume", story, "-p", 0, "-e", "--isolation", "uncommitted").split()
    assert read == ["plain", "undone", "done", "undecided", "behind", "last"]


def test_raw_has_everything_with_the_outcome_of_each_transaction(shell: Shell, story: str) -> None:
    read = shell.says("consume", story, "-p", 0, "-e", "--isolation", "raw", "-f", SHAPE).splitlines()
    assert [line.rstrip() for line in read] == [
        "0 - p plain",
        "1 aborted a undone",
        "2 abort-marker",
        "3 committed c done",
        "4 commit-marker",
        "5 open o undecided",
        "6 committed b behind",
        "7 commit-marker",
        "8 -  last",
    ]
    # Beginning behind the open transaction's first record changes no outcome, nor does beginning within a transaction.
    later = shell.says("consume", story, "-p", 0, "-e", "--isolation", "raw", "-f", SHAPE, "-o", 4).splitlines()
    assert later == read[4:]


def test_raw_json_names_producer_and_marker(shell: Shell, story: str) -> None:
    found = [json.loads(line) for line in shell.lines(story, "-p", 0, "--isolation", "raw").splitlines()]
    assert "transaction" not in found[0]
    assert found[1]["transaction"]["outcome"] == "aborted"
    assert found[2]["marker"] == "abort" and "value" not in found[2]
    assert found[1]["transaction"]["producer_id"] == found[2]["transaction"]["producer_id"]
    assert found[5]["transaction"]["outcome"] == "open"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-o", "-1"], ["done", "other"]),  # of each partition, and markers do not count
        (["-o", "-2", "-p", 0], ["plain", "done"]),
        (["-o", "@1500", "-p", 1], ["other"]),
        (["-o", "end"], []),
        (["-o", 3, "-p", 0], ["done"]),
        (["-n", 1], ["plain"]),
        (["--key", "p"], ["plain"]),
        (["--key", "/^[cq]$/"], ["done", "other"]),
        (["--value", "on"], ["done"]),
        (["--header", "h"], ["plain"]),
        (["--header", "h=1", "--value", "/n$/"], ["plain"]),
        (["--header", "h=2"], []),
        (["--key", "\udcff"], []),  # as Python has an argument's byte ff
        (["-o", 2**63 - 1], []),
    ],
)
def test_places_and_filters(shell: Shell, story: str, words: list[object], expected: list[str]) -> None:
    assert shell.says("consume", story, "-e", *words).split() == expected


def test_formats(shell: Shell, story: str) -> None:
    shape = r"%t\t%p %o %T %k=%s (%K,%S) %h %% \x41\\"
    expected = f"{story}\t0 0 1000 p=plain (1,5) h=1,h= % A\\"
    assert shell.says("consume", story, "-n", 1, "-f", shape) == expected
    assert "%y means nothing" in shell.error("consume", story, "-e", "-f", "%y", code=2)


def test_fewer_records_than_asked_for_is_told_by_the_exit_code(shell: Shell, story: str) -> None:
    assert shell.says("consume", story, "-e", "-n", 9, code=4).split() == ["plain", "done", "other"]


def test_a_group_continues_where_it_committed(shell: Shell, topic) -> None:
    name, group = topic(), unique("group")
    shell.write(name, [(None, b"1", [], 1), (None, b"2", [], 1), (None, b"3", [], 1)])
    assert shell.says("consume", name, "-g", group, "-e", "-n", 2).split() == ["1", "2"]  # without --commit
    assert shell.says("consume", name, "-g", group, "--commit", "-n", 2).split() == ["1", "2"]
    assert shell.says("consume", name, "-g", group, "--commit", "-e").split() == ["3"]
    assert shell.says("consume", name, "-g", group, "-e") == ""
    assert "--commit needs -g" in shell.error("consume", name, "--commit", code=2)


def test_what_is_gone_or_never_was_is_an_error_of_one_line(shell: Shell, topic) -> None:
    assert shell.error("consume", unique("none"), "-e", code=3).count("\n") == 1
    assert "has no partition 7" in shell.error("consume", topic(), "-p", 7, "-e", code=3)


@pytest.mark.parametrize(
    "target", [str(2**63), f"-{2**63}", f"@{2**63}", "@-99999999999999d", "9" * 5000, "@" + "9" * 5000]
)
def test_a_place_beyond_64_bits_is_a_wrong_argument(shell: Shell, story: str, target: str) -> None:
    assert "too large" in shell.error("consume", story, "-e", "-o", target, code=2)


def test_a_name_that_is_not_utf8_is_a_wrong_argument(shell: Shell, story: str) -> None:
    assert "b'\\xff' is not UTF-8" in shell.error("consume", "\udcff", "-e", code=2)
    assert "b'\\xff' is not UTF-8" in shell.error("consume", story, "-g", "\udcff", "-e", code=2)
    assert "b'\\xff' is not UTF-8" in shell.error("tx", "describe", "\udcff", code=2)


def test_an_offset_that_was_deleted_is_an_error_with_the_remedy(shell: Shell, topic) -> None:
    name, group = topic(), unique("group")
    shell.write(name, [(None, b"%d" % number, [], 1) for number in range(5)])
    shell.run("group", "seek", group, "-o", 1, "-t", name)
    shell.delete_records(name, 3)
    said = shell.error("consume", name, "-e", "-o", 1)
    assert "now holds offsets 3 to 5" in said and "-o start" in said and said.count("\n") == 1
    said = shell.error("consume", name, "-e", "-g", group)
    assert f"fencepost group seek {group} -o start -t {name}" in said
    assert shell.says("consume", name, "-e", "-o", 3).split() == ["3", "4"]


def test_an_offset_beyond_the_end_is_noted(shell: Shell, topic) -> None:
    name = topic(partitions=2)
    shell.write(name, [(None, b"x", [], 1)])
    done = shell.run("consume", name, "-e", "-o", 1)
    assert (done.stdout, done.stderr) == ("", f"note: {name}-1 can be read up to offset 0: there is nothing at 1 yet\n")


def test_a_commit_counts_partitions_that_were_not_reached(shell: Shell, topic) -> None:
    name, group = topic(partitions=3), unique("group")
    for partition in (0, 1):
        shell.write(name, [(None, b"a", [], 1), (None, b"b", [], 1)], partition)
    shell.run("consume", name, "-g", group, "--commit", "-n", 1)
    (found,) = shell.asked("group", "describe", group)
    assert [each["offset"] for each in found["partitions"]] == [1, 0, 0]
    assert found["lag"] == {"records": 3, "exact": True}


def test_committing_to_a_group_with_members_is_refused_before_anything_is_printed(shell: Shell, topic) -> None:
    name, group = topic(), unique("group")
    shell.write(name, [(None, b"x", [], 1)])
    with shell.member(group, name):
        done = shell.run("consume", name, "-g", group, "--commit", "-e", code=1)
        assert done.stdout == "" and "has members" in done.stderr and done.stderr.count("\n") == 1
        assert shell.says("consume", name, "-g", group, "-e") == "x\n"


def test_a_name_that_is_almost_right_is_answered_with_the_right_one(shell: Shell, topic) -> None:
    name = topic(prefix="almost")
    assert f"does not exist; did you mean {name}?" in shell.error("consume", name[:-1], "-e", code=3)
    assert "See: fencepost topic ls" in shell.error("topic", "describe", "x" * 60, code=3)
    assert "it has 0 to 0" in shell.error("consume", name, "-p", 7, "-e", code=3)
