"""What scenario 5 has written and must find: the same purchases in every output, and the group's offset."""

from dataclasses import dataclass, field

from fencepost.errors import ConnectionLost, ErrorCode
from fencepost.lab.kit.raw import RawProducer, Sent
from fencepost.lab.scenarios.stage import EVENTUALLY_S, Stage
from fencepost.shop import INVOICES, PURCHASES, SHIPMENTS
from fencepost.wire.terms import TopicPartition


@dataclass(slots=True)
class Books:
    """What must be there in the end."""

    stage: Stage
    group: str
    purchases: TopicPartition
    outputs: list[TopicPartition]
    committed: list[str] = field(default_factory=list)
    offset: int = -1

    @classmethod
    def open(cls, stage: Stage) -> "Books":
        invoices, shipments = stage.topics(INVOICES, SHIPMENTS, partitions=2)
        (purchases,) = stage.topics(PURCHASES)
        outputs = [TopicPartition(name, n) for name in (invoices, shipments) for n in (0, 1)]
        return cls(stage, stage.name("group"), TopicPartition(purchases, 0), outputs)

    def write(self, producer: RawProducer, number: int) -> None:
        """Purchase `number`: a record for every output, and an offset."""
        codes = [producer.prepare(self.outputs, self.group)]
        codes += [producer.produce(where, [self.value(number)]).error for where in self.outputs]
        codes.append(producer.commit_offsets(self.group, {self.purchases: number}))
        self.stage.check(not any(codes), "the transaction is written", [code.name for code in codes])

    def hear(self, sent: Sent, *, commit: bool) -> None:
        """The answer to EndTxn, if it came before the coordinator died."""
        try:
            answer = sent.receive()
            self.stage.answer(f"EndTxn({outcome(commit)}): {ErrorCode(answer.error_code).name}, in time")
        except ConnectionLost:
            self.stage.answer(f"EndTxn({outcome(commit)}): the connection broke")

    def value(self, number: int) -> str:
        return f'{{"purchaseId":{number}}}'

    def check(self, number: int, *, commit: bool, patience_s: float = EVENTUALLY_S) -> None:
        """Purchase `number` has ended so. Every output shows the same, and the offset agrees."""
        stage = self.stage
        if commit:
            self.committed.append(self.value(number))
            self.offset = number
        stage.wait_until_settled(self.outputs, timeout_s=patience_s)
        wrong = []
        for topic in sorted({where.topic for where in self.outputs}):
            seen = stage.read(topic)
            for partition in (0, 1):
                values = [entry.value.decode() for entry in seen if entry.partition == partition]
                if values != self.committed:
                    wrong.append(f"{stage.short(topic)}-{partition} shows {values[-3:]}")

        def offset() -> int | None:
            found = stage.view.committed(self.group, [self.purchases], stable=True)[str(self.purchases)]
            return found if isinstance(found, int) else None

        found = stage.eventually(offset, "a stable offset", patience_s)
        if found != self.offset:
            wrong.append(f"the offset is {found} instead of {self.offset}")
        what = f"every partition and the group's offset show the {outcome(commit)}"
        stage.check(not wrong, what, "; ".join(wrong))


def outcome(commit: bool) -> str:
    return "commit" if commit else "abort"
