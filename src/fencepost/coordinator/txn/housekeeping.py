"""What the coordinator does unasked: aborts transactions that outlived their timeout, forgets ids that fell silent."""

import logging
from collections.abc import Callable

from fencepost.coordinator.runtime import Shard, Shards
from fencepost.coordinator.txn import decide
from fencepost.coordinator.txn.model import Transaction, tombstone
from fencepost.coordinator.txn.table import TransactionTable
from fencepost.errors import KafkaError

logger = logging.getLogger(__name__)


def abort_timed_out(table: TransactionTable, abort: Callable[[Transaction], None], now_ms: int) -> None:
    for transaction in table.open():
        if not decide.has_timed_out(transaction, now_ms):
            continue
        try:
            abort(transaction)
        except KafkaError as error:
            logger.warning("%s timed out but cannot be aborted now: %s", transaction.transactional_id, error)
        else:
            logger.info(
                "aborting the transaction of %s (producer %d): open for more than %d ms",
                transaction.transactional_id,
                transaction.producer_id,
                transaction.timeout_ms,
            )


def forget_expired(table: TransactionTable, shards: Shards[TransactionTable], expiration_ms: int, now_ms: int) -> None:
    expired: dict[Shard[TransactionTable], list[str]] = {}
    for transaction in table:
        if decide.has_expired(transaction, expiration_ms, now_ms):
            shard = shards.for_key(transaction.transactional_id)
            expired.setdefault(shard, []).append(transaction.transactional_id)
    for shard, ids in expired.items():
        try:
            shard.write_many([tombstone(one) for one in ids])
        except KafkaError as error:
            logger.warning("%d expired transactional ids cannot be forgotten now: %s", len(ids), error)
        else:
            logger.info("forgot %d transactional ids that fell silent", len(ids))
