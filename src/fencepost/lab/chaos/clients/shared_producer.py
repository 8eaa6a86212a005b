"""Our own client as a producer: the newest transaction protocol that the cluster has, and offsets of a group.

With KIP-890 Produce registers partitions and EndTxn returns the next epoch. librdkafka does not know that. The group
belongs to this producer alone: every transaction raises its offset, so that records and offsets can be compared.
"""

import time

from fencepost.client import Cluster
from fencepost.client.groups import CommittedOffset
from fencepost.client.transaction import RETRY_REFUSED, SharedTransaction
from fencepost.client.writing import TransactionWriter
from fencepost.errors import ClientError, Fenced, InvariantBroken, OutcomeUnknown, TransactionFailed, WriteFailed
from fencepost.lab.chaos.clients.base import Client, StartAgain
from fencepost.lab.chaos.clients.producers import ABORT_SHARE, LINGER_MAX_S, LINGER_SHARE, Writes
from fencepost.lab.chaos.clients.watcher import cluster_settings
from fencepost.lab.chaos.history import Function, Status
from fencepost.wire.records import Record, encode_batch
from fencepost.wire.terms import TopicPartition


class SharedProducer(Client):
    def run(self) -> None:
        with Cluster(cluster_settings(self.spec)) as cluster:
            transaction = SharedTransaction(
                cluster, self.spec.prefix + self.spec.name, timeout_ms=self.spec.transaction_timeout_ms
            )
            self._init(transaction)
            for number in self.numbers():
                self._one(cluster, transaction, number)

    def _init(self, transaction: SharedTransaction) -> None:
        while not self.stopping:
            try:
                transaction.init()
                return
            except ClientError:
                time.sleep(0.1)

    def _one(self, cluster: Cluster, transaction: SharedTransaction, number: int) -> None:
        writes = self.choose_writes(number)
        aborts = self.rng.random() < ABORT_SHARE
        where = TopicPartition(self.spec.source, 0)
        try:
            identity = transaction.begin()
        except ClientError as error:
            raise StartAgain(str(error)) from error
        offset = self.next_offset()
        self.history.log(
            Function.TXN,
            Status.INVOKE,
            number=number,
            writes=writes,
            plan="abort" if aborts else "commit",
            identity=str(identity),
            group=self.spec.own_group,
            offsets=[[*where, offset]],
        )
        acked: dict[str, int] = {}
        try:
            with TransactionWriter(cluster, identity) as writer:
                self._write(writer, writes, acked)
            transaction.add_offsets(self.spec.own_group, {where: CommittedOffset(offset)})
            if self.rng.random() < LINGER_SHARE:
                self.rest(LINGER_MAX_S / 3)
            if not aborts:
                self._commit(transaction, number, acked)
                return
            why = "as planned"
        except (WriteFailed, TransactionFailed) as error:
            why = str(error)
        except ClientError as error:
            self._unknown(number, acked, error)
        self._abort(transaction, number, acked, why)

    def _write(self, writer: TransactionWriter, writes: Writes, acked: dict[str, int]) -> None:
        """One batch for each partition. The offsets follow from the first one."""
        now_ms = time.time_ns() // 1_000_000  # older records would be deleted by retention
        values: dict[TopicPartition, list[str]] = {}
        for topic, partition, value in writes:
            values.setdefault(TopicPartition(topic, partition), []).append(value)
        for place, of_place in values.items():
            writer.write(place, encode_batch([Record(None, value.encode(), now_ms) for value in of_place]))
        writer.flush()
        for place, written in writer.written.items():
            if written.first_offset >= 0:
                acked.update({value: written.first_offset + k for k, value in enumerate(values[place])})

    def _commit(self, transaction: SharedTransaction, number: int, acked: dict[str, int]) -> None:
        self.history.log(Function.END, Status.INVOKE, number=number, how="commit")
        while True:
            try:
                transaction.commit(2.0)
                break
            except OutcomeUnknown as error:
                if self.overdue or RETRY_REFUSED in str(error):
                    self._unknown(number, acked, error)
            except (TransactionFailed, Fenced) as error:
                # The client says that it is certainly not committed. The checkers test that.
                self.history.log(Function.TXN, Status.FAIL, number=number, acked=acked, error=str(error))
                raise StartAgain(str(error)) from error
        self.history.log(Function.TXN, Status.OK, number=number, acked=acked)

    def _abort(self, transaction: SharedTransaction, number: int, acked: dict[str, int], why: str) -> None:
        self.history.log(Function.END, Status.INVOKE, number=number, how="abort", why=why)
        try:
            transaction.abort()
        except (ClientError, InvariantBroken) as error:
            self._unknown(number, acked, error)
        self.history.log(Function.TXN, Status.FAIL, number=number, acked=acked, error=why)

    def _unknown(self, number: int, acked: dict[str, int], error: Exception) -> None:
        self.history.log(Function.TXN, Status.INFO, number=number, acked=acked, error=str(error))
        raise StartAgain(str(error)) from error
