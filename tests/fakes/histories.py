"""Histories by hand: each call is one thing that somebody did, a millisecond after the one before it."""

from fencepost.lab.chaos.anomaly import Anomaly, Kind
from fencepost.lab.chaos.checkers import check
from fencepost.lab.chaos.history import Function, Op, Status

Write = tuple[str, int, str]
MS = 1_000_000


class Script:
    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.now_ns = 0
        self._numbers: dict[str, int] = {}

    def log(self, process: str, function: Function, status: Status, *, incarnation: int = 1, **data: object) -> Op:
        self.now_ns += MS
        op = Op(self.now_ns, process, incarnation, function, status, data)
        self.ops.append(op)
        return op

    # -- writers -----------------------------------------------------------------------------------------------------

    def begin(self, process: str, *writes: Write, incarnation: int = 1, **data: object) -> int:
        number = self._numbers[process] = self._numbers.get(process, 0) + 1
        self.log(
            process, Function.TXN, Status.INVOKE, incarnation=incarnation, number=number, writes=list(writes), **data
        )
        return number

    def ask_to_commit(self, process: str, number: int, *, incarnation: int = 1) -> None:
        self.log(process, Function.END, Status.INVOKE, incarnation=incarnation, number=number, how="commit")

    def told(self, process: str, number: int, status: Status, *, incarnation: int = 1, **acked: int) -> None:
        self.log(process, Function.TXN, status, incarnation=incarnation, number=number, acked=acked)

    def committed(self, process: str, *writes: Write, incarnation: int = 1, **data: object) -> None:
        number = self.begin(process, *writes, incarnation=incarnation, **data)
        self.ask_to_commit(process, number, incarnation=incarnation)
        self.told(process, number, Status.OK, incarnation=incarnation)

    def aborted(self, process: str, *writes: Write, **data: object) -> None:
        number = self.begin(process, *writes, **data)
        self.log(process, Function.END, Status.INVOKE, number=number, how="abort")
        self.told(process, number, Status.FAIL)

    def unknown(self, process: str, *writes: Write, **data: object) -> None:
        number = self.begin(process, *writes, **data)
        self.ask_to_commit(process, number)
        self.told(process, number, Status.INFO)

    def sends(self, process: str, *writes: Write, incarnation: int = 1, **acked: int) -> None:
        number = self._numbers[process] = self._numbers.get(process, 0) + 1
        self.log(process, Function.SENDS, Status.INVOKE, incarnation=incarnation, number=number, writes=list(writes))
        self.log(process, Function.SENDS, Status.OK, incarnation=incarnation, number=number, acked=acked)

    # -- readers -----------------------------------------------------------------------------------------------------

    def session(self, reader: str, *positions: tuple[str, int, int], isolation: str = "read_committed") -> None:
        listed = [list(each) for each in positions]
        self.log(reader, Function.SESSION, Status.OK, number=1, isolation=isolation, positions=listed)

    def poll(self, reader: str, topic: str, partition: int, *records: tuple[int, str]) -> None:
        self.log(reader, Function.POLL, Status.OK, session=1, records=[[topic, partition, list(records)]])

    def watch(self, group: str, *offsets: tuple[str, int, int]) -> None:
        began = self.now_ns + 1
        self.log("w1", Function.COMMITTED, Status.OK, group=group, began=began, offsets=[list(o) for o in offsets])

    def drain(
        self,
        topic: str,
        partition: int,
        *records: tuple[int, str],
        isolation: str = "read_committed",
        reader: str = "librdkafka",
    ) -> None:
        self.log(
            "drain",
            Function.DRAIN,
            Status.OK,
            reader=reader,
            isolation=isolation,
            topic=topic,
            partition=partition,
            records=list(records),
        )

    # -- judgement ---------------------------------------------------------------------------------------------------

    def anomalies(self) -> list[Anomaly]:
        return check(self.ops)

    def kinds(self) -> set[Kind]:
        return {anomaly.kind for anomaly in self.anomalies()}
