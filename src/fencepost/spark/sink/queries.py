"""The running query as Spark knows it: its ids, its checkpoint, whether it runs, and what its plan has.

There are two kinds of session, and only this module and `fencepost.spark.sessions` tell them apart:

===============  =======================================================================================================
classic          `foreachBatch` calls a function in the driver's own process. Everything is asked of the query's object
                 in the JVM
Spark Connect    `foreachBatch` calls a copy of the function in a Python process of the server, which has no JVM. The
                 session lists queries by their ids. What it does not tell is noted when the query is started (`Noted`)
===============  =======================================================================================================

The offsets of a batch come from the checkpoint, with either kind (`microbatch`).
"""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from fencepost.errors import ConfigError, Malformed
from fencepost.spark.checkpoint import Checkpoint, HadoopFiles, LocalFiles, SparkFiles, local_path
from fencepost.spark.sessions import is_connect
from fencepost.spark.sink.inherited import SourceSaid, each, sources_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUERY_ID_PROPERTY = "sql.streaming.queryId"
#: In the text of every Spark operator with state.
STATE_IN_PLAN = "state info ["
FIELDS_SHOWN = 25
#: The metric of a source in a plan from which Spark takes a batch's `numInputRows`.
ROWS_METRIC = "numOutputRows"
#: In the names of Spark's operators that send rows to Python.
PYTHON_OPERATORS = ("Python", "Pandas", "InArrow", "PySpark")
OUTSIDE = (
    "call this function from foreachBatch of a streaming query; for a batch query use fencepost.spark.write. A thread "
    "of your own that calls it must be a pyspark.InheritableThread"
)


@dataclass(frozen=True, slots=True)
class Noted:
    """What is known of a query before it starts. Travels with the function to the server of Spark Connect."""

    checkpoint: str | None = None
    keeps_state: bool | None = None  #: whether it has stateful operators of Spark; None if unknown
    runs_python: bool | None = None  #: whether it has Python operators; None if unknown
    sources: Sequence[SourceSaid] = ()


def note(df: "DataFrame", checkpoint: str, sources: Sequence[SourceSaid]) -> Noted:
    """What is known of a query that will write this streaming DataFrame."""
    if not is_connect(df.sparkSession):
        return Noted(checkpoint)
    plan = _explained(df)
    if plan is None:
        return Noted(checkpoint, sources=tuple(sources))
    runs_python = any(_is_python(line) for line in plan.splitlines())
    return Noted(checkpoint, STATE_IN_PLAN in plan, runs_python, tuple(sources))


def _explained(df: Any) -> str | None:
    """The physical plan; None if the server does not explain it."""
    from pyspark.errors import AnalysisException

    try:
        return str(df._explain_string(extended=False))
    except AnalysisException:  # a stream behind a view is only planned when it starts
        return None


def _is_python(operator: str) -> bool:
    """Whether an operator of this name, or with this line in a plan, sends rows to Python. A source is none."""
    name = operator.strip(" +-:*()0123456789").split(" ")[0]
    return any(word in name for word in PYTHON_OPERATORS)


class RunningQuery(Protocol):
    query_id: str  #: of the checkpoint; survives restarts
    run_id: str  #: of this start of the query

    @property
    def checkpoint(self) -> Checkpoint: ...

    def is_active(self) -> bool:
        """Whether it still runs; no longer while it is being stopped."""

    def keeps_state(self) -> bool | None:
        """Whether it has stateful operators of Spark, whose state is in its checkpoint; None if unknown."""

    def runs_python(self) -> bool | None:
        """Whether it has operators that send rows to Python; None if unknown."""

    def sources(self) -> Sequence[SourceSaid]:
        """The options of its `fencepost` sources."""

    def batches_told(self) -> list[int]:
        """The numbers of this run's last completed batches, as far back as Spark remembers."""


def calling(df: "DataFrame", noted: Noted) -> RunningQuery:
    """The query whose `foreachBatch` is calling with this DataFrame. Raises ConfigError if there is none."""
    session: Any = df.sparkSession
    if is_connect(session):
        return _ConnectQuery.calling(session, noted)
    query_id = session.sparkContext.getLocalProperty(QUERY_ID_PROPERTY)
    if not query_id:
        raise ConfigError(OUTSIDE)
    found = find(session, query_id)
    if found is None:
        raise ConfigError(f"query {query_id} is not running in this Spark session")
    return found


def find(session: "SparkSession", query_id: str) -> RunningQuery | None:
    """The query of this id in a classic session, whichever session of this Spark runs it. It may be about to stop."""
    query = _in_jvm(session, query_id)
    return None if query is None else _ClassicQuery(session, query_id, query)


def note_rows(query: RunningQuery, count: int) -> None:
    """Let Spark's metrics of the running batch say that its source gave so many rows, if that can be done."""
    if isinstance(query, _ClassicQuery):
        query.note_rows(count)


def is_active(session: "SparkSession", query_id: str) -> bool:
    """Whether a query of this id runs, in either kind of session."""
    if is_connect(session):
        return _is_active_on_server(session.streams.get(query_id))
    found = find(session, query_id)
    return found is not None and found.is_active()


class _ClassicQuery:
    def __init__(self, session: Any, query_id: str, query: Any) -> None:
        self.query_id = query_id
        self.run_id = str(query.runId().toString())
        self._session = session
        self._query = query
        self._runs_python: bool | None = None  #: None if it was not asked

    @property
    def checkpoint(self) -> Checkpoint:
        root = str(self._query.resolvedCheckpointRoot())
        path = local_path(root)
        return Checkpoint(HadoopFiles(root, self._session) if path is None else LocalFiles(path))

    def is_active(self) -> bool:
        return bool(self._query.isActive())

    def keeps_state(self) -> bool:
        plan = self._query.getLatestExecutionContext().executionPlan().executedPlan()
        return _any_operator(plan, lambda operator: STATE_IN_PLAN in operator.simpleString(FIELDS_SHOWN))

    def runs_python(self) -> bool:
        if self._runs_python is None:
            plan = self._query.getLatestExecutionContext().executionPlan().executedPlan()
            self._runs_python = _any_operator(plan, lambda operator: _is_python(operator.nodeName()))
        return self._runs_python

    def sources(self) -> Sequence[SourceSaid]:
        return sources_in(self._query.analyzedPlan())

    def note_rows(self, count: int) -> None:
        with contextlib.suppress(Exception):  # of another form in another version: it is only shown
            plan = self._query.getLatestExecutionContext().executionPlan().executedPlan()
            found = plan.collectLeaves().head().metrics().get(ROWS_METRIC)
            if found.isDefined():
                found.get().add(count)

    def batches_told(self) -> list[int]:
        return [int(progress.batchId()) for progress in self._query.recentProgress()]


def _in_jvm(session: Any, query_id: str) -> Any:
    from py4j.java_gateway import JavaClass

    # `_jvm.java.util.UUID` would look up each package in the JVM, which takes three milliseconds.
    uuid = JavaClass("java.util.UUID", session.sparkContext._gateway._gateway_client).fromString(query_id)
    return session._jsparkSession.sharedState().activeStreamingQueries().get(uuid)


def _any_operator(operator: Any, condition: Callable[[Any], bool]) -> bool:
    """Operator by operator, because spark.sql.maxPlanStringLength truncates the text of a whole plan."""
    return condition(operator) or any(_any_operator(child, condition) for child in each(operator.children()))


class _ConnectQuery:
    def __init__(self, query: Any, noted: Noted, checkpoint: Checkpoint) -> None:
        self.query_id = str(query.id)
        self.run_id = str(query.runId)
        self._checkpoint = checkpoint
        self._query = query
        self._noted = noted

    @classmethod
    def calling(cls, session: Any, noted: Noted) -> "_ConnectQuery":
        if noted.checkpoint is None:
            raise ConfigError(
                "with Spark Connect a writer must know the query's checkpoint: batch_writer(..., checkpoint=...) with "
                "the checkpointLocation of the query"
            )
        running = {str(query.id): query for query in session.streams.active}
        for checkpoint in _candidates(session, noted.checkpoint):
            with contextlib.suppress(Malformed):  # of something else that has this path on another file system
                query_id = checkpoint.query_id
                if query_id in running:
                    return cls(running[query_id], noted, checkpoint)
        raise ConfigError(
            f"no running query of this session has the checkpoint {noted.checkpoint!r}: give batch_writer the "
            f"checkpointLocation of the query, as an absolute path or an address. Otherwise {OUTSIDE}"
        )

    @property
    def checkpoint(self) -> Checkpoint:
        return self._checkpoint

    def is_active(self) -> bool:
        return _is_active_on_server(self._query)

    def keeps_state(self) -> bool | None:
        # The plan's text may be cut (spark.sql.maxPlanStringLength), so the checkpoint is asked as well.
        return self._noted.keeps_state or self._checkpoint.has_state or self._noted.keeps_state

    def runs_python(self) -> bool | None:
        return self._noted.runs_python

    def sources(self) -> Sequence[SourceSaid]:
        return self._noted.sources

    def batches_told(self) -> list[int]:
        return [int(progress.batchId) for progress in self._query.recentProgress]


def _is_active_on_server(query: Any) -> bool:
    from pyspark.errors import PySparkException

    try:
        return query is not None and bool(query.isActive)
    except PySparkException:
        return False  # the server is going away


def _candidates(session: Any, root: str) -> list[Checkpoint]:
    """Where the checkpoint may be: a path without a scheme is on the cluster's default file system, whichever that is.

    Local files come first: they are read without a job of Spark.
    """
    path = local_path(root)
    remote = Checkpoint(SparkFiles(root.rstrip("/"), session))
    return [remote] if path is None else [Checkpoint(LocalFiles(path)), remote]
