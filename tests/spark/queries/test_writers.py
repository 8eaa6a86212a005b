"""Writers in functions of people's own: used over several starts of a query, and for values that are made up."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession

from tests.spark.queries import queries as q
from tests.spark.queries.acts import Check, Write
from tests.spark.queries.case import Case, Match
from tests.spark.queries.given import Given
from tests.spark.queries.inputs import waves
from tests.spark.queries.matrix import case
from tests.spark.queries.play import Play
from tests.spark.queries.sinks import Start, to_each_output

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from fencepost.spark.sink.pipeline import Pipeline

SPOILED = "something else failed"


class KeptWriter:
    """A sink whose writer outlives its queries. Ordinary errors come before or after it, in the batches named."""

    def __init__(self, before: set[int], after: set[int]) -> None:
        self._before, self._after = before, after
        self.writer: Pipeline | None = None

    def __call__(self, start: Start) -> "StreamingQuery":
        writer = self.writer = self.writer or start.writer(topic=start.topic)
        start.writers.clear()  # not to be closed after this start

        def write(df: "DataFrame", batch_id: int) -> None:
            if batch_id in self._before:
                self._before.discard(batch_id)
                raise RuntimeError(SPOILED)
            writer(df, batch_id)
            if batch_id in self._after:
                self._after.discard(batch_id)
                raise RuntimeError(SPOILED)

        return start.start(write)


def kept(name: str, sink: KeptWriter) -> Case:
    if name == "rows":
        return case(name, q.projection, sink=sink, match=Match.IN_ORDER)
    return case(name, q.totals, sink=sink, match=Match.LATEST, running=q.running_totals, mode="update")


@pytest.mark.parametrize("what", [pytest.param("rows", marks=pytest.mark.thorough), "totals"])
def test_a_writer_is_used_again_after_an_error(spark: SparkSession, bootstrap: str, tmp_path: Path, what: str) -> None:
    sink = KeptWriter(before={1, 4}, after={1, 2, 4, 5})
    play = Play(spark, bootstrap, kept(what, sink), tmp_path)
    play.act(Write(0))
    errors = []
    while (said := play.runner.run()) is not None:
        assert SPOILED in said
        errors.append(said)
        if len(errors) == 3:
            play.act(Write(1))
    assert len(errors) == 6
    play.act(Check())
    assert sink.writer is not None
    sink.writer.close()


def made_up(given: Given) -> "DataFrame":
    """The value is made up while rows are read."""
    return given("a").selectExpr("CAST(n AS STRING) AS key", "uuid() AS value")


@pytest.mark.thorough
def test_a_value_that_is_made_up_is_the_same_in_all_writes(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    outputs = {"out": 2, "right": 1}
    play = Play(spark, bootstrap, case("made up", made_up, sink=to_each_output, outputs=outputs), tmp_path)
    for act in play.case.script:
        if not isinstance(act, Check):
            play.act(act)
    found = play.outside.records()
    left, right = ({r.key: r.value for r in found if r.label == label} for label in outputs)
    assert left == right
    assert Counter(record.key for record in found) == Counter({str(row.n): 2 for wave in waves() for row in wave})
