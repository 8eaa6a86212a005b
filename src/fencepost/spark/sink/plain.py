"""A batch query's DataFrame in one transaction.

A batch query has no offsets to commit, so running it twice writes it twice. Readers still never see a part of it. With
a transactional id of the user's, a rerun after a crash aborts at once what the first run left open. Otherwise readers
wait for the transaction timeout. Without one, the write borrows an id of this process (`BatchIds`).
"""

import contextlib
import os
import threading
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from fencepost.client.cluster import Cluster
from fencepost.client.identity import MADE_UP_IDS
from fencepost.client.transaction import SharedTransaction
from fencepost.errors import Fenced, FencepostError, OutcomeUnknown
from fencepost.spark.sessions import application_id
from fencepost.spark.sink.columns import select_columns
from fencepost.spark.sink.jobs import WriteJob
from fencepost.spark.sink.opening import Opening
from fencepost.spark.sink.settings import SinkSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class WriteSummary:
    records: dict[str, int]  #: by topic, without dead letters
    bytes: int
    dead_letters: Mapping[str, int] = field(default_factory=dict)  #: by reason


class BatchIds:
    """Transactional ids for writes without one: only as many as an application uses at a time.

    A cluster remembers a transactional id for a week (`transactional.id.expiration.ms`), so a new id for each write
    would fill its memory. An id is `fencepost-batch-<application>-<process>-<slot>`, and slots are reused. The
    application id is for people who list the cluster's ids. The random process number makes the id unique: two local
    Sparks that start in the same millisecond have the same application id.

    Invariant: an id is used by one write at a time.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = (0, "")  #: pid and random number; a forked process draws its own number
        self._taken: dict[str, set[int]] = {}  #: slots, by application

    @contextlib.contextmanager
    def lend(self, application: str) -> Iterator[str]:
        """An id that no other write uses until the end of the block."""
        with self._lock:
            if self._process[0] != os.getpid():
                self._process, self._taken = (os.getpid(), uuid.uuid4().hex[:12]), {}
            taken = self._taken.setdefault(application, set())
            slot = next(number for number in range(len(taken) + 1) if number not in taken)
            taken.add(slot)
            name = f"{MADE_UP_IDS}{application}-{self._process[1]}-{slot}"
        try:
            yield name
        finally:
            with self._lock:
                taken.discard(slot)


#: This process's.
ids = BatchIds()


def write_plain(
    df: "DataFrame",
    bootstrap_servers: str,
    topic: str | None,
    transactional_id: str | None,
    options: Mapping[str, object] | None,
) -> WriteSummary:
    lent = (
        ids.lend(application_id(df.sparkSession))
        if transactional_id is None
        else contextlib.nullcontext(transactional_id)
    )
    with lent as name:
        settings = replace(SinkSettings.of(name, bootstrap_servers, topic, options), attempts_max=1)
        rows = select_columns(df, settings.topic, settings.dead_letters, settings.formats)
        with (
            Cluster(settings.client) as cluster,
            contextlib.closing(WriteJob(df.sparkSession, settings, cluster)) as job,
            plain_transaction(cluster, name, settings) as transaction,
        ):
            written = job.run(rows, None, Opening(transaction))
    return WriteSummary(written.records, written.bytes, written.dead_letters)


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
