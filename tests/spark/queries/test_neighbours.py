"""Pipelines beside and behind each other: in one session at the same time, and one that reads what another writes."""

import dataclasses
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from fencepost.lab.kit.servers import Ours
from fencepost.spark.sink.steps import BatchStep
from tests.spark.queries import queries as q
from tests.spark.queries import sinks
from tests.spark.queries.acts import Check, Death, LoseCheckpoint, Loss, Run, Write
from tests.spark.queries.case import Match, Source
from tests.spark.queries.deaths import DIED, ending
from tests.spark.queries.inputs import waves
from tests.spark.queries.matrix import OURS, case
from tests.spark.queries.play import Play
from tests.spark.queries.runner import TIMEOUT_S


def test_two_pipelines_in_one_session(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    """They read the same topic. One of them dies, whichever comes to its commit first; the other goes on."""
    rows = case("rows", q.projection, match=Match.IN_ORDER)
    totals = case("totals", q.rows_of("a"), **OURS)
    first = Play(spark, bootstrap, rows, tmp_path / "rows")
    plays = [first, Play(spark, bootstrap, totals, tmp_path / "totals", topics=first.place.topics)]
    first.act(Write(0))
    with ending(Death(BatchStep.COMMITTED, passes=2)):
        queries = [play.runner.start()[0] for play in plays]
        said = []
        for query in queries:
            try:
                assert query.awaitTermination(TIMEOUT_S)
            except StreamingQueryException as error:
                said.append(str(error))
        for query in queries:
            query.stop()
    assert len(said) == 1 and DIED in said[0]
    for play in plays:
        play.act(Run())
    first.act(Write(1))
    for play in plays:
        play.act(Run())
        play.act(Check())


@pytest.mark.parametrize("how", ["rows", pytest.param("totals", marks=pytest.mark.thorough)])
def test_one_pipeline_reads_what_another_writes(spark: SparkSession, bootstrap: str, tmp_path: Path, how: str) -> None:
    """The second sees what the first has committed, and nothing of what it had open when it died."""
    # A start may have to wait until the transaction of a dead pipeline has timed out.
    soon = {"options": {"kafka.transaction.timeout.ms": "10000"}}
    first_case = case("first", q.rows_as_they_came, match=Match.IN_ORDER, **soon)
    first = Play(spark, bootstrap, first_case, tmp_path / "first")
    if how == "rows":
        second_case = case("second", q.projection, sources={"a": Source()}, match=Match.IN_ORDER, **soon)
    else:
        second_case = case("second", q.totals, sources={"a": Source()}, match=Match.LATEST, mode="update",
                           sink=sinks.by_foreach_batch, running=q.running_totals, loss=Loss.OF_STATE,
                           **soon)  # fmt: skip
    second = Play(spark, bootstrap, second_case, tmp_path / "second", topics={"a": (first.place.outputs["out"],)})
    first.act(Write(0))
    first.act(Run(Death(BatchStep.COMMITTING, passes=1)))
    second.act(Run(Death(BatchStep.COMMITTED)))
    first.act(Run(Death(BatchStep.COMMITTED)))
    second.act(Run(Death(BatchStep.COMMITTING)))
    first.act(Write(1))
    for play in (first, second):
        play.act(Run())
        play.act(Check())


@pytest.mark.thorough
def test_input_of_another_cluster(
    spark: SparkSession, bootstrap: str, start_broker: Callable[..., Ours], tmp_path: Path
) -> None:
    """It has no group of the pipeline's, so its offsets are in the ledger alone, and nothing starts from them."""
    other = start_broker().bootstrap
    kept = case("elsewhere", q.projection, match=Match.IN_ORDER, loss=Loss.OF_START)
    Play(spark, bootstrap, kept, tmp_path, sources_bootstrap=other).play()


@pytest.mark.thorough
def test_a_pipeline_may_be_given_another_query(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    """With a new checkpoint: it goes on where the old one stopped."""
    play = Play(spark, bootstrap, case("old", q.projection), tmp_path)
    for act in (Write(0), Run(Death(BatchStep.COMMITTED, passes=1)), Run()):
        play.act(act)
    play.runner.case = dataclasses.replace(play.case, name="new", query=q.exploded)
    for later in (Write(1), LoseCheckpoint(), Run()):
        play.act(later)
    found = Counter(play.outside.records())
    done_before = {row.n for row in waves()[0]}
    old = [record for record in play.batch(q.projection) if json.loads(record.value or "")["twice"] // 2 in done_before]
    new = [record for record in play.batch(q.exploded) if json.loads(record.value or "")["n"] not in done_before]
    assert found == Counter(old + new)
