"""A driver of its own that runs the numbers through Spark's standard writer API: `JSON-OF-A-PLAN KIND [ACCIDENT]`.

KIND is `classic` or `connect`. ACCIDENT is as in `mortal_source`.
"""

import json
import sys

import fencepost.spark  # noqa: F401 - before the session is made
from tests import logins
from tests.spark import numbers_job
from tests.spark.numbers_job import Plan
from tests.spark.sink.mortal_source import NAME, MortalDataSource

TIMEOUT_S = 120


def main(text: str, kind: str, accident: str | None = None) -> None:
    from pyspark.sql import SparkSession

    plan = Plan(**json.loads(text))
    builder = SparkSession.builder.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2")
    builder = builder.remote("local[2]") if kind == "connect" else builder.master("local[2]")
    spark = builder.getOrCreate()
    spark.dataSource.register(MortalDataSource)
    writer = (
        numbers_job.transform(numbers_job.read(spark, plan), plan)
        .writeStream.format(NAME)
        .options(**logins.spark(plan.bootstrap), **plan.options, pipeline=plan.pipeline)
        .option("checkpointLocation", plan.checkpoint)
        .trigger(availableNow=True)
    )
    query = (writer if accident is None else writer.option("accident", accident)).start()
    if not query.awaitTermination(TIMEOUT_S):
        raise TimeoutError("the query does not end")
    print("ended, with", sum(progress["sink"]["numOutputRows"] for progress in query.recentProgress), "rows")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
