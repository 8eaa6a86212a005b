"""The identity of a transaction's writers, which a driver hands to its executors. Brokers fence zombies by its epoch.

An epoch is used for one transaction only. So every writer can start its sequences at 0, without knowing where another
one stopped.

An identity without a transactional id is of an idempotent producer: one writer uses it, and what is written is visible
at once.
"""

import enum
from dataclasses import dataclass
from typing import Any

from fencepost.client.fields import producer_fields

#: Transactional ids that begin so are made up for one process or write. Rights are for all of them.
MADE_UP_IDS = "fencepost-batch-"


class TransactionProtocol(enum.IntEnum):
    """The transaction protocol; the cluster's `transaction.version` decides."""

    V1 = 1  #: partitions are registered with AddPartitionsToTxn; the epoch survives the end of a transaction
    V2 = 2  #: KIP-890: Produce registers; ending a transaction raises the epoch and answers with the next one


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """All writers of one transaction; or an idempotent producer."""

    transactional_id: str  #: empty without transactions
    producer_id: int
    epoch: int
    protocol: TransactionProtocol

    @property
    def is_transactional(self) -> bool:
        return bool(self.transactional_id)

    def __str__(self) -> str:
        if not self.is_transactional:
            return f"idempotent producer {self.producer_id}"
        return f"{self.transactional_id!r} (producer {self.producer_id}, epoch {self.epoch})"

    @property
    def fields(self) -> dict[str, Any]:
        return producer_fields(self.transactional_id, self.producer_id, self.epoch)
