"""A client of any Kafka-protocol cluster: blocking, without threads, made for the processes of a Spark job.

What is its own here is the *shared transaction*: one producer id and epoch with which many processes write and one
commits (`transaction`, `writing`), and record batches that are made from Arrow columns and read into them (`encode`,
`decode`, `reading`). The latter three need the extra `spark` (PyArrow, NumPy, numba); everything else does not.

A `Cluster` is for one thread. It may be pickled, and travels as its settings.
"""

from fencepost.client.cluster import Cluster
from fencepost.client.identity import ProducerIdentity, TransactionProtocol
from fencepost.client.settings import ClientSettings

__all__ = ["ClientSettings", "Cluster", "ProducerIdentity", "TransactionProtocol"]
