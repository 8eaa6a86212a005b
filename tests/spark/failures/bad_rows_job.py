"""A driver of its own that runs rows of which most cannot be written: `python -m … JSON-OF-A-PLAN HOME`.

Its workers look for orders (`fencepost.lab.scenarios.orders`) while they encode and after each write.
"""

import json
import sys
from pathlib import Path

from fencepost.spark import write_stream
from fencepost.spark.session import session
from tests import logins, quick_spark
from tests.spark import numbers_job
from tests.spark.bad_rows import bad_rows
from tests.spark.numbers_job import EVERYTHING, Plan, end_when_done


def main(text: str, home: str) -> None:
    plan = Plan(**json.loads(text))
    daemon = {"spark.python.daemon.module": "fencepost.lab.scenarios.spark_daemon"}
    spark = session("bad-rows", "local[2,4]", {**quick_spark.settings(Path(home)), **daemon})
    query = write_stream(
        bad_rows(numbers_job.read(spark, plan), plan.left),
        checkpoint=plan.checkpoint,
        trigger=EVERYTHING,
        options={**logins.sink(plan.bootstrap), **plan.options},
    )
    end_when_done(query)
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
