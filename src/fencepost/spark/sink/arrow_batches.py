"""How much Spark sends to Python at a time: bounded by rows of a bounded size, where that is cheaper than by bytes.

Spark bounds an Arrow batch by its bytes, and computes them after every row: a third of the time that a typed pipeline
spends in the JVM. Without a bound it does not. So if rows were small so far, they are bounded in number instead, and a
filter makes sure that none is large. If one is, the job fails before anything is written, and is run again with Spark's
own bound, which then stays.

Not if the user has set a bound, and not if the query has Python operators of its own: it would hold for them as well.
"""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from fencepost.spark.record_types import HEADERS
from fencepost.spark.sink.column_types import ANY_SIZE, BATCH_BYTES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
#: Together 64 MB, which is Spark's bound.
ROWS_MAX, ROW_BYTES_MAX = 16 << 10, 4 << 10
#: If rows have this much on average, some will have more than the filter takes.
AVERAGE_MAX = 1 << 10
TOO_LARGE = "fencepost: a row has too many bytes for a batch of a fixed number of rows"


class ArrowBatches:
    """For the jobs of one query."""

    def __init__(self, session: "SparkSession") -> None:
        self._is_allowed = session.conf.get(BATCH_BYTES, None) is None
        self._row_bytes: int | None = None  #: the largest average of a batch; None if nothing is known

    def learn(self, row_bytes: int) -> None:
        self._row_bytes = max(self._row_bytes or 0, row_bytes)

    def forbid(self) -> None:
        """There was a large row."""
        self._is_allowed = False

    @property
    def are_by_rows(self) -> bool:
        return self._is_allowed and self._row_bytes is not None and self._row_bytes <= AVERAGE_MAX

    @contextlib.contextmanager
    def settings(self, session: "SparkSession") -> Iterator[None]:
        """Around a job over `checked` rows that is planned and run inside."""
        before = session.conf.get(BATCH_ROWS, None)
        session.conf.set(BATCH_BYTES, ANY_SIZE)
        session.conf.set(BATCH_ROWS, str(ROWS_MAX))
        try:
            yield
        finally:
            session.conf.unset(BATCH_BYTES)
            if before is None:
                session.conf.unset(BATCH_ROWS)
            else:
                session.conf.set(BATCH_ROWS, before)


def checked(rows: "DataFrame") -> "DataFrame":
    """The rows of flat columns (`flat`). A job over them fails if one is large."""
    sizes = []
    for name, kind in rows.dtypes:
        column = "`" + name.replace("`", "``") + "`"
        if kind in ("string", "binary"):
            sizes.append(f"ifnull(octet_length({column}), 0)")
        elif kind == HEADERS:
            sizes.append(f"IF(size({column}) > 0, octet_length(to_json({column})), 0)")
    if not sizes:
        return rows
    return rows.where(f"IF({' + '.join(sizes)} <= {ROW_BYTES_MAX}, true, CAST(raise_error('{TOO_LARGE}') AS BOOLEAN))")


def can_be_checked(rows: "DataFrame") -> bool:
    """Whether the sizes of all columns are easily found."""
    return all(kind == HEADERS or not kind.startswith(("array", "map", "struct", "variant")) for _, kind in rows.dtypes)


def is_about_size(error: Exception) -> bool:
    """Whether a job failed because a row is large."""
    return TOO_LARGE in str(error)
