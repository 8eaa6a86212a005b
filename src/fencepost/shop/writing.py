"""Writes purchases to Kafka once: in transactions of limited size, each with a ledger entry of the count so far.

The entry is written in the same transaction as the purchases, so they cannot disagree. Invariant: the ledger is read
after the predecessor was fenced and before anything is written, so nobody else can change it. The broker refuses a
predecessor that comes back, and has aborted what it left open.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from fencepost.client.cluster import Cluster
from fencepost.client.encode import Blob, Encoder
from fencepost.client.replication import Models
from fencepost.client.shapes import shape_of
from fencepost.client.transaction import SharedTransaction
from fencepost.client.writing import TransactionWriter
from fencepost.errors import ConfigError, OutcomeUnknown, TransactionFailed, WriteFailed
from fencepost.shop import PURCHASES
from fencepost.shop.purchases import FIRST_ID, purchase_rows
from fencepost.spark import ledger
from fencepost.wire.compression import Compression
from fencepost.wire.terms import TopicPartition

NAME = "shop-purchases"  #: in the ledger
TRANSACTIONAL_ID = "fencepost-shop-purchases"
DEFAULT_SEED = 1
#: Purchases per transaction; it takes some tens of milliseconds.
TRANSACTION_MAX = 20_000
ATTEMPTS_MAX = 5


@dataclass(frozen=True, slots=True)
class Made:
    """How many purchases of which seed are in the topic."""

    purchases: int
    seed: int

    def to_entry(self) -> ledger.LedgerEntry:
        return ledger.LedgerEntry(query_id=f"seed {self.seed}", batch_id=self.purchases, offsets={})

    @classmethod
    def from_entry(cls, entry: ledger.LedgerEntry) -> "Made":
        return cls(entry.batch_id, int(entry.query_id.removeprefix("seed ")))


class PurchaseWriter:
    """Writes purchases. `open` fences an earlier writer.

    with Cluster(bootstrap) as cluster:
        writer = PurchaseWriter(cluster)
        writer.open(seed=None)
        writer.write_up_to(200_000, on_progress=print)
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._transaction = SharedTransaction(cluster, TRANSACTIONAL_ID)
        self._stopping = threading.Event()
        self.made = Made(0, DEFAULT_SEED)

    def open(self, seed: int | None = None) -> Made:
        """Fence, then read. Another seed than the topic's is refused; None takes the topic's seed."""
        ledger.ensure(self._cluster, Models([PURCHASES]))
        self._transaction.init()
        entry = ledger.read_entry(self._cluster, NAME)
        self.made = Made(0, DEFAULT_SEED if seed is None else seed) if entry is None else Made.from_entry(entry)
        if seed is not None and seed != self.made.seed:
            raise ConfigError(
                f"topic {PURCHASES!r} already has {self.made.purchases:,} purchases of seed {self.made.seed}: "
                f"continue with --seed {self.made.seed}, or use another --data directory or cluster for seed {seed}"
            )
        return self.made

    def stop(self) -> None:
        """End `write_up_to` after its current transaction. Any thread may call this."""
        self._stopping.set()

    def write_up_to(self, wanted: int, on_progress: Callable[[Made], None] = lambda made: None) -> Made:
        """Write until there are `wanted` purchases in the topic. None is removed if there are more."""
        attempts = 0
        encoder = self._encoder()
        while self.made.purchases < wanted and not self._stopping.is_set():
            count = min(TRANSACTION_MAX, wanted - self.made.purchases)
            rows = purchase_rows(self.made.seed, FIRST_ID + self.made.purchases, count)
            blobs = encoder.encode(rows)
            try:
                self._write(blobs, Made(self.made.purchases + count, self.made.seed))
                attempts = 0
            except (TransactionFailed, WriteFailed, OutcomeUnknown):
                attempts += 1
                if attempts >= ATTEMPTS_MAX:
                    raise
                self._recover()
            on_progress(self.made)
        return self.made

    def trickle(self, per_second: int, on_progress: Callable[[Made], None] = lambda made: None) -> None:
        """Write `per_second` purchases every second, until `stop`."""
        next_s = time.monotonic()
        while not self._stopping.is_set():
            self.write_up_to(self.made.purchases + per_second, on_progress)
            next_s = max(next_s + 1, time.monotonic())
            self._stopping.wait(next_s - time.monotonic())

    def _encoder(self) -> Encoder:
        return Encoder({PURCHASES: shape_of(self._cluster, PURCHASES)}, compression=Compression.LZ4)

    def _write(self, blobs: list[Blob], after: Made) -> None:
        identity = self._transaction.begin()
        note = ledger.blob(NAME, after.to_entry())
        with TransactionWriter(self._cluster, identity) as writer:
            for blob in blobs:
                writer.write(TopicPartition(blob.topic, blob.partition), blob.data)
            writer.write(ledger.place(NAME), note)
        self._transaction.commit()
        self.made = after

    def _recover(self) -> None:
        """Make the outcome of the last transaction final, and read it from the ledger."""
        self._transaction.reclaim()
        entry = ledger.read_entry(self._cluster, NAME)
        self.made = Made(0, self.made.seed) if entry is None else Made.from_entry(entry)
