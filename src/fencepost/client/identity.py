"""Who writes: the few numbers that a driver hands to its executors, and by which a broker knows zombies.

An epoch is used for one transaction and never again. That is what lets every writer start its sequences at 0 without
having been told where another one stopped.
"""

import enum
from dataclasses import dataclass


class TransactionProtocol(enum.IntEnum):
    """How a transaction is spoken about; the cluster's `transaction.version` decides."""

    V1 = 1  #: partitions are registered with AddPartitionsToTxn; the epoch survives the end of a transaction
    V2 = 2  #: KIP-890: Produce registers; ending a transaction raises the epoch and answers with the next one


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """One transaction's writers, all of them."""

    transactional_id: str
    producer_id: int
    epoch: int
    protocol: TransactionProtocol

    def __str__(self) -> str:
        return f"{self.transactional_id!r} (producer {self.producer_id}, epoch {self.epoch})"
