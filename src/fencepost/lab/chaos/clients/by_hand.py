"""Producers that speak the protocol by hand, so that they can do what a library would not do.

`ByHand` sometimes sends requests of an epoch that is over, as a slow network would. They must be refused. With a
transaction timeout of a second it also sleeps past it, and goes on as if nothing had happened. `Ledger` keeps the last
value of a few keys on a compacted topic.

A producer that was refused ends, and its successor fences it. It never takes a new epoch itself, so the incarnations of
a client write one after the other.
"""

import time
from dataclasses import replace

from fencepost.client import Cluster, TransactionProtocol
from fencepost.client.raw import Session
from fencepost.client.registration import protocol_of
from fencepost.errors import ClientError, ErrorCode, Refused
from fencepost.lab.chaos.clients.base import Client, StartAgain
from fencepost.lab.chaos.clients.producers import ABORT_SHARE, Writes
from fencepost.lab.chaos.clients.watcher import cluster_settings
from fencepost.lab.chaos.history import Function, Status
from fencepost.lab.chaos.plan import OVERSLEPT_TRANSACTION_TIMEOUT_MS
from fencepost.lab.kit.raw import RawProducer
from fencepost.wire.terms import TopicPartition

PATIENCE_S = 10.0
LATE_SHARE, OVERSLEEP_SHARE = 0.2, 0.2
LEDGER_KEYS = 5


class ByHand(Client):
    def run(self) -> None:
        try:
            with Cluster(cluster_settings(self.spec)) as cluster:
                protocol = protocol_of(cluster)
                with RawProducer(cluster, protocol, PATIENCE_S) as self._producer:
                    self._producer.init(self.spec.prefix + self.spec.name, self.spec.transaction_timeout_ms)
                    for number in self.numbers():
                        self._one(number)
        except ClientError as error:
            raise StartAgain(str(error)) from error

    def choose(self, number: int) -> tuple[Writes, list[str] | None]:
        """What to write, and with which keys."""
        return self.choose_writes(number), None

    def _one(self, number: int) -> None:
        writes, keys = self.choose(number)
        commit = self.rng.random() >= ABORT_SHARE
        before = replace(self._producer.who, sequences={})
        source, offset = TopicPartition(self.spec.source, 0), self.next_offset()
        data = {"group": self.spec.own_group, "offsets": [[*source, offset]]} if keys is None else {}
        self.history.log(Function.TXN, Status.INVOKE, number=number, writes=writes, keys=keys, **data)
        acked: dict[str, int] = {}
        try:
            self._write(writes, keys, acked)
            if keys is None:
                _check(self._producer.commit_offsets(self.spec.own_group, {source: offset}))
            self._oversleep()
            self.history.log(Function.END, Status.INVOKE, number=number, how="commit" if commit else "abort")
            _check(self._producer.end(commit=commit))
        except ClientError as error:
            self.history.log(Function.TXN, Status.INFO, number=number, acked=acked, error=str(error))
            raise
        self.history.log(Function.TXN, Status.OK if commit else Status.FAIL, number=number, acked=acked)
        if self._producer.protocol is TransactionProtocol.V2 and self.rng.random() < LATE_SHARE:
            self._be_late(before, TopicPartition(*writes[0][:2]), commit=commit)

    def _write(self, writes: Writes, keys: list[str] | None, acked: dict[str, int]) -> None:
        """One batch for each record: those of a partition are in the order of `writes`."""
        places = [TopicPartition(topic, partition) for topic, partition, _ in writes]
        _check(self._producer.prepare(dict.fromkeys(places), self.spec.own_group if keys is None else None))
        for index, (where, (_, _, value)) in enumerate(zip(places, writes, strict=True)):
            result = self._producer.produce(where, [value], record_key=keys[index] if keys else None)
            _check(result.error)
            acked[value] = result.base_offset

    def _oversleep(self) -> None:
        timeout_ms = self.spec.transaction_timeout_ms
        if timeout_ms <= OVERSLEPT_TRANSACTION_TIMEOUT_MS and self.rng.random() < OVERSLEEP_SHARE:
            self.sleep(self.rng.uniform(0.5, 2.5) * timeout_ms / 1000)

    def _be_late(self, before: Session, where: TopicPartition, *, commit: bool) -> None:
        """Requests of the epoch before, as if delayed: a batch, and an EndTxn with the opposite outcome.

        After the markers: Apache Kafka answers EndTxn before it writes them, and until then a partition takes a batch
        as one of the transaction that ends.
        """
        while not self._producer.has_markers():
            if self.stopping:
                return
            time.sleep(0.01)
        now, self._producer.who = self._producer.who, before
        batch = self._producer.produce(where, [f"late of {self.spec.name}"], sequence=self.rng.randint(0, 3))
        end = self._producer.end(commit=not commit)
        self._producer.who = now
        for what, code in (("a batch", batch.error), ("an EndTxn", end)):
            if code is ErrorCode.NONE:
                self.surprise(f"{what} of an epoch that is over was accepted")


class Ledger(ByHand):
    def choose(self, number: int) -> tuple[Writes, list[str] | None]:
        count = self.rng.randint(1, 4)
        writes = [(self.spec.ledger, 0, self.value(number, index)) for index in range(count)]
        return writes, [f"{self.spec.name}-{self.rng.randrange(LEDGER_KEYS)}" for _ in range(count)]


def _check(code: ErrorCode) -> None:
    if code:
        raise Refused(code)
