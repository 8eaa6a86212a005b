"""How far behind a query is, from what Spark reports of it."""

import json
from types import SimpleNamespace
from typing import Any

from fencepost.spark import lag
from fencepost.wire.terms import TopicPartition


def query(*latest_offsets: Any) -> Any:
    sources = [SimpleNamespace(latestOffset=each) for each in latest_offsets]
    return SimpleNamespace(lastProgress=SimpleNamespace(sources=sources))


def behind(**topics: dict[str, int]) -> str:
    return json.dumps({"t": {"0": 100}, "@lag": topics})


def test_the_numbers_are_those_of_sparks_own_source() -> None:
    found = lag(query(behind(t={"0": 15, "1": 0, "2": 6})))
    assert found is not None
    assert found.partitions == {TopicPartition("t", 0): 15, TopicPartition("t", 1): 0, TopicPartition("t", 2): 6}
    assert (found.min_offsets, found.max_offsets, found.avg_offsets, found.total_offsets) == (0, 15, 7.0, 21)
    assert found.metrics() == {
        "minOffsetsBehindLatest": "0",
        "maxOffsetsBehindLatest": "15",
        "avgOffsetsBehindLatest": "7.0",
    }


def test_it_is_over_all_sources_of_ours() -> None:
    found = lag(query(behind(t={"0": 1}), behind(u={"0": 2}), None, "7", '{"t": {"0": 3}}', "rate"))
    assert found is not None
    assert found.total_offsets == 3


def test_before_the_first_progress_and_without_a_source_of_ours_there_is_none() -> None:
    assert lag(SimpleNamespace(lastProgress=None)) is None  # type: ignore[arg-type]
    assert lag(query(None, "7")) is None
