"""The shop as a Spark job: one pass over the purchases makes invoices, shipments, dead letters and running totals.

The rules are in `typed_sql`. The same in two other ways, for comparison: `sql_over_bytes`, `arrow_tables`.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fencepost.shop import PIPELINE, PURCHASES
from fencepost.shop.typed_sql import SOURCE, check, records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from fencepost.spark.state import State


def shop_with_totals(purchases: "DataFrame", state: "State") -> "DataFrame":
    """The records of one batch, plus the running totals, which need the state."""
    from fencepost.shop.totals import totals

    checked = state.keep(check(purchases))
    valid = checked.where("reason IS NULL").select("value.*")
    made = totals(valid, state).selectExpr("struct(topic, key, value, partition) AS total")
    return records(checked).unionByName(made, allowMissingColumns=True)


def start(
    spark: "SparkSession",
    kafka: Mapping[str, str],
    checkpoint: str,
    *,
    trigger: Mapping[str, object],
    purchases_per_batch: int,
) -> "StreamingQuery":
    """Start the pipeline where the last run ended: one Kafka transaction per micro-batch.

    `kafka` are the settings of a client, by Kafka's names. The sink takes them from the source.
    """
    from fencepost.spark import write_stream

    purchases = (
        spark.readStream.format("fencepost")
        .options(**{f"kafka.{name}": value for name, value in kafka.items()})
        .options(**SOURCE)
        .option("subscribe", PURCHASES)
        .option("kafka.group.id", PIPELINE)
        .option("startingOffsets", "committed")
        .option("maxOffsetsPerTrigger", purchases_per_batch)
        .load()
    )
    return write_stream(
        purchases,
        transform=shop_with_totals,
        pipeline=PIPELINE,
        checkpoint=checkpoint,
        trigger=trigger,
    )
