"""All cases: what people read, query and write, in the combinations that differ for the sink."""

from collections.abc import Mapping
from typing import Any

from tests.spark.queries import acts, sinks
from tests.spark.queries import python_state as ps
from tests.spark.queries import queries as q
from tests.spark.queries.acts import Check, Loss, Run, Write
from tests.spark.queries.case import ROCKS, Case, Kind, Match, Query, Source, Subscribed, Written
from tests.spark.queries.inputs import waves

#: Spark's own state is in the checkpoint.
IN_CHECKPOINT: dict[str, Any] = {"loss": Loss.OF_STATE}
WINDOWS: dict[str, Any] = {**IN_CHECKPOINT, "has_watermark": True}
IN_ORDER: dict[str, Any] = {"match": Match.IN_ORDER}
#: Totals by key, whoever keeps them.
TOTALS: dict[str, Any] = {"expected": q.totals, "running": q.running_totals, "match": Match.LATEST}
UPDATED_TOTALS: dict[str, Any] = {**TOTALS, **IN_CHECKPOINT, "mode": "update"}
OURS: dict[str, Any] = {**TOTALS, "sink": sinks.with_step}
DEAD_LETTERS: dict[str, Any] = {"expected": q.with_dead_letters, "outputs": {"out": 2, sinks.DEAD: 1}}
BY_TASKS = {"smallBatchRecords": "0"}
ADAPTIVE = {"spark.sql.adaptive.enabled": "true"}
CHECKPOINT_V2 = {**ROCKS, "spark.sql.streaming.stateStore.checkpointFormatVersion": "2"}
NO_DATA_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"


def case(name: str, query: Query, **more: Any) -> Case:
    """With one source, `a`, and `write_stream`, unless given."""
    given: dict[str, Any] = {"sources": sources(a={}), "sink": sinks.by_write_stream}
    return Case(name, query, **{**given, **more})


def sources(**changes: Mapping[str, Any]) -> dict[str, Source]:
    """Each with rows of its own: `sources(a={}, b={"partitions": 1})`."""
    return {name: Source(**{"waves": waves(number), **more}) for number, (name, more) in enumerate(changes.items())}


def reading(name: str, given: dict[str, Source], **more: Any) -> Case:
    """The rows of all sources, as they are."""
    return case(name, q.union_of(*given), sources=given, **more)


TWO = sources(a={}, b={})
AND_FILES = sources(a={}, b={"kind": Kind.FILES})
AND_SPARKS = sources(a={}, b={"kind": Kind.KAFKA})
READ_TWICE = sources(a={}, b={"same_as": "a"})
#: Rows in the first wave only, in the second only, or in none.
FIRST_ONLY, SECOND_ONLY, NEVER = ({"waves": each} for each in ((waves(1)[0], ()), ((), waves(1)[1]), ((), ())))
PATTERN = {"subscribed": Subscribed.BY_PATTERN}

STATELESS = [
    case("projection", q.projection, **IN_ORDER, is_quick=True),
    case("filter", q.filtered, **IN_ORDER),
    case("filter to nothing", q.nothing),
    case("explode", q.exploded, **IN_ORDER),
    case("stream-static join", q.with_static_table),
    case("stream-static join, adaptive execution", q.with_static_table, conf=ADAPTIVE),
    case("two output topics", q.to_two_topics, outputs={"out": 2, "right": 1}, **IN_ORDER),
    case("keys, headers, partitions, timestamps, null values", q.with_everything_a_record_has, **IN_ORDER),
    case("pandas UDF", q.with_pandas_udf, **IN_ORDER),
    case("mapInArrow", q.with_map_in_arrow, **IN_ORDER),
    case("spark.sql", q.in_sql, **IN_ORDER),
    case("written by tasks", q.projection, options=BY_TASKS, **IN_ORDER),
    case("dead letters", q.with_bad_rows, **DEAD_LETTERS, is_quick=True),
    case("dead letters, written by tasks", q.with_bad_rows, **DEAD_LETTERS, options=BY_TASKS),
    case("dead letters, in two writes", q.with_bad_rows, **DEAD_LETTERS, sink=sinks.in_two_writes),
    case("transaction protocol 1", q.projection, options={"transactionProtocol": "1"}, **IN_ORDER),
]

SOURCES = [
    reading("several topics", sources(a={"topics": 3}), **IN_ORDER),
    reading("subscribePattern", sources(a={"topics": 2, **PATTERN}), **IN_ORDER),
    reading("assign", sources(a={"subscribed": Subscribed.BY_PARTITION}), **IN_ORDER),
    reading("split partitions", sources(a={"options": {"minPartitions": "5"}})),
    reading(
        "from the earliest offsets",
        sources(a={"options": {"startingOffsets": "earliest"}}),
        loss=Loss.OF_START,
        **IN_ORDER,
    ),
    case("headers", q.with_headers, sources=sources(a={"options": {"includeHeaders": "true"}}), **IN_ORDER),
    reading("records in transactions, some aborted", sources(a={"written": Written.WITH_ABORTS})),
    reading("a compacted topic", sources(a={"written": Written.COMPACTED})),
    reading("a topic gets more partitions", sources(a={}), acts=acts.GROWING),
    reading("another topic matches", sources(a=PATTERN), acts=acts.GROWING),
    reading("two sources", TWO),
    reading("three sources", sources(a={}, b={}, c={"partitions": 1})),
    reading("two sources, one quiet later", sources(a={}, b=FIRST_ONLY), is_quick=True),
    reading("two sources, one quiet at first", sources(a={}, b=SECOND_ONLY)),
    reading("two sources, one always quiet", sources(a={}, b=NEVER)),
    reading("a topic read twice", READ_TWICE),
    reading(
        "a topic read twice, at different speeds",
        sources(a={}, b={"same_as": "a", "per_batch": 7}),
        acts=acts.KEEPING_CHECKPOINT,
    ),
    case("one DataFrame twice", q.union_with_itself),
    reading("a source of Spark's", sources(a={"kind": Kind.KAFKA}), loss=Loss.OF_START),
    reading("ours and a source of Spark's", AND_SPARKS, loss=Loss.OF_START),
    reading("files", sources(a={"kind": Kind.FILES}), loss=Loss.OF_POSITIONS, acts=acts.FILES_ACTS),
    reading("ours and files", AND_FILES, loss=Loss.OF_POSITIONS),
    reading("rate-micro-batch", {"a": Source(kind=Kind.RATE_BY_BATCH)}, acts=acts.RATE_ACTS),
    reading(
        "ours and rate-micro-batch",
        {"a": Source(waves()), "b": Source(kind=Kind.RATE_BY_BATCH)},
        loss=Loss.OF_POSITIONS,
    ),
    reading(
        "rate",
        {"a": Source(kind=Kind.RATE)},
        trigger={"processingTime": "20 milliseconds"},
        acts=acts.ENDLESS_ACTS,
    ),
]

JOINS = [
    case("stream-stream join", q.join_of("inner"), sources=TWO, **WINDOWS, is_quick=True),
    case("left outer join", q.join_of("left"), sources=TWO, **WINDOWS),
    case("full outer join", q.join_of("full"), sources=TWO, **WINDOWS),
    case("left semi join", q.semi_join, sources=TWO, **WINDOWS),
    case("left outer join, one side quiet", q.join_of("left"), sources=sources(a={}, b=FIRST_ONLY), **WINDOWS),
    case("join of a topic with itself", q.join_with_itself, **WINDOWS),
    case("join of a topic read twice", q.join_of("inner"), sources=READ_TWICE, **WINDOWS),
    case("join with files", q.join_of("inner"), sources=AND_FILES, **WINDOWS),
    case("join with a source of Spark's", q.join_of("inner"), sources=AND_SPARKS, **WINDOWS),
]

TUMBLING = q.windows_of(q.tumbling)
SPARK_STATE = [
    case("tumbling windows, append", TUMBLING, **WINDOWS),
    case("sliding windows, append", q.windows_of(q.sliding), **WINDOWS),
    case("session windows, append", q.windows_of(q.session), **WINDOWS),
    *(
        case(f"{name}, {mode}", query, running=running, mode=mode, match=match, sink=sink, **IN_CHECKPOINT)
        for mode, match, sink in (
            ("update", Match.LATEST, sinks.by_write_stream),
            ("complete", Match.ALL_AGAIN, sinks.by_foreach_batch),
        )
        for name, query, running in (
            ("totals", q.totals, q.running_totals),
            ("one total", q.total_of_all, None),
            ("tumbling windows", TUMBLING, q.running_windows_of(q.tumbling)),
            ("sliding windows", q.windows_of(q.sliding), q.running_windows_of(q.sliding)),
        )
    ),
    case("limit", q.first_few, sources=sources(a={"partitions": 1}), **IN_CHECKPOINT),
    case("dropDuplicates", q.without_duplicates, **IN_CHECKPOINT),
    case("dropDuplicates with watermark", q.without_duplicates_with_watermark, **WINDOWS),
    case("dropDuplicatesWithinWatermark", q.without_duplicates_within_watermark, **WINDOWS),
    case("dropDuplicates, then windows", q.duplicates_then_windows, **WINDOWS),
    case("windows of windows", q.windows_of_windows, **WINDOWS),
    case("union of stateful branches", q.union_of_windows_and_duplicates, sources=TWO, **WINDOWS),
    case("applyInPandasWithState", ps.totals_by_pandas, sink=sinks.by_foreach_batch, **UPDATED_TOTALS),
    case(
        "transformWithStateInPandas", ps.totals_by_processor, sink=sinks.by_foreach_batch, conf=ROCKS, **UPDATED_TOTALS
    ),
    case("applyInPandasWithState, event-time timeout", ps.days_by_pandas, expected=ps.days, **WINDOWS),
    case("transformWithStateInPandas, event-time timer", ps.days_by_processor, expected=ps.days, conf=ROCKS, **WINDOWS),
    case("windows, RocksDB", TUMBLING, conf=ROCKS, **WINDOWS),
    case("windows, RocksDB with checkpoints of version 2", TUMBLING, conf=CHECKPOINT_V2, **WINDOWS),
    case("windows, adaptive execution", TUMBLING, conf=ADAPTIVE, **WINDOWS),
    case(
        "windows, the latest of two watermarks",
        q.join_of("left"),
        sources=TWO,
        conf={"spark.sql.streaming.multipleWatermarkPolicy": "max"},
        **WINDOWS,
    ),
]

AND_RIGHT, AND_ROWS = {"out": 2, "right": 2}, {"out": 2, "rows": 2}
#: The batch query has both topics; what each key was on the way is not compared.
TOTALS_AND_ROWS: dict[str, Any] = {"expected": q.totals_and_rows, "match": Match.LATEST, "outputs": AND_ROWS}
OUR_STATE = [
    case("a step of ours", q.rows_of("a"), **OURS),
    case("a step of ours, written by tasks", q.rows_of("a"), **OURS, options=BY_TASKS),
    case("a step of ours after Spark's state", q.distinct_rows, **OURS, **IN_CHECKPOINT),
    case(
        "a step of ours on two sources",
        q.rows_of("a", "b"),
        sources=TWO,
        **{**OURS, "expected": q.totals_of("a", "b"), "running": None},
    ),
    case(
        "two steps of ours",
        q.rows_of("a"),
        outputs=AND_RIGHT,
        expected=q.totals_in_both_topics,
        match=Match.LATEST,
        sink=sinks.with_two_steps,
    ),
    case("a step of ours, and rows beside it", q.rows_of("a"), sink=sinks.with_step_and_rows, **TOTALS_AND_ROWS),
]

SINKS = [
    case("foreachBatch", q.projection, sink=sinks.by_foreach_batch, **IN_ORDER),
    case("beside parquet", q.projection, sink=sinks.beside_parquet, acts=acts.KEEPING_CHECKPOINT, **IN_ORDER),
    case("foreachBatch that counts first", q.projection, sink=sinks.counting_first, **IN_ORDER),
    case(
        "foreachBatch that passes over empty batches",
        q.few,
        sources=sources(a={"per_batch": 2}),
        sink=sinks.unless_empty,
        moves_group=False,
        acts=acts.PASSING_OVER,
        options={"kafka.transaction.timeout.ms": "10000"},
        pending="with a new checkpoint, empty batches that were passed over are taken for a gap",
        **IN_ORDER,
    ),
    case("windows, counted first", TUMBLING, sink=sinks.counting_first, **WINDOWS),
    case("totals, counted first", q.totals, sink=sinks.counting_first, **UPDATED_TOTALS),
    case("a failure after the writer", q.projection, sink=sinks.before_something_else, acts=acts.FAILING_AFTER),
    case(
        "windows, a failure after the writer",
        TUMBLING,
        sink=sinks.before_something_else,
        acts=acts.FAILING_AFTER_WINDOWS,
        **WINDOWS,
    ),
    case(
        "two pipelines in one foreachBatch",
        q.union_of("a"),
        expected=q.in_both(q.union_of("a"), *AND_RIGHT),
        outputs=AND_RIGHT,
        sink=sinks.two_pipelines,
        acts=acts.KEEPING_CHECKPOINT,
        **IN_ORDER,
    ),
    case("windows, beside parquet", TUMBLING, sink=sinks.beside_parquet, **WINDOWS),
    case("several writes in a batch", q.rows_of("a"), sink=sinks.several_writes, **TOTALS_AND_ROWS, is_quick=True),
    case(
        "several writes of Spark's state in a batch",
        q.totals,
        outputs=AND_ROWS,
        sink=sinks.to_each_output,
        **{**UPDATED_TOTALS, "expected": q.in_both(q.totals, *AND_ROWS), "running": None},
    ),
]

EVERY_TRIGGER: dict[str, dict[str, Any]] = {
    "availableNow": {"availableNow": True},
    "processingTime": {"processingTime": "20 milliseconds"},
    "no trigger": {},
    "once": {"once": True},
}


def triggered(name: str, *end: acts.Act) -> dict[str, Any]:
    """A query that is triggered once has acts of its own, which end with these."""
    return {"trigger": EVERY_TRIGGER[name], "acts": (*acts.ONCE, *end) if name == "once" else ()}


TRIGGERS = [
    *(
        case(f"projection, {name}", q.projection, **triggered(name, Check()), **IN_ORDER)
        for name in EVERY_TRIGGER
        if name != "availableNow"
    ),
    *(
        case(
            f"{what}, {name}, {'with' if no_data else 'without'} batches without data",
            query,
            sources=TWO,
            conf={NO_DATA_BATCHES: str(no_data).lower()},
            **triggered(name, Write(2), Run(), Write(3), Run(), Check()),
            **WINDOWS,
        )
        for what, query in (("windows", q.windows_of(q.tumbling, "a", "b")), ("join", q.join_of("left")))
        for no_data in (True, False)
        for name in EVERY_TRIGGER
    ),
]

CASES = [*STATELESS, *SOURCES, *JOINS, *SPARK_STATE, *OUR_STATE, *SINKS, *TRIGGERS]
