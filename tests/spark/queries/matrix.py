"""All cases: what people read, query and write, in the combinations that differ for the sink."""

from typing import Any

from tests.spark.queries import python_state as ps
from tests.spark.queries import queries as q
from tests.spark.queries import sinks
from tests.spark.queries.acts import (
    ENDLESS_ACTS,
    FAILING_AFTER,
    FILES_ACTS,
    GROWING,
    KEEPING_CHECKPOINT,
    PASSING_OVER,
    RATE_ACTS,
    acts_of,
)
from tests.spark.queries.case import (
    Case,
    Check,
    Death,
    Kind,
    Loss,
    Match,
    Query,
    Run,
    Source,
    Subscribed,
    Write,
    Written,
)
from tests.spark.queries.inputs import waves
from tests.spark.queries.steps import totals_step

#: Spark's own state is in the checkpoint.
IN_CHECKPOINT: dict[str, Any] = {"loss": Loss.OF_STATE}
WINDOWS: dict[str, Any] = {**IN_CHECKPOINT, "has_watermark": True}
ROCKS = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
}
NO_DATA_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"


def case(name: str, query: Query, **more: Any) -> Case:
    """With one source, `a`, and `write_stream`, unless given."""
    given: dict[str, Any] = {"sources": {"a": Source(waves())}, "sink": sinks.by_write_stream}
    return Case(name, query, **{**given, **more})


def sources(**changes: dict[str, Any]) -> dict[str, Source]:
    """Each with rows of its own: `sources(a={}, b={"partitions": 1})`."""
    return {name: Source(**{"waves": waves(number), **more}) for number, (name, more) in enumerate(changes.items())}


STATELESS = [
    case("projection", q.projection, match=Match.IN_ORDER, is_quick=True),
    case("filter", q.filtered, match=Match.IN_ORDER),
    case("filter to nothing", q.nothing),
    case("explode", q.exploded, match=Match.IN_ORDER),
    case("stream-static join", q.with_static_table),
    case("two output topics", q.to_two_topics, outputs={"out": 2, "right": 1}, match=Match.IN_ORDER),
    case("keys, headers, partitions, timestamps, null values", q.with_everything_a_record_has, match=Match.IN_ORDER),
    case("pandas UDF", q.with_pandas_udf, match=Match.IN_ORDER),
    case("mapInArrow", q.with_map_in_arrow, match=Match.IN_ORDER),
    case("spark.sql", q.in_sql, match=Match.IN_ORDER),
    case("written by tasks", q.projection, options={"smallBatchRecords": "0"}, match=Match.IN_ORDER),
    case("transaction protocol 1", q.projection, options={"transactionProtocol": "1"}, match=Match.IN_ORDER),
]

SPARK_STATE = [
    case("tumbling windows, append", q.windows_of(q.tumbling), **WINDOWS, is_quick=True),
    case("sliding windows, append", q.windows_of(q.sliding), **WINDOWS),
    case("session windows, append", q.windows_of(q.session), **WINDOWS),
    *(
        case(
            f"{name}, {mode}",
            query,
            running=running,
            mode=mode,
            match=Match.LATEST if mode == "update" else Match.ALL_AGAIN,
            sink=sinks.by_write_stream if mode == "update" else sinks.by_foreach_batch,
            loss=Loss.OF_STATE,
        )
        for mode in ("update", "complete")
        for name, query, running in (
            ("totals", q.totals, q.running_totals),
            ("one total", q.total_of_all, None),
            ("tumbling windows", q.windows_of(q.tumbling), q.running_windows_of(q.tumbling)),
            ("sliding windows", q.windows_of(q.sliding), q.running_windows_of(q.sliding)),
        )
    ),
    case("limit", q.first_few, sources=sources(a={"partitions": 1}), **IN_CHECKPOINT),
    case("dropDuplicates", q.without_duplicates, **IN_CHECKPOINT),
    case("dropDuplicates with watermark", q.without_duplicates_with_watermark, **WINDOWS),
    case("dropDuplicatesWithinWatermark", q.without_duplicates_within_watermark, **WINDOWS),
    case("dropDuplicates, then windows", q.duplicates_then_windows, **WINDOWS),
    case("windows of windows", q.windows_of_windows, **WINDOWS),
    case("union of stateful branches", q.union_of_windows_and_duplicates, sources=sources(a={}, b={}), **WINDOWS),
    case(
        "applyInPandasWithState",
        ps.totals_by_pandas,
        expected=q.totals,
        running=q.running_totals,
        match=Match.LATEST,
        mode="update",
        sink=sinks.by_foreach_batch,
        **IN_CHECKPOINT,
    ),
    case(
        "transformWithStateInPandas",
        ps.totals_by_processor,
        expected=q.totals,
        running=q.running_totals,
        match=Match.LATEST,
        mode="update",
        sink=sinks.by_foreach_batch,
        conf=ROCKS,
        **IN_CHECKPOINT,
    ),
]

DAYS: dict[str, Any] = {**WINDOWS, "expected": ps.days}
SPARK_STATE += [
    case("applyInPandasWithState, event-time timeout", ps.days_by_pandas, **DAYS),
    case("transformWithStateInPandas, event-time timer", ps.days_by_processor, conf=ROCKS, **DAYS),
]
CHECKPOINT_V2 = {**ROCKS, "spark.sql.streaming.stateStore.checkpointFormatVersion": "2"}
ADAPTIVE = {"spark.sql.adaptive.enabled": "true"}
SPARK_STATE += [
    case("windows, RocksDB", q.windows_of(q.tumbling), conf=ROCKS, **WINDOWS),
    case("windows, RocksDB with checkpoints of version 2", q.windows_of(q.tumbling), conf=CHECKPOINT_V2, **WINDOWS),
    case("windows, adaptive execution", q.windows_of(q.tumbling), conf=ADAPTIVE, **WINDOWS),
    case("windows, the latest of two watermarks", q.join_of("a", "b", "left"), sources=sources(a={}, b={}),
         conf={"spark.sql.streaming.multipleWatermarkPolicy": "max"}, **WINDOWS),
]  # fmt: skip
STATELESS += [case("stream-static join, adaptive execution", q.with_static_table, conf=ADAPTIVE)]

OURS: dict[str, Any] = {
    "expected": q.totals,
    "running": q.running_totals,
    "match": Match.LATEST,
    "sink": sinks.with_step(totals_step),
}
OUR_STATE = [
    case("a step of ours", q.rows_of("a"), **OURS),
    case("a step of ours, written by tasks", q.rows_of("a"), **OURS, options={"smallBatchRecords": "0"}),
    case("a step of ours after Spark's state", q.distinct_rows, **OURS, **IN_CHECKPOINT),
    case(
        "a step of ours on two sources",
        q.rows_of("a", "b"),
        sources=sources(a={}, b={}),
        **{**OURS, "expected": q.totals_of("a", "b"), "running": None},
    ),
    case(
        "two steps of ours",
        q.rows_of("a"),
        outputs={"out": 2, "right": 2},
        expected=q.totals_in_both_topics,
        match=Match.LATEST,
        sink=sinks.with_two_steps(totals_step),
    ),
    case(
        "a step of ours, and rows beside it",
        q.rows_of("a"),
        outputs={"out": 2, "rows": 2},
        expected=q.totals_and_rows,
        match=Match.LATEST,
        sink=sinks.with_step(totals_step, also_rows=True),
    ),
]

#: Rows in the first wave only, or in the second only.
FIRST_ONLY = {"waves": (waves(1)[0], ())}
SECOND_ONLY = {"waves": ((), waves(1)[1])}
NEVER = {"waves": ((), ())}
SOURCES = [
    case("several topics", q.union_of("a"), sources=sources(a={"topics": 3}), match=Match.IN_ORDER),
    case(
        "subscribePattern",
        q.union_of("a"),
        sources=sources(a={"topics": 2, "subscribed": Subscribed.BY_PATTERN}),
        match=Match.IN_ORDER,
    ),
    case("assign", q.union_of("a"), sources=sources(a={"subscribed": Subscribed.BY_PARTITION}), match=Match.IN_ORDER),
    case("split partitions", q.union_of("a"), sources=sources(a={"options": {"minPartitions": "5"}})),
    case(
        "from the earliest offsets",
        q.union_of("a"),
        sources=sources(a={"options": {"startingOffsets": "earliest"}}),
        match=Match.IN_ORDER,
        loss=Loss.OF_START,
    ),
    case("headers", q.with_headers, sources=sources(a={"options": {"includeHeaders": "true"}}), match=Match.IN_ORDER),
    case("records in transactions, some aborted", q.union_of("a"), sources=sources(a={"written": Written.WITH_ABORTS})),
    case("a compacted topic", q.union_of("a"), sources=sources(a={"written": Written.COMPACTED})),
    case("a topic gets more partitions", q.union_of("a"), acts=GROWING),
    case(
        "another topic matches",
        q.union_of("a"),
        sources=sources(a={"subscribed": Subscribed.BY_PATTERN}),
        acts=GROWING,
    ),
    case("two sources", q.union_of("a", "b"), sources=sources(a={}, b={})),
    case("three sources", q.union_of("a", "b", "c"), sources=sources(a={}, b={}, c={"partitions": 1})),
    case("two sources, one quiet later", q.union_of("a", "b"), sources=sources(a={}, b=FIRST_ONLY), is_quick=True),
    case("two sources, one quiet at first", q.union_of("a", "b"), sources=sources(a={}, b=SECOND_ONLY)),
    case("two sources, one always quiet", q.union_of("a", "b"), sources=sources(a={}, b=NEVER)),
    case("a topic read twice", q.union_of("a", "b"), sources=sources(a={}, b={"same_as": "a"})),
    case(
        "a topic read twice, at different speeds",
        q.union_of("a", "b"),
        sources=sources(a={}, b={"same_as": "a", "per_batch": 7}),
        loss=Loss.CONTINUES,
        acts=KEEPING_CHECKPOINT,
    ),
    case("one DataFrame twice", q.union_with_itself),
    case("a source of Spark's", q.union_of("a"), sources=sources(a={"kind": Kind.KAFKA}), loss=Loss.OF_START),
    case(
        "ours and a source of Spark's",
        q.union_of("a", "b"),
        sources=sources(a={}, b={"kind": Kind.KAFKA}),
        loss=Loss.OF_START,
    ),
    case("files", q.union_of("a"), sources=sources(a={"kind": Kind.FILES}), loss=Loss.OF_POSITIONS, acts=FILES_ACTS),
    case("ours and files", q.union_of("a", "b"), sources=sources(a={}, b={"kind": Kind.FILES}), loss=Loss.OF_POSITIONS),
    case("rate-micro-batch", q.union_of("a"), sources={"a": Source(kind=Kind.RATE_BY_BATCH)}, acts=RATE_ACTS),
    case(
        "ours and rate-micro-batch",
        q.union_of("a", "b"),
        sources={"a": Source(waves()), "b": Source(kind=Kind.RATE_BY_BATCH)},
        loss=Loss.OF_POSITIONS,
    ),
    case(
        "rate",
        q.union_of("a"),
        sources={"a": Source(kind=Kind.RATE)},
        trigger={"processingTime": "20 milliseconds"},
        acts=ENDLESS_ACTS,
    ),
]

JOINS = [
    case("stream-stream join", q.join_of("a", "b"), sources=sources(a={}, b={}), **WINDOWS, is_quick=True),
    case("left outer join", q.join_of("a", "b", "left"), sources=sources(a={}, b={}), **WINDOWS),
    case("full outer join", q.join_of("a", "b", "full"), sources=sources(a={}, b={}), **WINDOWS),
    case("left semi join", q.semi_join, sources=sources(a={}, b={}), **WINDOWS),
    case(
        "left outer join, one side quiet", q.join_of("a", "b", "left"), sources=sources(a={}, b=FIRST_ONLY), **WINDOWS
    ),
    case("join of a topic with itself", q.join_with_itself, **WINDOWS),
    case("join of a topic read twice", q.join_of("a", "b"), sources=sources(a={}, b={"same_as": "a"}), **WINDOWS),
    case("join with files", q.join_of("a", "b"), sources=sources(a={}, b={"kind": Kind.FILES}), **WINDOWS),
    case(
        "join with a source of Spark's", q.join_of("a", "b"), sources=sources(a={}, b={"kind": Kind.KAFKA}), **WINDOWS
    ),
]

SINKS = [
    case("foreachBatch", q.projection, sink=sinks.by_foreach_batch, match=Match.IN_ORDER),
    case("beside parquet", q.projection, sink=sinks.beside_parquet, match=Match.IN_ORDER, acts=KEEPING_CHECKPOINT),
    case("foreachBatch that counts first", q.projection, sink=sinks.counting_first, match=Match.IN_ORDER),
    case(
        "foreachBatch that passes over empty batches",
        q.few,
        sources=sources(a={"per_batch": 2}),
        sink=sinks.unless_empty,
        match=Match.IN_ORDER,
        moves_group=False,
        acts=PASSING_OVER,
        options={"kafka.transaction.timeout.ms": "10000"},
        pending="with a new checkpoint, empty batches that were passed over are taken for a gap",
    ),
    case("windows, counted first", q.windows_of(q.tumbling), sink=sinks.counting_first, **WINDOWS),
    case(
        "totals, counted first",
        q.totals,
        running=q.running_totals,
        match=Match.LATEST,
        mode="update",
        sink=sinks.counting_first,
        **IN_CHECKPOINT,
    ),
    case("a failure after the writer", q.projection, sink=sinks.before_something_else, acts=FAILING_AFTER),
    case(
        "windows, a failure after the writer",
        q.windows_of(q.tumbling),
        sink=sinks.before_something_else,
        acts=(*FAILING_AFTER[:-1], Write(2), Run(Death(sinks.AFTER_WRITER)), Run(), Write(3), Run(), Check()),
        **WINDOWS,
    ),
    case(
        "two pipelines in one foreachBatch",
        q.union_of("a"),
        expected=q.to_both_topics,
        outputs={"out": 2, "right": 2},
        sink=sinks.two_pipelines,
        acts=KEEPING_CHECKPOINT,
        match=Match.IN_ORDER,
    ),
    case("windows, beside parquet", q.windows_of(q.tumbling), sink=sinks.beside_parquet, **WINDOWS),
    case(
        "several writes in a batch",
        q.rows_of("a"),
        expected=q.totals_and_rows,
        outputs={"out": 2, "rows": 2},
        match=Match.LATEST,
        sink=sinks.several_writes(totals_step),
        is_quick=True,
    ),
    case(
        "several writes of Spark's state in a batch",
        q.totals_rows,
        expected=q.totals_twice,
        outputs={"out": 2, "rows": 2},
        match=Match.LATEST,
        mode="update",
        sink=sinks.two_writes,
        **IN_CHECKPOINT,
    ),
]

EVERY_TRIGGER: dict[str, dict[str, Any]] = {
    "availableNow": {"availableNow": True},
    "processingTime": {"processingTime": "20 milliseconds"},
    "no trigger": {},
    "once": {"once": True},
}
TRIGGERS = [
    *(
        case(f"projection, {name}", q.projection, trigger=trigger, match=Match.IN_ORDER, acts=acts_of(name, False))
        for name, trigger in EVERY_TRIGGER.items()
        if name != "availableNow"
    ),
    *(
        case(
            f"{what}, {name}, {'with' if no_data else 'without'} batches without data",
            query,
            trigger=trigger,
            sources=sources(a={}, b={}),
            conf={NO_DATA_BATCHES: str(no_data).lower()},
            acts=acts_of(name, True),
            **WINDOWS,
        )
        for what, query in (("windows", q.windows_of(q.tumbling, "a", "b")), ("join", q.join_of("a", "b", "left")))
        for no_data in (True, False)
        for name, trigger in EVERY_TRIGGER.items()
    ),
]

CASES = [*STATELESS, *SOURCES, *JOINS, *SPARK_STATE, *OUR_STATE, *SINKS, *TRIGGERS]
