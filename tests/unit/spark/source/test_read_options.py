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

SERVERS = {"kafka.bootstrap.servers": "host:1"}
BASE = {**SERVERS, "subscribe": "t"}


def stream(**given: object) -> SourceOptions:
    return parse_options(Options({**BASE, **{name: str(value) for name, value in given.items()}}), ReadKind.STREAM)


def batch(**given: object) -> SourceOptions:
    return parse_options(Options({**BASE, **{name: str(value) for name, value in given.items()}}), ReadKind.BATCH)


def test_defaults_are_sparks_except_for_the_isolation_and_the_size_of_batches():
    found = stream()
    assert (found.start, batch().start, batch().end) == (Edge.LATEST, Edge.EARLIEST, Edge.LATEST)
    assert (found.without_commit, found.without_match) == (Edge.EARLIEST, WithoutMatch.ERROR)
    assert found.on_data_loss is OnDataLoss.FAIL
    assert found.isolation is Isolation.READ_COMMITTED
    assert (found.max_offsets, found.min_offsets, found.max_delay_ms) == (1_000_000, None, 15 * 60_000)
    assert batch().max_offsets is None
    assert not found.include_headers


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
        parse_options(Options({**SERVERS, **given}), ReadKind.STREAM)


def test_topics_and_partitions_are_lists():
    assert stream(subscribe=" b, a ,b,").subscription.topics == ("a", "b")
    given = {**SERVERS, "assign": '{"t": [2, 0], "s": [1]}'}
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


def test_a_stream_of_a_pipeline_goes_on_where_the_pipeline_stopped():
    """`pipeline` is an option of ours. With `kafka.group.id`, which Spark's source has too, the default is Spark's."""
    assert stream(pipeline="p").start is Edge.COMMITTED
    assert stream(pipeline="p", startingOffsets="latest").start is Edge.LATEST
    assert stream(**{"kafka.group.id": "g"}).start is Edge.LATEST
    assert stream(pipeline=" ").start is Edge.LATEST
    assert batch(pipeline="p").start is Edge.EARLIEST
    assert stream(startingOffsets="Committed", **{"kafka.group.id": "g"}).group == "g"
    assert stream(startingOffsets="committed", pipeline="p").group == "p"


def test_other_options_have_sparks_or_kafkas_names():
    assert stream(**{"kafka.isolation.level": "read_uncommitted"}).isolation is Isolation.READ_UNCOMMITTED
    assert stream(startingOffsetsIfNone="latest").without_commit is Edge.LATEST
    assert stream(startingOffsetsByTimestampStrategy="latest").without_match is WithoutMatch.LATEST
    found = stream(minOffsetsPerTrigger=5, maxOffsetsPerTrigger=5, maxTriggerDelay="30s")
    assert (found.min_offsets, found.max_offsets, found.max_delay_ms) == (5, 5, 30_000)
    assert stream(minOffsetsPerTrigger=2_000_000).max_offsets == 2_000_000
    assert stream(**{"kafka.max.partition.fetch.bytes": 5000, "kafka.fetch.max.bytes": 70000}).fetch_bytes == 5000


def test_options_of_sparks_source_without_effect_here_are_accepted():
    assert stream(groupIdPrefix="x", **{"kafkaConsumer.pollTimeoutMs": 5, "fetchOffset.numRetries": 3})


NOT_LATEST = "starting offset can't be latest for batch queries on Kafka"
NOT_EARLIEST = "ending offset can't be earliest for batch queries on Kafka"
NO_END = "ending offset not valid in streaming queries"


@pytest.mark.parametrize(
    ("parse", "given", "message"),
    [
        *((stream, {"startingOffsets": text}, "'startingOffsets'") for text in ('{"t": {"0": -3}}', '{"t": 1}', "{")),
        *((stream, {"startingOffsets": text}, "'startingOffsets'") for text in ("first", "")),
        *((batch, {"startingOffsets": text}, NOT_LATEST) for text in ("latest", '{"t": {"0": -1}}')),
        *((batch, {"endingOffsets": text}, NOT_EARLIEST) for text in ("earliest", '{"t": {"0": -2}}')),
        *((stream, {f"ending{what}": "latest"}, NO_END) for what in ("Offsets", "OffsetsByTimestamp", "Timestamp")),
        (batch, {"endingOffsets": "committed"}, "'endingOffsets' must be one of earliest, latest"),
        (stream, {"startingOffsets": "committed"}, r"kafka\.group\.id"),
        (stream, {"pipeline": "p", "kafka.group.id": "g"}, "mean the same"),
        (stream, {"startingOffsetsIfNone": "committed"}, "startingOffsetsIfNone"),
        (stream, {"kafka.isolation.level": "serializable"}, r"kafka\.isolation\.level"),
        (stream, {"minOffsetsPerTrigger": 6, "maxOffsetsPerTrigger": 5}, r"minOffsetsPerTrigger \(6\) must be less"),
        (stream, {"maxOffsetsPerTrigger": 0}, "'maxOffsetsPerTrigger' must be a whole number of at least 1"),
        (stream, {"minOffsetsPerTrigger": 0}, "'minOffsetsPerTrigger' must be a whole number of at least 1"),
        (stream, {"minPartitions": 0}, "'minPartitions' must be a whole number of at least 1"),
    ],
)
def test_an_impossible_option_is_refused_with_its_name(parse, given, message):
    with pytest.raises(ConfigError, match=message):
        parse(**given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"startingOffset": "earliest"}, "no option 'startingOffset'; did you mean 'startingOffsets'"),
        ({"failOnDataLoss": "Perhaps"}, "not 'Perhaps'"),
        ({"kafka.security.protocol": "x"}, "must be one of PLAINTEXT, SSL"),
        ({"assign": "{}"}, "only one of"),
    ],
)
def test_an_error_of_both_batches_and_streams_is_found_before_it_is_known_which(given, said):
    with pytest.raises(ConfigError, match=said):
        check_options(Options({**BASE, **given}))


@pytest.mark.parametrize("given", [{"endingOffsets": "latest"}, {"startingOffsets": "latest"}, {}])
def test_options_that_are_right_for_one_of_them_are_accepted_until_then(given):
    check_options(Options({**BASE, **given}))
