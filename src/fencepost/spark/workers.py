"""What lives as long as a Python worker of Spark: the connections to a cluster.

Workers are reused from task to task, so what a task leaves here saves the next one a handshake. A worker runs one task
at a time; a driver, where several queries run in threads of their own, makes its clusters itself.
"""

from dataclasses import replace

from fencepost.client.cluster import Cluster
from fencepost.client.settings import ClientSettings

#: A cluster that has answered once may be away for so long, being restarted.
PATIENCE_MS = 60_000

_clusters: dict[ClientSettings, Cluster] = {}


def cluster_for(settings: ClientSettings) -> Cluster:
    """The process's cluster with these settings."""
    cluster = _clusters.get(settings)
    if cluster is None:
        cluster = _clusters[settings] = Cluster(settings)
    return cluster


def patient(settings: ClientSettings) -> ClientSettings:
    """For a cluster that has answered already, though perhaps not to this process: if it is away, it is waited for."""
    return replace(settings, bootstrap_patience_ms=PATIENCE_MS)
