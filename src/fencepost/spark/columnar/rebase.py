"""A query's plan over the rows of one batch: how Spark runs a batch that is not evaluated on columns.

A query that is evaluated on columns is started as its source alone. Spark plans each micro-batch anew, and planning an
expression that nobody runs takes longer than a small batch. So the query's own plan is kept here, and put on top of the
rows of a batch when Spark has to compute it.

Owns the knowledge of how plans are put together in the JVM. For a chain of operators with one child each (`plan`).
"""

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

logger = logging.getLogger(__name__)


def rows_plan(df: "DataFrame") -> "RowsPlan | None":
    """None if plans are put together in another way in this Spark: this is tried before the query starts."""
    try:
        found = RowsPlan(df)
        is_same = found.rows(found.source()).schema == df.schema
    except Exception:
        logger.info("the query is run on rows: its plan cannot be put together again", exc_info=True)
        return None
    return found if is_same else None


class RowsPlan:
    """Of a streaming DataFrame in a classic session."""

    def __init__(self, df: "DataFrame") -> None:
        self._session: Any = df.sparkSession
        frame: Any = df
        operators = [frame._jdf.queryExecution().analyzed()]
        while operators[-1].children().size():
            operators.append(operators[-1].children().head())
        self._leaf = operators.pop()
        self._operators = operators[::-1]

    def source(self) -> "DataFrame":
        """The source alone."""
        return self._frame(self._leaf)

    def rows(self, batch: "DataFrame") -> "DataFrame":
        """The query's result for rows of the source."""
        found = self._renamed(batch)
        for operator in self._operators:
            found = operator.withNewChildren(self._sequence([found]))
        return self._frame(found)

    def _renamed(self, batch: Any) -> Any:
        """The rows with the source's columns: the operators know them by ids."""
        catalyst = self._session._jvm.org.apache.spark.sql.catalyst
        plan = batch._jdf.queryExecution().analyzed()
        nothing = self._session._jvm.scala.Option.empty()
        columns = []
        for index in range(self._leaf.output().size()):
            given, meant = plan.output().apply(index), self._leaf.output().apply(index)
            columns.append(
                catalyst.expressions.Alias(
                    *(given, meant.name(), meant.exprId(), self._sequence([]), nothing, self._sequence([]))
                )
            )
        return catalyst.plans.logical.Project(self._sequence(columns), plan)

    def _sequence(self, elements: list[Any]) -> Any:
        return self._session._jvm.PythonUtils.toSeq(elements)

    def _frame(self, plan: Any) -> "DataFrame":
        from pyspark.sql.classic.dataframe import DataFrame

        dataset = self._session._jvm.org.apache.spark.sql.classic.Dataset
        return DataFrame(dataset.ofRows(self._session._jsparkSession, plan), self._session)
