"""A client of Spark Connect in a process of its own: starts a pipeline and waits to be killed.

`python -m tests.spark.connect.client_program URL PLAN`, with a `Plan` as JSON. Prints the ids of its session and query.
"""

import json
import sys

from fencepost.spark import progress  # noqa: F401  (as a user's program imports it, before the session)


def main() -> None:
    from pyspark.sql import SparkSession

    from tests.spark import numbers_job
    from tests.spark.numbers_job import Plan

    url, plan = sys.argv[1], Plan(**json.loads(sys.argv[2]))
    spark = SparkSession.builder.remote(url).getOrCreate()
    query = numbers_job.start(spark, plan)
    print(json.dumps([spark.session_id, str(query.id)]), flush=True)  # type: ignore[attr-defined]
    query.awaitTermination()


if __name__ == "__main__":
    main()
