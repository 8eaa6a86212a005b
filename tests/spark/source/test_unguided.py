"""Planning for Spark 4.0 and 4.1: the calls are in the order in which these versions make them."""

from collections.abc import Callable, Iterator

import pytest

from fencepost.client import Cluster
from fencepost.errors import OffsetsOutOfRange
from fencepost.spark.offsets_json import SourceOffset, parse
from fencepost.spark.source.planner import StreamPlanner
from fencepost.spark.source.unguided import UnguidedPlanner
from tests.spark.source.support import delete_records, fill, options

Topic = Callable[..., str]
Start = Callable[..., UnguidedPlanner]


@pytest.fixture
def name(topic: Topic, bootstrap: str) -> str:
    made = topic(1)
    fill(bootstrap, made, [str(number) for number in range(10)])
    return made


@pytest.fixture
def start(cluster: Cluster, bootstrap: str, name: str) -> Iterator[Start]:
    """A process of the source, as one start of a query has it."""

    def make(**given: object) -> UnguidedPlanner:
        read = options(bootstrap, **{"subscribe": name, "startingOffsets": "earliest", **given})
        return UnguidedPlanner(StreamPlanner(cluster, read), read)

    return make


def logged(offset: SourceOffset) -> SourceOffset:
    """As Spark passes it after a restart."""
    return parse(offset.json())


def end_of(offset: SourceOffset) -> int:
    return next(iter(offset.offsets.values()))


def test_a_new_query_reads_everything_first_and_then_keeps_to_its_limit(
    start: Start, bootstrap: str, name: str
) -> None:
    """`availableNow` takes the first answer for all that there is."""
    source = start(maxOffsetsPerTrigger=3)
    first = source.next_end()
    assert end_of(first) == 10
    assert end_of(first) == end_of(source.next_end()), "nothing is new"
    fill(bootstrap, name, [str(number) for number in range(10)])
    assert [end_of(source.next_end()) for _ in range(5)] == [13, 16, 19, 20, 20]


def test_every_batch_is_limited_if_the_query_says_so(start: Start) -> None:
    source = start(maxOffsetsPerTrigger=4, limitFirstBatch=True)
    assert [end_of(source.next_end()) for _ in range(3)] == [4, 8, 10]


def test_after_a_restart_the_position_is_what_spark_plans_first(start: Start, bootstrap: str, name: str) -> None:
    limits = {"maxOffsetsPerTrigger": 4, "limitFirstBatch": True}
    before = start(**limits)
    first = before.next_end()
    done = start(**limits)
    assert done.ranges(logged(first), logged(first)) == [], "Spark plans an empty batch where the last one ended"
    assert end_of(done.next_end()) == 8
    repeating = start(**limits)
    begin = SourceOffset(dict.fromkeys(first.offsets, 0), dict.fromkeys(first.offsets, 0))
    assert [(each.start, each.end) for each in repeating.ranges(begin, logged(first))] == [(0, 4)]
    assert end_of(repeating.next_end()) == 8


def test_a_first_batch_that_is_repeated_reads_the_same(start: Start, bootstrap: str, name: str) -> None:
    source = start(startingOffsets="latest")
    source.next_end()
    fill(bootstrap, name, ["a", "b"])
    first = source.next_end()
    fill(bootstrap, name, ["c", "d"])
    again = start(startingOffsets="latest")
    now = StreamPlanner(again._planner._cluster, again._planner._options).initial()  # Spark asks for it again
    assert [(each.start, each.end) for each in again.ranges(logged(now), logged(first))] == [(10, 12)]


def test_where_a_new_query_would_begin_does_not_move_a_query_that_is_not_new(
    start: Start, bootstrap: str, name: str
) -> None:
    """With `availableNow` a batch that must be repeated is planned after the first answer."""
    first = start(maxOffsetsPerTrigger=4, limitFirstBatch=True).next_end()
    again = start()
    answer = again.next_end()
    assert answer.start is not None, "it looks like a new query"
    assert [(each.start, each.end) for each in again.ranges(logged(first), logged(answer))] == [(4, 10)]


def test_records_that_were_lost_end_the_query_before_it_reads_on(start: Start, bootstrap: str, name: str) -> None:
    first = start(maxOffsetsPerTrigger=4, limitFirstBatch=True).next_end()
    delete_records(bootstrap, name, 6)
    again = start()
    again.ranges(logged(first), logged(first))
    with pytest.raises(OffsetsOutOfRange, match="from offset 4 to 6 were deleted"):
        again.next_end()
