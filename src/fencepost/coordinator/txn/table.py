"""Every transactional id in memory: what replaying `__transaction_state` gives, live and on load alike.

Changed by `apply` and nothing else. Besides the ids themselves it keeps two small indexes, so that the work of the
background tasks follows the number of transactions that are open or being ended, not the number of ids.
"""

import logging
from collections.abc import Iterator

from fencepost.coordinator.txn.model import Transaction, decode, decode_key
from fencepost.coordinator.txn.states import PREPARED, TransactionState
from fencepost.wire.records import Record

logger = logging.getLogger(__name__)


class TransactionTable:
    """All shards share one table: an id belongs to exactly one shard, so they cannot meet in it."""

    def __init__(self) -> None:
        self._by_id: dict[str, Transaction] = {}
        self._open: dict[str, None] = {}  # dicts for their order: the oldest first
        self._prepared: dict[str, None] = {}

    def get(self, transactional_id: str) -> Transaction | None:
        return self._by_id.get(transactional_id)

    def __iter__(self) -> Iterator[Transaction]:
        return iter(self._by_id.values())

    def open(self) -> list[Transaction]:
        """Those in state ONGOING."""
        return [self._by_id[transactional_id] for transactional_id in self._open]

    def prepared(self) -> list[Transaction]:
        """Those whose outcome is decided but not carried out."""
        return [self._by_id[transactional_id] for transactional_id in self._prepared]

    def apply(self, record: Record, producer_id: int) -> None:
        transactional_id = decode_key(record.key or b"")
        if transactional_id is None:
            logger.warning("a record of an unknown kind in the transaction log at offset %d is ignored", record.offset)
            return
        self._open.pop(transactional_id, None)
        self._prepared.pop(transactional_id, None)
        if record.value is None:
            self._by_id.pop(transactional_id, None)
            return
        transaction = decode(transactional_id, record.value, record.offset)
        self._by_id[transactional_id] = transaction
        if transaction.state is TransactionState.ONGOING:
            self._open[transactional_id] = None
        elif transaction.state in PREPARED:
            self._prepared[transactional_id] = None

    def apply_marker(self, producer_id: int, producer_epoch: int, commit: bool) -> None:
        """The transaction log is itself never part of a transaction."""
