"""What a story of scenario 5 has written and must find: the same purchases in every output, and the group's offset."""

from dataclasses import dataclass, field

from fencepost.errors import ErrorCode
from fencepost.lab.kit.raw import RawProducer
from fencepost.lab.scenarios.stage import EVENTUALLY_S, Stage
from fencepost.shop import INVOICES, PURCHASES, SHIPMENTS
from fencepost.wire.terms import TopicPartition


@dataclass(slots=True)
class Books:
    """What has to be there in the end."""

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
        return cls(stage.name("group"), TopicPartition(purchases, 0), outputs)

    def write(self, producer: RawProducer, number: int) -> list[ErrorCode]:
        """Purchase `number`: a record for every output, and an offset."""
        codes = [producer.prepare(self.outputs, self.group)]
        codes += [producer.produce(where, [self.value(number)]).error for where in self.outputs]
        codes.append(producer.commit_offsets(self.group, {self.purchases: number}))
        return codes

    def value(self, number: int) -> str:
        return f'{{"purchaseId":{number}}}'

    def note(self, number: int, *, commit: bool) -> None:
        if commit:
            self.committed.append(self.value(number))
            self.offset = number

    def check(self, stage: Stage, what: str, patience_s: float = EVENTUALLY_S) -> None:
        """Every output shows the same, and the offset agrees."""
        stage.eventually(
            lambda: all(found.lso == found.end for found in stage.view.ends(self.outputs).values()),
            "markers are written",
            patience_s,
        )
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
        stage.check(not wrong, what, "; ".join(wrong))
