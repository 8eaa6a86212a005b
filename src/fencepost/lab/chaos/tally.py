"""Reads the growing history files and counts: for the line that shows how a run is doing, and to see who is stuck."""

from collections import Counter
from pathlib import Path

from fencepost.lab.chaos.history import SUFFIX, Function, Op, Status, client_of, parse_line


class Tally:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._read_bytes: dict[Path, int] = {}
        self.ops = 0
        self.transactions: Counter[Status] = Counter()
        self.last_ns: dict[str, int] = {}  #: when each client last made progress

    def update(self) -> None:
        for path in self._directory.glob(f"*{SUFFIX}"):
            begin = self._read_bytes.get(path, 0)
            with path.open("rb") as file:
                file.seek(begin)
                text = file.read()
            end = text.rfind(b"\n") + 1
            self._read_bytes[path] = begin + end
            client = client_of(path)
            for line in text[:end].splitlines():
                self._count(parse_line(line, *client))

    def _count(self, op: Op) -> None:
        if op.status is Status.INVOKE or op.function in (Function.FAULT, Function.STUCK, Function.SURPRISE):
            return
        self.ops += 1
        if op.status is not Status.INFO and op.function is not Function.SESSION:
            self.last_ns[op.process] = max(op.time_ns, self.last_ns.get(op.process, 0))
        if op.function is Function.TXN:
            self.transactions[op.status] += 1
