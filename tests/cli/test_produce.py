"""`fencepost produce`: lines, JSON lines byte for byte, transactions, and errors that say what was written."""

import json
import re

import hypothesis
import pytest
from hypothesis import strategies as st

from fencepost.client.partitioner import partition_for
from fencepost.errors import ConfigError
from fencepost.lines.json_lines import Draft, from_line, to_line
from fencepost.lines.producing import BATCH_BYTES
from fencepost.lines.reading import Seen
from fencepost.wire.records import Record
from fencepost.wire.terms import TopicPartition
from tests.cli.shell import Plain, Shell
from tests.conftest import unique

#: Bytes that are text, that are not, that look like our own spelling, and none.
contents = st.one_of(
    st.none(),
    st.just(b""),
    st.binary(max_size=40),
    st.text(max_size=20).map(str.encode),
    st.just(b'{"base64": "YQ=="}'),
)
names = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), min_size=1, max_size=8)
timestamps = st.integers(1, 2**41)
records = st.tuples(contents, contents, st.lists(st.tuples(names, contents), max_size=4), timestamps)


@hypothesis.settings(max_examples=60)
@hypothesis.given(
    contents, contents, st.lists(st.tuples(names, contents), max_size=4), st.integers(-(2**63), 2**63 - 1)
)
def test_a_line_of_json_is_the_record(key, value, headers, timestamp) -> None:
    seen = Seen(TopicPartition("t", 3), Record(key, value, timestamp, 9, tuple(headers)))
    line = to_line(seen)
    assert b"\n" not in line
    assert from_line(line) == Draft(key, value, tuple(headers), "t", 3, timestamp)


class Copying:
    """Two topics that examples share: each begins where the one before ended."""

    def __init__(self, shell: Shell, source: str, copy: str) -> None:
        self.shell, self.source, self.copy, self.end = shell, source, copy, 0

    def copied(self, written: list[Plain], *options: str) -> list[Plain]:
        self.shell.write(self.source, written)
        lines = self.shell.lines(self.source, "-o", str(self.end))
        assert len(lines.splitlines()) >= len(written)
        self.shell.run("produce", self.copy, "--format", "json", *options, stdin=lines)
        found = self.shell.read(self.copy, len(written), self.end)
        self.end += len(written)
        return found


@pytest.fixture(scope="module")
def copying(shell: Shell, topic) -> Copying:
    return Copying(shell, topic(), topic())


@hypothesis.settings(max_examples=12)
@hypothesis.given(
    st.lists(records, min_size=1, max_size=20), st.sampled_from(["none", "gzip", "snappy", "lz4", "zstd"])
)
def test_what_consume_prints_comes_back_byte_for_byte(copying: Copying, written: list[Plain], compression: str) -> None:
    assert copying.copied(written, "-z", compression) == written


def test_lines_become_values_with_key_and_headers(shell: Shell, topic) -> None:
    name = topic()
    shell.run("produce", name, stdin=b"one\n\ntwo without end")
    shell.run("produce", name, "-K", ":", "-H", "a=1", "-H", "a=", "-H", "n", stdin=b"k:v:w\n:x\n")
    shell.run("produce", name, "-k", "fixed", "-D", r"\0", stdin=b"a\nb\0c")
    shell.run("produce", name, "-K", "\t", "-Z", stdin=b"gone\t\n")
    found = [(key, value, headers) for key, value, headers, _ in shell.read(name, 8)]
    headers = [("a", b"1"), ("a", b""), ("n", None)]
    assert found == [
        (None, b"one", []),
        (None, b"", []),
        (None, b"two without end", []),
        (b"k", b"v:w", headers),
        (b"", b"x", headers),
        (b"fixed", b"a\nb", []),
        (b"fixed", b"c", []),
        (b"gone", None, []),
    ]


def test_partitions_are_those_of_the_lines_of_the_keys_or_as_told(shell: Shell, topic) -> None:
    name = topic(partitions=3)
    line = json.dumps({"key": "k", "value": "own", "partition": 2}).encode() + b"\n"
    shell.run("produce", name, "--format", "json", stdin=line)
    shell.run("produce", name, "--format", "json", "-p", "key", stdin=line.replace(b"own", b"by key"))
    shell.run("produce", name, "-p", "1", stdin=b"told\n")
    found = [json.loads(each) for each in shell.lines(name).splitlines()]
    by_value = {each["value"]: each["partition"] for each in found}
    assert by_value == {"own": 2, "by key": partition_for(b"k", 3), "told": 1}


def test_a_transaction_over_several_topics_is_all_or_nothing(shell: Shell, topic) -> None:
    first, second = topic(), topic()
    lines = [json.dumps({"topic": name, "value": f"to {name}"}) for name in (first, second)]
    done = shell.asked_with("produce", "--format", "json", "--transaction", stdin="\n".join(lines).encode())
    assert {each["topic"]: each["records"] for each in done} == {first: 1, second: 1}
    broken = "\n".join([*lines, '{"topic": 7}']).encode()
    said = shell.error("produce", "--format", "json", "--transaction", stdin=broken)
    assert said == "Error: line 3: topic is a name. Nothing was written: the transaction was aborted\n"
    for name in (first, second):
        assert shell.says("consume", name, "-e") == f"to {name}\n"
        assert [json.loads(line).get("marker") for line in shell.lines(name, "--isolation", "raw").splitlines()][
            1:
        ] == ["commit"]


def test_what_was_sent_before_a_bad_line_is_aborted(shell: Shell, topic) -> None:
    name = topic()
    large = b'{"value": "' + b"x" * (BATCH_BYTES // 2 + 1) + b'"}\n'
    said = shell.error("produce", name, "--format", "json", "--transaction", stdin=3 * large + b"bad\n")
    assert "line 4: it is no JSON" in said and "the transaction was aborted" in said
    outcomes = shell.says("consume", name, "-e", "--isolation", "raw", "-f", r"%x\n").split()
    assert outcomes == ["aborted", "aborted", "abort-marker"]  # the third was not sent


def test_an_id_is_taken_over_and_its_open_transaction_ends(shell: Shell, topic) -> None:
    name, taken = topic(), unique("id")
    producer = shell.producer(**{"transactional.id": taken})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(name, b"of the other")
    producer.flush(10)
    shell.run("produce", name, "--transactional-id", taken, stdin=b"mine\n")
    assert shell.says("consume", name, "-e") == "mine\n"


def test_markers_and_undone_records_are_not_written_again(shell: Shell, topic) -> None:
    name = topic()
    shell.run("produce", name, "--transaction", stdin=b"x\n")
    raw = shell.lines(name, "--isolation", "raw")
    said = shell.error("produce", name, "--format", "json", stdin=raw)
    assert "line 2: it is a transaction's marker" in said
    assert "Written before it: 1 record" in said or "Nothing was written" in said
    with pytest.raises(ConfigError, match="its transaction is aborted"):
        from_line(b'{"value": "x", "transaction": {"outcome": "aborted"}}')


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "no JSON"),
        ("[]", "no object"),
        ('{"vale": 1}', "no field 'vale'"),
        ('{"value": 1}', "value is a string, null or"),
        ('{"value": {"base64": "*"}}', "not base64"),
        ('{"value": {"base64": "YQ==", "x": 1}}', "value is a string, null or"),
        ('{"key": "\\ud800"}', "half a surrogate pair"),
        ('{"headers": {}}', "headers are a list"),
        ('{"headers": [["a"]]}', "a header is"),
        ('{"partition": -1}', "partition is a number"),
        ('{"timestamp": true}', "timestamp is a number"),
    ],
)
def test_a_line_that_is_no_record_is_refused(line: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        from_line(line.encode())


def test_wrong_options_say_what_to_do(shell: Shell, topic) -> None:
    name = topic()
    assert "name a TOPIC" in shell.error("produce", code=2)
    assert "either -k or -K" in shell.error("produce", name, "-k", "a", "-K", ":", code=2)
    assert "does not exist" in shell.error("produce", unique("none"), code=3, stdin=b"x\n")
    assert "line 1: topic" in shell.error("produce", name, "-p", 5, stdin=b"x\n")
    assert "has no key" in shell.error("produce", name, "-K", ":", stdin=b"x\n")
    assert "is not in the range" in shell.error("produce", name, "--transaction-timeout", 2**31, code=2)
    assert "name of a header is UTF-8" in shell.error("produce", name, "-H", "\udcff=1", code=2)


def test_keys_delimiters_and_headers_may_be_any_bytes(shell: Shell, topic) -> None:
    """Python keeps those of arguments that are not UTF-8 as halves of surrogate pairs."""
    name = topic()
    shell.run("produce", name, "-k", "\udcff", "-H", "h=\udcfe", "-D", r"\xfd\\n", stdin=b"a\xfd\\nb")
    found = [(key, value, headers) for key, value, headers, _ in shell.read(name, 2)]
    assert found == [(b"\xff", b"a", [("h", b"\xfe")]), (b"\xff", b"b", [("h", b"\xfe")])]


@pytest.mark.parametrize("options", [[], ["--transaction"]], ids=["plain", "transaction"])
def test_batches_fit_a_topic_that_takes_only_small_ones(shell: Shell, topic, options: list[str]) -> None:
    name = topic(config={"max.message.bytes": 2_000})
    lines = [b"%0100d" % number for number in range(200)]
    shell.run("produce", name, *options, stdin=b"\n".join(lines))
    assert shell.says("consume", name, "-e").encode().split() == lines


def test_a_record_that_a_topic_does_not_take_is_named_with_the_remedy(shell: Shell, topic) -> None:
    name = topic(config={"max.message.bytes": 2_000})
    said = shell.error("produce", name, stdin=b"small\n" + b"x" * 3_000)
    assert said.startswith("Error: line 2: its record makes a batch of 30") and said.count("\n") == 1
    (remedy,) = re.findall(rf"fencepost (topic config {name} --set max.message.bytes=\d+)", said)
    shell.run(*remedy.split())
    shell.run("produce", name, stdin=b"x" * 3_000)
    shell.run("topic", "config", name, "--set", "max.message.bytes=2000")
    shell.run("produce", name, "-z", "gzip", stdin=b"y" * 3_000)
    assert [len(line) for line in shell.says("consume", name, "-e").split()] == [3_000, 3_000]


def test_a_compacted_topic_wants_keys(shell: Shell, topic) -> None:
    name = topic(config={"cleanup.policy": "compact"})
    said = shell.error("produce", name, stdin=b"x\n")
    assert said.startswith("Error: line 1: it has no key, and") and "-K" in said
    shell.run("produce", name, "-k", "k", stdin=b"x\n")


def test_an_error_of_the_cluster_says_how_much_was_written_before(shell: Shell, topic) -> None:
    name = topic(config={"message.timestamp.before.max.ms": 3_600_000, "retention.ms": 604_800_000})
    large = json.dumps({"value": "x" * (BATCH_BYTES // 2 + 1)}).encode() + b"\n"
    said = shell.error("produce", name, "--format", "json", stdin=3 * large + b'{"value": "old", "timestamp": 1}\n')
    assert re.match(r"Error: \d records were written, then: .*INVALID_TIMESTAMP", said) and said.count("\n") == 1
