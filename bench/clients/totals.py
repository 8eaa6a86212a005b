"""Running totals by key, three times: a stateful step of ours, Spark's aggregation, and transformWithState."""

import argparse
import tempfile
import uuid
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

TOPIC = "totals"


FIELDS = "purchaseId LONG, totalPrice DOUBLE"
#: Options of our source. A purchase that it cannot read is a row of nulls, which does not count.
SOURCE = {"valueFormat": "strict-json", "valueSchema": FIELDS, "mode": "PERMISSIVE"}
#: A purchase counts if it has these, in order. Sums of cents are exact, in whatever order they are made.
COUNTS = "purchase.purchaseId >= 0 AND purchase.totalPrice BETWEEN 0 AND 1000000000"
#: Spark ignores what follows a JSON value. In a list it cannot (`fencepost.shop.sql_over_bytes`).
PARSED = f"from_json(concat('[', CAST(value AS STRING), ',null]'), 'ARRAY<STRUCT<{FIELDS}>>')"


def sparks_rows(purchases: Any, keys: int) -> Any:
    items = purchases.selectExpr(f"{PARSED} AS items")
    return rows_of(items.selectExpr("if(size(items) = 2, items[0], NULL) AS purchase"), keys)


def rows_of(purchases: Any, keys: int) -> Any:
    return purchases.where(COUNTS).selectExpr(
        f"CAST(purchase.purchaseId % {keys} AS STRING) AS user",
        "CAST(round(purchase.totalPrice * 100) AS LONG) AS cents",
    )


def start_ours(purchases: Any, options: argparse.Namespace, trigger: dict[str, Any]) -> Any:
    from fencepost.spark import write_stream
    from fencepost.spark.state import Keyed, StatefulStep, Updated

    def add_up(given: Keyed) -> Updated:
        count = len(given.keys)
        bought = np.bincount(given.index, minlength=count)
        spent = np.bincount(given.index, weights=given.rows.column("cents").to_numpy(), minlength=count)
        state = pa.table(
            {
                "purchases": given.old.column("purchases").fill_null(0).to_numpy() + bought,
                "cents": given.old.column("cents").fill_null(0).to_numpy() + spent.astype(np.int64),
            }
        )
        return Updated(state, state.add_column(0, "user", given.keys.column("user")))

    step = StatefulStep(
        name="totals",
        keys=("user",),
        state="purchases long, cents long",
        update=add_up,
        output="user string, purchases long, cents long",
        topic=TOPIC,
        partitions=options.cores,
    )
    return write_stream(
        purchases,
        pipeline=options.pipeline or f"bench-{uuid.uuid4().hex[:8]}",
        checkpoint=tempfile.mkdtemp(prefix="bench-checkpoint-"),
        transform=lambda batch, state: state.update(rows_of(batch.selectExpr("value AS purchase"), options.keys), step),
        trigger=trigger,
        options={**options.config, "stateDirectory": tempfile.mkdtemp(prefix="bench-state-")},
    )


def start_sparks(purchases: Any, options: argparse.Namespace) -> Any:
    from pyspark.sql import functions as sql

    rows = sparks_rows(purchases, options.keys)
    if options.rocksdb:
        rows.sparkSession.conf.set(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
    if options.by_key:
        totals = rows.groupBy("user").transformWithState(
            _processor(), "user string, purchases long, cents long", "Update", "None"
        )
    else:
        totals = rows.groupBy("user").agg(sql.count("*").alias("purchases"), sql.sum("cents").alias("cents"))
    records = totals.select(sql.col("user").alias("key"), sql.to_json(sql.struct("*")).alias("value"))
    return (
        records.writeStream.format("kafka")
        .outputMode("update")
        .options(**options.config)
        .option("topic", TOPIC)
        .option("checkpointLocation", tempfile.mkdtemp(prefix="bench-checkpoint-"))
        .trigger(availableNow=True)
        .start()
    )


def _processor() -> Any:
    from pyspark.sql import Row
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Totals(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self._state = handle.getValueState("totals", "purchases long, cents long")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timers: Any) -> Iterator[Any]:  # noqa: N802
            before = self._state.get() or (0, 0)
            cents = [row.cents for row in rows]
            after = (before[0] + len(cents), before[1] + sum(cents))
            self._state.update(after)
            yield Row(user=key[0], purchases=after[0], cents=after[1])

        def close(self) -> None:
            pass

    return Totals()
