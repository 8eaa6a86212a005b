"""What a partition knows of its producers: epochs, the last five batches, and which transactions are open.

It decides, before anything is written, whether a batch is in order, a duplicate or refused (the rules of Kafka's
ProducerStateManager), and keeps the offsets that hold the last stable offset back. Invariants: a producer has at most
one open transaction; `open_transactions` ascends by first offset; nothing here changes when a check refuses.
"""

from fencepost.errors import ErrorCode, KafkaError
from fencepost.log.origin import Origin
from fencepost.log.results import ProducerState
from fencepost.log.txn_index import AbortedTransaction
from fencepost.wire.batch import NO_SEQUENCE, TRANSACTIONAL_FLAG

BATCHES_KEPT = 5
SEQUENCE_MASK = 2**31 - 1
NO_OFFSET = -1
#: From this transaction version on, a marker's epoch is above the epoch of the transaction's data (KIP-890).
MARKER_BUMPS_EPOCH = 2

#: first sequence, last sequence, first offset, last offset, greatest timestamp
KeptBatch = tuple[int, int, int, int, int]


class Producer:
    """One producer's state on one partition. Mutable and plain: it is touched by every append."""

    __slots__ = (
        "batches", "coordinator_epoch", "epoch", "last_timestamp", "next_sequence", "seen_ms", "txn_first_offset",
    )  # fmt: skip

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        #: Oldest first; all of the current epoch.
        self.batches: list[KeptBatch] = []
        #: The sequence of the next batch. A new epoch begins at 0.
        self.next_sequence = 0
        self.txn_first_offset = NO_OFFSET
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        #: When this broker last heard of it. Records may carry any time; expiring by theirs would forget a producer
        #: that writes old records while it still retries them.
        self.seen_ms = 0

    def change_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()
            self.next_sequence = 0

    def add_batch(self, first_sequence: int, last_sequence: int, first: int, last: int, timestamp: int) -> None:
        batches = self.batches
        batches.append((first_sequence, last_sequence, first, last, timestamp))
        if len(batches) > BATCHES_KEPT:
            del batches[0]
        self.next_sequence = (last_sequence + 1) & SEQUENCE_MASK
        self.last_timestamp = timestamp

    @property
    def last_sequence(self) -> int:
        return self.batches[-1][1] if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1][3] if self.batches else NO_OFFSET


class Producers:
    def __init__(self) -> None:
        self.by_id: dict[int, Producer] = {}
        #: first offset → producer id
        self.open_transactions: dict[int, int] = {}
        #: (marker's offset, first offset) of transactions that ended at or above the high watermark: they hold the
        #: last stable offset back until their marker cannot be lost any more.
        self.unsettled: list[tuple[int, int]] = []

    def check(
        self, producer_id: int, epoch: int, first_sequence: int, last_sequence: int, attributes: int, origin: Origin
    ) -> KeptBatch | None:
        """Refuse a batch (KafkaError), recognise it as a duplicate (returned), or find nothing against it (None).

        Stricter than Kafka: a batch that repeats the sequences of a transaction that is over is no duplicate.
        librdkafka sends such a batch after an abort, if it purged a batch whose answer was lost. Kafka takes the new
        records for the purged ones: it acknowledges and drops them. After UNKNOWN_PRODUCER_ID clients abort and go on
        under a new epoch.
        """
        producer = self.by_id.get(producer_id)
        if producer is None:
            # Its state expired or was deleted with the log's beginning: any first sequence is accepted, as Kafka does.
            return None
        if epoch < producer.epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer_id} has epoch {producer.epoch}, the batch has {epoch}",
            )
        if origin is Origin.CLIENT:
            if epoch == producer.epoch:
                for kept in producer.batches:
                    if kept[0] == first_sequence and kept[1] == last_sequence:
                        if attributes & TRANSACTIONAL_FLAG and not 0 <= producer.txn_first_offset <= kept[2]:
                            raise KafkaError(
                                ErrorCode.UNKNOWN_PRODUCER_ID,
                                f"producer {producer_id} sent sequence {first_sequence} in a transaction that is over",
                            )
                        return kept
                expected = producer.next_sequence
            else:
                expected = 0
            if first_sequence != expected:
                raise KafkaError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"producer {producer_id} (epoch {epoch}) sent sequence {first_sequence} where {expected} is next",
                )
        if producer.txn_first_offset >= 0 and not attributes & TRANSACTIONAL_FLAG:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {producer_id} has an open transaction here and sent a batch that is not part of one",
            )
        return None

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int, transaction_version: int) -> None:
        """Refuse a marker that is older than what is known.

        With transaction version 2 a marker of the current epoch while a transaction is open belongs to the transaction
        before it and would end the wrong one. With none open it is a repetition (the coordinator restarted, or the
        first answer was lost) and must pass, or the transaction would stay in its prepare state forever (KAFKA-19999).
        """
        producer = self.by_id.get(producer_id)
        if producer is None:
            return
        late = epoch < producer.epoch or (
            transaction_version >= MARKER_BUMPS_EPOCH and epoch == producer.epoch and producer.txn_first_offset >= 0
        )
        if late:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer_id} has epoch {producer.epoch}, the marker (transaction version "
                f"{transaction_version}) has {epoch}",
            )
        if coordinator_epoch < producer.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"coordinator epoch {producer.coordinator_epoch} has written for producer {producer_id}, "
                f"the marker has {coordinator_epoch}",
            )

    def add_data(
        self, producer_id: int, epoch: int, first_sequence: int, last_sequence: int,
        first_offset: int, last_offset: int, timestamp: int, attributes: int, now_ms: int,
    ) -> None:  # fmt: skip
        """Take note of a batch that is in the log."""
        producer = self.by_id.get(producer_id)
        if producer is None:
            producer = self.by_id[producer_id] = Producer(epoch)
        elif producer.epoch != epoch:
            producer.change_epoch(epoch)
        producer.add_batch(first_sequence, last_sequence, first_offset, last_offset, timestamp)
        producer.seen_ms = now_ms
        if attributes & TRANSACTIONAL_FLAG and producer.txn_first_offset < 0:
            producer.txn_first_offset = first_offset
            self.open_transactions[first_offset] = producer_id

    def add_marker(
        self, producer_id: int, epoch: int, coordinator_epoch: int, offset: int, timestamp: int, now_ms: int,
        *, commit: bool,
    ) -> AbortedTransaction | None:  # fmt: skip
        """Take note of a marker that is in the log; returns the transaction when it aborted one that has data."""
        producer = self.by_id.get(producer_id)
        if producer is None:
            producer = self.by_id[producer_id] = Producer(epoch)
        producer.change_epoch(epoch)
        producer.coordinator_epoch = coordinator_epoch
        producer.last_timestamp = timestamp
        producer.seen_ms = now_ms
        first_offset, producer.txn_first_offset = producer.txn_first_offset, NO_OFFSET
        if first_offset < 0:
            return None
        del self.open_transactions[first_offset]
        self.unsettled.append((offset, first_offset))
        if commit:
            return None
        stable = next(iter(self.open_transactions), offset + 1)
        return AbortedTransaction(producer_id, first_offset, offset, stable)

    def settle(self, high_watermark: int) -> None:
        """Transactions whose marker is below the high watermark are over for good."""
        unsettled = self.unsettled
        if unsettled and unsettled[0][0] < high_watermark:
            self.unsettled = [txn for txn in unsettled if txn[0] >= high_watermark]

    def first_unstable_offset(self) -> int | None:
        first = next(iter(self.open_transactions), None)
        if self.unsettled:
            held = min(txn[1] for txn in self.unsettled)
            return held if first is None else min(held, first)
        return first

    def restore(self, producer_id: int, producer: Producer) -> None:
        """Take a producer from a snapshot. `order_transactions` has to follow the last one."""
        self.by_id[producer_id] = producer
        if producer.txn_first_offset >= 0:
            self.open_transactions[producer.txn_first_offset] = producer_id

    def order_transactions(self) -> None:
        self.open_transactions = dict(sorted(self.open_transactions.items()))

    def expire(self, now_ms: int, idle_ms: int) -> int:
        """Forget producers that neither wrote for `idle_ms` nor have a transaction open; returns how many."""
        idle = [
            producer_id
            for producer_id, producer in self.by_id.items()
            if producer.txn_first_offset < 0 and now_ms - max(producer.seen_ms, producer.last_timestamp) >= idle_ms
        ]
        for producer_id in idle:
            del self.by_id[producer_id]
        return len(idle)

    def states(self) -> list[ProducerState]:
        return [
            ProducerState(
                producer_id=producer_id,
                epoch=producer.epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.txn_first_offset,
            )
            for producer_id, producer in self.by_id.items()
        ]

    def clear(self) -> None:
        self.by_id.clear()
        self.open_transactions.clear()
        self.unsettled.clear()
