"""A batch query's DataFrame in one transaction.

A batch query has no offsets to commit, so running it twice writes it twice. Readers still never see a part of it. With
a transactional id of the user's, a rerun after a crash aborts at once what the first run left open. Otherwise readers
wait for the transaction timeout. Without one, the write borrows an id of this process (`batch_ids`).
"""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fencepost.client.cluster import Cluster
from fencepost.client.transaction import SharedTransaction
from fencepost.errors import Fenced, FencepostError, OutcomeUnknown
from fencepost.spark.sink.batch_ids import ids
from fencepost.spark.sink.jobs import WriteJob, select_columns
from fencepost.spark.sink.opening import Opening
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
    with (
        Cluster(settings.client) as cluster,
        contextlib.closing(WriteJob(df.sparkSession, settings, cluster)) as job,
        plain_transaction(cluster, name, settings) as transaction,
    ):
        written = job.run(rows, None, Opening(transaction))
    return WriteSummary(written.records, written.bytes)


@contextlib.contextmanager
def plain_transaction(cluster: Cluster, transactional_id: str, settings: SinkSettings) -> Iterator[SharedTransaction]:
    """A transaction for the block, which begins it if it has something to write.

    The transaction is committed when the block ends, and aborted if the block raises.
    """
    transaction = SharedTransaction(
        cluster, transactional_id, timeout_ms=settings.transaction_timeout_ms, protocol=settings.protocol
    )
    transaction.init()
    try:
        yield transaction
        if transaction.is_open:
            transaction.commit()
    except (OutcomeUnknown, Fenced):
        raise
    except Exception:
        with contextlib.suppress(FencepostError):  # the transaction timeout will abort it
            transaction.abort()
        raise
