"""A driver of its own that runs the numbers through Spark's standard writer API: `JSON-OF-A-PLAN KIND [ACCIDENT]`.

KIND is `classic` or `connect`. ACCIDENT is as in `mortal_source`.
"""

import json
import os
import sys

import fencepost.spark  # noqa: F401 - before the session is made
from tests import logins
from tests.spark import numbers_job
from tests.spark.numbers_job import EVERYTHING, Plan, end_when_done
from tests.spark.sink.mortal_source import NAME, MortalDataSource

TIMEOUT_S = 120


def main(text: str, kind: str, accident: str | None = None) -> None:
    from pyspark.sql import SparkSession

    plan = Plan(**json.loads(text))
    if kind == "connect":
        os.environ["SPARK_TESTING"] = "1"  # the local server takes a free port, not 15002, which may be another's
    builder = SparkSession.builder.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2")
    builder = builder.remote("local[2]") if kind == "connect" else builder.master("local[2]")
    spark = builder.getOrCreate()
    spark.dataSource.register(MortalDataSource)
    writer = (
        numbers_job.transform(numbers_job.read(spark, plan), plan)
        .writeStream.format(NAME)
        .options(**logins.spark(plan.bootstrap), **plan.options, pipeline=plan.pipeline)
        .option("checkpointLocation", plan.checkpoint)
        .trigger(**EVERYTHING)
    )
    query = (writer if accident is None else writer.option("accident", accident)).start()
    end_when_done(query)
    if not query.awaitTermination(TIMEOUT_S):
        raise TimeoutError("the query does not end")
    told = [progress["sink"]["numOutputRows"] for progress in query.recentProgress]
    print("ended, with", sum(count for count in told if count > 0), "rows")  # it is -1 while a query waits
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
