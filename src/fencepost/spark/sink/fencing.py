"""Taking a pipeline's transactional id over before its query starts.

This aborts what a dead predecessor left open. Otherwise its pending offsets would block a source that starts from
committed offsets, until the transaction timeout.

A classic session does this in the driver. A program with a session of Spark Connect may be far from Kafka: there a task
of Spark does it. That task also shows whether Spark's Python has fencepost.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fencepost.client.cluster import Cluster
from fencepost.client.transaction import SharedTransaction
from fencepost.spark.plain_errors import one_line
from fencepost.spark.sink.dead_letters import look_up
from fencepost.spark.sink.jobs import known_error
from fencepost.spark.sink.settings import SinkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class FenceStage:
    """Run by one task, on one row."""

    settings: SinkSettings

    def __call__(self, rows: Iterator[Any]) -> Iterator[Any]:
        with one_line():
            for batch in rows:
                if len(batch):
                    with Cluster(self.settings.client) as cluster:
                        take_over(cluster, self.settings)
                yield batch


def take_over(cluster: Cluster, settings: SinkSettings) -> SharedTransaction:
    """The pipeline's transaction, which fences every older producer of its id."""
    if settings.dead_letters is not None:
        look_up(cluster, settings.dead_letters)  # before a batch needs it, and before anybody is fenced in vain
    transaction = SharedTransaction(
        cluster,
        settings.transactional_id,
        timeout_ms=settings.transaction_timeout_ms,
        protocol=settings.protocol,
    )
    transaction.init()
    return transaction


def fence_by_task(session: "SparkSession", settings: SinkSettings) -> None:
    """Raises our error if the task has one, or ConfigError if it cannot run our code."""
    try:
        session.range(1, numPartitions=1).mapInArrow(FenceStage(settings), "id long").collect()
    except Exception as error:
        known = known_error(error)
        if known is None:
            raise
        raise known from None
