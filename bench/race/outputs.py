"""Reads topics to their last stable offset, as a `read_committed` reader sees them, into Arrow tables."""

import itertools
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped]

from bench.harness.brokers import Server
from fencepost.client.cluster import Cluster
from fencepost.client.decode import SCHEMA, SCHEMA_WITH_HEADERS
from fencepost.client.offsets import latest, partitions_of
from fencepost.client.reading import read_range
from fencepost.wire.terms import Isolation, TopicPartition

STABLE_TIMEOUT_S = 60.0

Longs = npt.NDArray[np.int64]


def await_stable(server: Server, topics: Sequence[str]) -> None:
    """Wait until nothing is undecided. Apache Kafka answers a commit before its records are visible."""
    with Cluster(server.client_config("java")) as cluster:
        places = partitions_of(cluster, topics)
        deadline_s = time.monotonic() + STABLE_TIMEOUT_S
        while latest(cluster, places) != latest(cluster, places, Isolation.READ_UNCOMMITTED):
            if time.monotonic() > deadline_s:
                raise NotStable(f"{', '.join(topics)}: a transaction is still open after {STABLE_TIMEOUT_S:.0f} s")
            time.sleep(0.01)


def read(server: Server, topic: str, *, include_headers: bool = False) -> Any:
    """All records of a topic, one partition after the other, each in the order of its offsets."""
    with Cluster(server.client_config("java")) as cluster:
        parts: list[Any] = []
        for where, end in latest(cluster, partitions_of(cluster, [topic])).items():
            parts += read_range(cluster, where, 0, end, include_headers=include_headers)
    return pa.Table.from_batches(parts, schema=SCHEMA_WITH_HEADERS if include_headers else SCHEMA)


class NotStable(RuntimeError):
    """A transaction does not end."""


@dataclass(frozen=True, slots=True)
class Weights:
    """How much of the work the records of a partition stand for: `done[i]` is that of the first i + 1 of them."""

    offsets: Longs
    done: npt.NDArray[np.float64]

    def before(self, end: int) -> float:
        """Of the records with offsets below `end`."""
        count = int(np.searchsorted(self.offsets, end))
        return float(self.done[count - 1]) if count else 0.0


def record_weights(tables: Iterable[tuple[Any, float]]) -> dict[TopicPartition, Weights]:
    """Each record of a table stands for as much as the number beside the table."""
    found = {}
    for table, weight in tables:
        for where, offsets in _by_partition(table):
            found[where] = Weights(offsets, weight * np.arange(1, len(offsets) + 1, dtype=np.float64))
    return found


def count_weights(table: Any, counts: Longs) -> dict[TopicPartition, Weights]:
    """`counts` are running counts by key: a record stands for what its key has more than at its record before."""
    found = {}
    keys = table.column("key").to_pylist()
    first = 0
    for where, offsets in _by_partition(table):
        last: dict[bytes, int] = {}
        steps = np.zeros(len(offsets), np.float64)
        for index in range(len(offsets)):
            key, count = keys[first + index], int(counts[first + index])
            steps[index] = count - last.get(key, 0)
            last[key] = count
        found[where] = Weights(offsets, np.cumsum(steps))
        first += len(offsets)
    return found


def _by_partition(table: Any) -> list[tuple[TopicPartition, Longs]]:
    """A table of one topic, as `read` gives it: partitions lie one behind the other."""
    if not len(table):
        return []
    topic = table.column("topic")[0].as_py()
    partitions = table.column("partition").to_numpy()
    offsets = table.column("offset").to_numpy()
    edges = [0, *(np.flatnonzero(np.diff(partitions)) + 1).tolist(), len(partitions)]
    return [
        (TopicPartition(topic, int(partitions[start])), offsets[start:end]) for start, end in itertools.pairwise(edges)
    ]
