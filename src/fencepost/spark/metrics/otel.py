"""The same metrics for those who push with OpenTelemetry: a listener for `spark.streams.addListener`.

Instruments are named as OpenTelemetry does it: dots, no unit and no `total` in the name. Which exporter sends them
where is up to the program's meter provider.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from fencepost.errors import ConfigError
from fencepost.spark.metrics.book import BOOK, PipelineSums
from fencepost.spark.metrics.listener import QueryListener
from fencepost.spark.sessions import active_session
from fencepost.spark.sink.progress import TransactionProgress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

try:
    from opentelemetry import metrics as api
except ImportError:
    raise ConfigError("OpenTelemetry is not installed: pip install 'fencepost[otel]'") from None

#: Instrument, attribute of the sums, unit, description.
_TOTALS = (
    ("fencepost.pipeline.batches", "committed", "{batch}", "Committed batches."),
    ("fencepost.pipeline.batches_skipped", "skipped", "{batch}", "Batches that were committed before."),
    ("fencepost.pipeline.aborts", "aborted", "{transaction}", "Transactions that the pipeline aborted."),
    ("fencepost.pipeline.records", "records", "{record}", "Committed records, changes of state among them."),
    ("fencepost.pipeline.written", "bytes", "By", "Bytes of committed record batches."),
    ("fencepost.pipeline.state.restore_time", "restore_s", "s", "Time that tasks took to catch up with changelogs."),
    ("fencepost.pipeline.state.restored", "restored", "{record}", "Records of changelogs that they read."),
)


class OpenTelemetryListener(QueryListener):
    """`provider` is the program's own, by default the global one; `spark` is the session that it is added to."""

    def __init__(self, provider: Any = None, spark: "SparkSession | None" = None) -> None:
        session = spark or active_session()
        if session is None:
            raise ConfigError("there is no Spark session yet: make one, then OpenTelemetryListener(spark=session)")
        meter = (provider or api.get_meter_provider()).get_meter("fencepost")
        self._commits = meter.create_histogram("fencepost.pipeline.commit_time", "s", "Offsets, ledger and EndTxn.")
        self._writes = meter.create_histogram("fencepost.pipeline.write_time", "s", "Writing a batch.")
        for name, attribute, unit, text in _TOTALS:
            meter.create_observable_counter(name, [_observe(attribute)], unit, text)
        meter.create_observable_counter(
            "fencepost.pipeline.dead_letters", [_dead_letters], "{record}", "Rows that could not be written, by reason."
        )
        meter.create_observable_gauge(
            "fencepost.query.lag", [_lags], "{offset}", "Offsets to the ends of the topics, an upper bound of records."
        )
        super().__init__(session, self._record)

    def _record(self, done: TransactionProgress) -> None:
        attributes = {"pipeline": done.pipeline}
        self._commits.record(done.commit_ms / 1000, attributes)
        self._writes.record(done.write_ms / 1000, attributes)


def _observe(attribute: str) -> Callable[[Any], Iterable[api.Observation]]:
    def values(options: Any) -> Iterable[api.Observation]:
        found: dict[str, PipelineSums] = BOOK.pipelines()
        return [api.Observation(getattr(sums, attribute), {"pipeline": name}) for name, sums in found.items()]

    return values


def _dead_letters(options: Any) -> Iterable[api.Observation]:
    for name, sums in BOOK.pipelines().items():
        for reason, count in sums.dead_letters.items():
            yield api.Observation(count, {"pipeline": name, "reason": reason})


def _lags(options: Any) -> Iterable[api.Observation]:
    for pipeline, facts in BOOK.queries():
        if facts.lag_offsets is not None:
            yield api.Observation(facts.lag_offsets, {"pipeline": pipeline, "query": facts.name})
