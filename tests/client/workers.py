"""Writers in processes of their own, which share nothing with the test but an identity.

Imports little: a process that is spawned pays for every import.
"""

import multiprocessing
import time
from collections.abc import Iterable, Sequence

from fencepost.client import Cluster, ProducerIdentity
from fencepost.client.writing import TransactionWriter
from fencepost.wire.records import Record, encode_batch
from fencepost.wire.terms import TopicPartition

JOIN_TIMEOUT_S = 100
RECORDS_PER_BATCH = 100

spawn = multiprocessing.get_context("spawn")

Job = tuple[int, Sequence[str]]  #: a partition and the values for it


def write_elsewhere(bootstrap: str, identity: ProducerIdentity, topic: str, jobs: Iterable[Job]) -> None:
    """One process for each partition, all at once."""
    workers = [
        spawn.Process(target=_write, args=(bootstrap, identity, topic, partition, list(values)))
        for partition, values in jobs
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(JOIN_TIMEOUT_S)
    assert [worker.exitcode for worker in workers] == [0] * len(workers)


def _write(bootstrap: str, identity: ProducerIdentity, topic: str, partition: int, values: list[str]) -> None:
    now_ms = time.time_ns() // 1_000_000  # older records would be deleted by retention
    records = [Record(None, value.encode(), timestamp=now_ms) for value in values]
    with Cluster(bootstrap) as cluster, TransactionWriter(cluster, identity) as writer:
        for first in range(0, len(records), RECORDS_PER_BATCH):
            blob = encode_batch(records[first : first + RECORDS_PER_BATCH])
            writer.write(TopicPartition(topic, partition), blob)
