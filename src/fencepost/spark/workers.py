"""What lives as long as a Python worker of Spark: connections to clusters.

Spark reuses workers for many tasks, so a connection kept here saves the next task a handshake. A worker runs one task
at a time. A driver runs several queries in threads, so it makes its own clusters.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from fencepost.client.cluster import Cluster
from fencepost.client.settings import ClientSettings

#: How long a cluster that has answered before may be unreachable, during a restart for instance.
PATIENCE_MS = 60_000

#: How a process reaches the clusters that it reads ranges from.
Connect = Callable[[ClientSettings], AbstractContextManager[Cluster]]

_clusters: dict[ClientSettings, Cluster] = {}


def cluster_for(settings: ClientSettings) -> Cluster:
    """The process's cluster with these settings."""
    cluster = _clusters.get(settings)
    if cluster is None:
        cluster = _clusters[settings] = Cluster(settings)
    return cluster


def of_worker(settings: ClientSettings) -> AbstractContextManager[Cluster]:
    """The process's cluster, which stays open."""
    return nullcontext(cluster_for(settings))


def patient(settings: ClientSettings) -> ClientSettings:
    """For a cluster that has answered before, perhaps to another process: if it is unreachable, wait for it."""
    return replace(settings, bootstrap_patience_ms=PATIENCE_MS)
