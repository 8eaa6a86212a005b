"""The metrics of this process's pipelines as Prometheus' text. Names begin with `fencepost_pipeline_` for what the sink
knows, and with `fencepost_query_` for what Spark tells."""

from fencepost.metrics.text import Exposition, Samples
from fencepost.spark.metrics.book import BOOK, Book, PipelineSums, QueryFacts


def render(book: Book = BOOK) -> str:
    page = Exposition()
    _totals(page, book.pipelines())
    _times(page, book)
    _queries(page, book.queries())
    return page.text()


def _totals(page: Exposition, pipelines: dict[str, PipelineSums]) -> None:
    def each(name: str) -> Samples:
        return [({"pipeline": pipeline}, getattr(sums, name)) for pipeline, sums in pipelines.items()]

    page.counter(
        "fencepost_pipeline_batches_total",
        "Batches: committed, or skipped because they were committed before.",
        [
            ({"pipeline": pipeline, "outcome": outcome}, count)
            for pipeline, sums in pipelines.items()
            for outcome, count in (("committed", sums.committed), ("skipped", sums.skipped))
        ],
    )
    page.counter(
        "fencepost_pipeline_attempts_total",
        "Transactions that were begun for batches and ended, committed or aborted.",
        [({"pipeline": pipeline}, sums.committed + sums.aborted) for pipeline, sums in pipelines.items()],
    )
    page.counter("fencepost_pipeline_aborts_total", "Transactions that the pipeline aborted.", each("aborted"))
    page.counter("fencepost_pipeline_records_total", "Committed records, changes of state among them.", each("records"))
    page.counter("fencepost_pipeline_written_bytes_total", "Bytes of committed record batches.", each("bytes"))
    page.counter(
        "fencepost_pipeline_dead_letters_total",
        "Rows that could not be written, by reason.",
        [
            ({"pipeline": pipeline, "reason": reason}, count)
            for pipeline, sums in pipelines.items()
            for reason, count in sorted(sums.dead_letters.items())
        ],
    )
    page.counter(
        "fencepost_pipeline_state_restore_seconds_total",
        "Time that tasks took to catch up with changelogs, added up over tasks.",
        each("restore_s"),
    )
    page.counter(
        "fencepost_pipeline_state_restored_records_total", "Records of changelogs that they read.", each("restored")
    )


def _times(page: Exposition, book: Book) -> None:
    times = book.times()
    page.histogram(
        "fencepost_pipeline_commit_seconds",
        "Time of a commit: offsets, ledger and EndTxn.",
        [({"pipeline": pipeline}, each.commits) for pipeline, each in times.items()],
    )
    page.histogram(
        "fencepost_pipeline_write_seconds",
        "Time of writing a batch, from the first permit to the last acknowledgement.",
        [({"pipeline": pipeline}, each.writes) for pipeline, each in times.items()],
    )
    page.gauge(
        "fencepost_pipeline_last_commit_timestamp_seconds",
        "When the last commit was.",
        [({"pipeline": pipeline}, each.last_commit_s) for pipeline, each in times.items()],
    )


def _queries(page: Exposition, queries: list[tuple[str, QueryFacts]]) -> None:
    found = [({"pipeline": pipeline, "query": facts.name}, facts) for pipeline, facts in queries]
    page.gauge("fencepost_query_active", "1 while the query runs.", [(each, int(it.is_active)) for each, it in found])
    page.gauge(
        "fencepost_query_failed",
        "1 after it ended with an error, until it starts again.",
        [(each, int(it.has_failed)) for each, it in found],
    )
    page.counter(
        "fencepost_query_input_rows_total", "Rows that it read.", [(each, it.input_rows) for each, it in found]
    )
    page.gauge(
        "fencepost_query_lag_offsets",
        "Offsets between the query and the ends of its topics when its last batch was planned. Markers and aborted "
        "records count, so it is an upper bound of the records.",
        [(each, it.lag_offsets) for each, it in found if it.lag_offsets is not None],
    )
    page.histogram(
        "fencepost_query_batch_seconds",
        "Time of a batch, from trigger to trigger.",
        [(each, it.batches) for each, it in found],
    )
