"""A batch query's DataFrame in one transaction.

There are no offsets to be kept with it, so running it twice writes it twice; what holds is that a reader never sees a
part of it. A transactional id of the user's lets a rerun after a crash undo what the first run left open at once,
instead of after the transaction timeout. Without one it is lent an id of this process (`batch_ids`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fencepost.client.cluster import Cluster
from fencepost.client.transaction import SharedTransaction
from fencepost.errors import Fenced, FencepostError, OutcomeUnknown
from fencepost.spark.sink.batch_ids import ids
from fencepost.spark.sink.jobs import WriteJob, select_columns
from fencepost.spark.sink.settings import SinkSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class WriteSummary:
    records: dict[str, int]  #: by topic
    bytes: int


def write_plain(
    df: "DataFrame",
    bootstrap_servers: str,
    topic: str | None,
    transactional_id: str | None,
    options: Mapping[str, object] | None,
) -> WriteSummary:
    if transactional_id is not None:
        return _write(df, bootstrap_servers, topic, transactional_id, options)
    with ids.lend(df.sparkSession.sparkContext.applicationId) as name:
        return _write(df, bootstrap_servers, topic, name, options)


def _write(
    df: "DataFrame", bootstrap_servers: str, topic: str | None, name: str, options: Mapping[str, object] | None
) -> WriteSummary:
    settings = replace(SinkSettings.of(name, bootstrap_servers, topic, options), attempts_max=1)
    rows = select_columns(df, settings.topic)
    with Cluster(settings.client) as cluster:
        transaction = SharedTransaction(
            cluster, name, timeout_ms=settings.transaction_timeout_ms, protocol=settings.protocol
        )
        job = WriteJob(df.sparkSession, settings, cluster)
        try:
            transaction.init()
            written = job.run(rows, None, transaction.begin)
            if written.identity is not None:
                transaction.commit()
        except (OutcomeUnknown, Fenced):
            raise
        except Exception:
            try:
                transaction.abort()
            except FencepostError:
                pass  # the timeout will do it
            raise
        finally:
            job.close()
    return WriteSummary(written.records, written.bytes)
