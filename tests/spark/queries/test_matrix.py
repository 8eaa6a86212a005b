"""Every query as a stream into the sink, killed and restarted on the way, against the same query as a batch.

A few of each kind run by default, all of them with `--thorough` (`make queries`).
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.queries.case import Case, Kind
from tests.spark.queries.matrix import CASES
from tests.spark.queries.play import Play
from tests.spark.queries.spark_kafka import missing_connector


def _parameter(case: Case) -> object:
    marks = [] if case.is_quick else [pytest.mark.thorough]
    if case.pending:
        marks.append(pytest.mark.xfail(reason=case.pending, strict=False))
    return pytest.param(case, id=case.name, marks=marks)


@pytest.mark.parametrize("case", [_parameter(case) for case in CASES])
def test_query(case: Case, spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    if any(source.kind is Kind.KAFKA for source in case.sources.values()) and (reason := missing_connector()):
        pytest.skip(reason)
    Play(spark, bootstrap, case, tmp_path).play()


def test_names_are_different() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
