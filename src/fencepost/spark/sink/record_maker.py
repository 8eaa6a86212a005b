"""How the rows of a batch become records: columns that are selected, a transform with state, or an Arrow function.

Invariant: for `write_stream` the columns are selected once, before the query starts (`prepare`), so that a wrong one
fails there. Otherwise they are selected from what the user's function makes of each batch.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fencepost.errors import ConfigError
from fencepost.spark.columnar.plan import ColumnarQuery, columnar_query
from fencepost.spark.columnar.rebase import RowsPlan, rows_plan
from fencepost.spark.sink.arrow_transform import ArrowTransform, TransformArrow, arrow_transform, input_rows
from fencepost.spark.sink.batch import Write
from fencepost.spark.sink.columns import select_columns, with_topic
from fencepost.spark.sink.flat import flatten
from fencepost.spark.sink.settings import SinkSettings
from fencepost.spark.source import tables
from fencepost.spark.state.plan import State

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WITH_STATE = (
    "the options keyFormat and valueFormat are not for a transform with state: a step's changes are among the records, "
    "and their keys and values are text. Take out the options; a STRUCT, MAP or ARRAY is written as JSON without them"
)

#: From the rows of a batch, and the pipeline's state, to records.
Transform = Callable[["DataFrame", State], "DataFrame"]


class RecordMaker:
    """For all batches of a query."""

    def __init__(
        self, settings: SinkSettings, transform: Transform | None, transform_arrow: TransformArrow | None
    ) -> None:
        if transform is not None and transform_arrow is not None:
            raise ConfigError(
                "give transform, which makes DataFrames, or transform_arrow, which makes tables: not both"
            )
        self._settings = settings
        self._transform = transform
        self.transform_arrow = transform_arrow
        self.is_prepared = False
        self._arrow: ArrowTransform | None = None
        self.columnar: ColumnarQuery | None = None  #: the whole query, if it can be evaluated on columns
        self._rows: RowsPlan | None = None  #: how Spark computes it then, if it has to

    def __getstate__(self) -> dict[str, Any]:
        """Spark Connect sends a copy to its server, with the sources that rows of `read_tables` refer to."""
        return {"attributes": dict(self.__dict__), "sources": tables.registered()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state["attributes"])
        tables.restore(state["sources"])

    def prepare(self, df: "DataFrame") -> "DataFrame":
        """Check and select the columns once for the whole query. Raises ConfigError if one is missing or wrong."""
        self.is_prepared = True
        if self.transform_arrow is not None:
            self.arrow(df)
            return flatten(input_rows(df))
        selected = flatten(self._selected(df, self._settings.topic))
        if self._settings.is_columnar:
            self.columnar = columnar_query(self._selected(df, self._settings.topic, for_rows=False))
        if self.columnar is not None:
            self._rows = rows_plan(selected)
        if self._rows is None:
            self.columnar = None
            return selected
        return self._rows.source()

    def arrow(self, df: "DataFrame") -> ArrowTransform | None:
        """What `transform_arrow` does to the rows that `records` gives."""
        if self._arrow is None and self.transform_arrow is not None:
            self._arrow = arrow_transform(df, self.transform_arrow, self._settings.dead_letters)
        return None if self._arrow is None else replace(self._arrow, sources=tables.registered())

    def records(self, df: "DataFrame") -> Write:
        """A function that makes the records of a whole batch, for each attempt at it."""

        def make(state: State) -> "DataFrame":
            if self.transform_arrow is not None:
                return df if self.is_prepared else input_rows(df)
            records, topic = df if self._transform is None else self._transform(df, state), self._settings.topic
            if topic is not None and state.changelogs:  # changes of state go to a topic of their own
                records, topic = with_topic(records, topic, unless_given=True), None
            if self._rows is not None:
                return self._rows.rows(records)
            if self.is_prepared:
                return records
            if state.changelogs and self._settings.formats.are_given:
                raise ConfigError(WITH_STATE)
            return self._selected(records, topic)

        return make

    def _selected(self, records: "DataFrame", topic: str | None, *, for_rows: bool = True) -> "DataFrame":
        settings = self._settings
        return select_columns(records, topic, settings.dead_letters, settings.formats, for_rows=for_rows)
