"""Options of a read: Spark's names, defaults, precedence and refusals."""

import pytest

from fencepost.client.reading import OnDataLoss
from fencepost.errors import ConfigError
from fencepost.spark.options import Options
from fencepost.spark.source.read_options import (
    AtOffsets,
    AtTimes,
    Edge,
    ReadKind,
    SourceOptions,
    WithoutMatch,
    check_options,
    parse_options,
)
from fencepost.wire.terms import Isolation, TopicPartition

BASE = {"kafka.bootstrap.servers": "host:1", "subscribe": "t"}


def stream(**given: object) -> SourceOptions:
    return parse_options(Options({**BASE, **{name: str(value) for name, value in given.items()}}), ReadKind.STREAM)


def batch(**given: object) -> SourceOptions:
    return parse_options(Options({**BASE, **{name: str(value) for name, value in given.items()}}), ReadKind.BATCH)


def test_defaults_are_sparks_except_for_the_isolation_and_the_size_of_batches():
    found = stream()
    assert found.start is Edge.LATEST
    assert batch().start is Edge.EARLIEST
    assert batch().end is Edge.LATEST
    assert found.on_data_loss is OnDataLoss.FAIL
    assert found.isolation is Isolation.READ_COMMITTED
    assert (found.max_offsets, found.min_offsets, found.max_delay_ms) == (1_000_000, None, 15 * 60_000)
    assert batch().max_offsets is None
    assert not found.include_headers


def test_uncommitted_records_are_read_on_request():
    assert stream(**{"kafka.isolation.level": "read_uncommitted"}).isolation is Isolation.READ_UNCOMMITTED
    with pytest.raises(ConfigError, match=r"kafka\.isolation\.level"):
        stream(**{"kafka.isolation.level": "serializable"})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "one of the following options must be specified"),
        ({"subscribe": "t", "assign": '{"t": [0]}'}, "only one of the following options can be specified"),
        ({"subscribe": "t", "subscribePattern": "t.*"}, "only one of the following options can be specified"),
        ({"subscribe": " , "}, "no topics to subscribe to"),
        ({"subscribePattern": ""}, "pattern to subscribe to is empty"),
        ({"subscribePattern": "("}, "not a regular expression"),
        ({"assign": "t"}, "no partitions to assign"),
        ({"assign": '{"t": []}'}, "no partitions to assign"),
        ({"assign": '{"t": [-1]}'}, "no partitions to assign"),
        ({"assign": "[]"}, "no partitions to assign"),
    ],
)
def test_exactly_one_way_to_say_what_to_read(given, message):
    with pytest.raises(ConfigError, match=message):
        parse_options(Options({"kafka.bootstrap.servers": "host:1", **given}), ReadKind.STREAM)


def test_topics_and_partitions_are_lists():
    assert stream(subscribe=" b, a ,b,").subscription.topics == ("a", "b")
    given = {"kafka.bootstrap.servers": "host:1", "assign": '{"t": [2, 0], "s": [1]}'}
    assigned = parse_options(Options(given), ReadKind.BATCH).subscription.assigned
    assert assigned == (TopicPartition("s", 1), TopicPartition("t", 0), TopicPartition("t", 2))


def test_a_time_for_all_goes_before_times_and_those_before_offsets():
    given = {"startingTimestamp": 5, "startingOffsetsByTimestamp": '{"t": {"0": 6}}', "startingOffsets": "earliest"}
    assert stream(**given).start == AtTimes(5)
    del given["startingTimestamp"]
    assert stream(**given).start == AtTimes(None, {TopicPartition("t", 0): 6})
    del given["startingOffsetsByTimestamp"]
    assert stream(**given).start is Edge.EARLIEST


def test_offsets_may_be_given_for_each_partition():
    found = stream(startingOffsets='{"t": {"0": 5, "1": -1, "2": -2}}').start
    assert found == AtOffsets({TopicPartition("t", 0): 5, TopicPartition("t", 1): -1, TopicPartition("t", 2): -2})
    for text in ('{"t": {"0": -3}}', '{"t": 1}', "{", "first", ""):
        with pytest.raises(ConfigError, match="'startingOffsets'"):
            stream(startingOffsets=text)


@pytest.mark.parametrize("given", ["latest", '{"t": {"0": -1}}'])
def test_a_batch_cannot_begin_at_the_end(given):
    with pytest.raises(ConfigError, match="starting offset can't be latest for batch queries on Kafka"):
        batch(startingOffsets=given)


@pytest.mark.parametrize("given", ["earliest", '{"t": {"0": -2}}'])
def test_a_batch_cannot_end_at_the_beginning(given):
    with pytest.raises(ConfigError, match="ending offset can't be earliest for batch queries on Kafka"):
        batch(endingOffsets=given)


@pytest.mark.parametrize("name", ["endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"])
def test_a_stream_has_no_end(name):
    with pytest.raises(ConfigError, match="ending offset not valid in streaming queries"):
        stream(**{name: "latest"})


def test_committed_needs_a_group():
    with pytest.raises(ConfigError, match=r"kafka\.group\.id"):
        stream(startingOffsets="committed")
    assert stream(startingOffsets="Committed", **{"kafka.group.id": "g"}).group == "g"
    assert stream(startingOffsets="committed", pipeline="p").group == "p"
    with pytest.raises(ConfigError, match="mean the same"):
        stream(pipeline="p", **{"kafka.group.id": "g"})
    with pytest.raises(ConfigError, match="'endingOffsets' must be one of earliest, latest"):
        batch(endingOffsets="committed")


def test_a_stream_of_a_pipeline_goes_on_where_the_pipeline_stopped():
    """`pipeline` is an option of ours. With `kafka.group.id`, which Spark's source has too, the default is Spark's."""
    assert stream(pipeline="p").start is Edge.COMMITTED
    assert stream(pipeline="p", startingOffsets="latest").start is Edge.LATEST
    assert stream(**{"kafka.group.id": "g"}).start is Edge.LATEST
    assert stream(pipeline=" ").start is Edge.LATEST
    assert batch(pipeline="p").start is Edge.EARLIEST


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"startingOffset": "earliest"}, "did you mean 'startingOffsets'"),
        ({"failOnDataLoss": "Perhaps"}, "not 'Perhaps'"),
        ({"kafka.ssl.protocol": "x"}, "not supported"),
        ({"assign": "{}"}, "only one of"),
    ],
)
def test_what_is_wrong_in_batches_and_streams_alike_is_found_before_it_is_known_which(given, said):
    with pytest.raises(ConfigError, match=said):
        check_options(Options({**BASE, **given}))


@pytest.mark.parametrize("given", [{"endingOffsets": "latest"}, {"startingOffsets": "latest"}, {}])
def test_what_is_right_in_one_of_them_is_left_to_it(given):
    check_options(Options({**BASE, **given}))


def test_where_to_begin_without_a_commit_or_a_match_can_be_said():
    assert stream().without_commit is Edge.EARLIEST
    assert stream(startingOffsetsIfNone="latest").without_commit is Edge.LATEST
    assert stream().without_match is WithoutMatch.ERROR
    assert stream(startingOffsetsByTimestampStrategy="latest").without_match is WithoutMatch.LATEST
    with pytest.raises(ConfigError, match="startingOffsetsIfNone"):
        stream(startingOffsetsIfNone="committed")


def test_the_least_is_not_more_than_the_most():
    found = stream(minOffsetsPerTrigger=5, maxOffsetsPerTrigger=5, maxTriggerDelay="30s")
    assert (found.min_offsets, found.max_offsets, found.max_delay_ms) == (5, 5, 30_000)
    with pytest.raises(ConfigError, match=r"minOffsetsPerTrigger \(6\) must be less than or equal"):
        stream(minOffsetsPerTrigger=6, maxOffsetsPerTrigger=5)
    assert stream(minOffsetsPerTrigger=2_000_000).max_offsets == 2_000_000


@pytest.mark.parametrize("name", ["maxOffsetsPerTrigger", "minOffsetsPerTrigger", "minPartitions"])
def test_limits_are_positive(name):
    with pytest.raises(ConfigError, match=f"'{name}' must be a whole number of at least 1"):
        stream(**{name: 0})


def test_options_of_sparks_source_that_mean_nothing_here_are_taken():
    assert stream(groupIdPrefix="x", **{"kafkaConsumer.pollTimeoutMs": 5, "fetchOffset.numRetries": 3})


def test_an_unknown_option_is_a_typing_error():
    with pytest.raises(ConfigError, match="no option 'startingOffset'; did you mean 'startingOffsets'"):
        stream(startingOffset="earliest")


def test_the_size_of_a_fetch_is_kafkas():
    assert stream(**{"kafka.max.partition.fetch.bytes": 5000, "kafka.fetch.max.bytes": 70000}).fetch_bytes == 5000
