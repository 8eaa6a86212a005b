"""The option `commitOffsets` with Spark Connect: the group follows the query, and never comes before it."""

from collections.abc import Callable
from pathlib import Path

from tests.conftest import unique, wait_until
from tests.spark.connect.remote import Runner
from tests.spark.source.support import commit
from tests.spark.source.test_committing import TIMEOUT_S, committed, end_of, rows


def test_the_group_follows_a_query_of_any_sink(
    there: Runner, bootstrap: str, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, group = topic(1), unique("group")
    writer = rows(there.session, bootstrap, name, group).writeStream.format("parquet").option("path", f"{tmp_path}/out")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    for count in (3, 6):
        commit(bootstrap, name, ["a", "b"])
        query = writer.trigger(processingTime="50 milliseconds").start()
        try:
            wait_until(lambda: committed(bootstrap, group, name) == count, "the batch is committed", TIMEOUT_S)  # noqa: B023
        finally:
            query.stop()
        assert end_of(bootstrap, name) == count
        assert there.session.read.parquet(f"{tmp_path}/out").count() == 2 * count // 3
