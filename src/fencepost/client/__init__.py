"""A client of any Kafka-protocol cluster: blocking, without threads, made for the processes of a Spark job.

Two things are special. The *shared transaction*: many processes write with one producer id and epoch, and one process
commits (`transaction`, `writing`). And record batches are made from Arrow columns and read into them (`encode`,
`decode`, `reading`); these three need the extra `client` (PyArrow, NumPy, numba).

A `Cluster` is for one thread. It may be pickled: it becomes its settings.
"""

from fencepost.client.cluster import Cluster
from fencepost.client.identity import ProducerIdentity, TransactionProtocol
from fencepost.client.settings import ClientSettings

__all__ = ["ClientSettings", "Cluster", "ProducerIdentity", "TransactionProtocol"]
