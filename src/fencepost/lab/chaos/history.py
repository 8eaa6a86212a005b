"""Operations as lines of JSON, written by clients and read by the checkers.

A client writes one line before a request (`invoke`) and one when it knows the result: `ok`, `fail` (it certainly did
not happen) or `info` (unknown). Invariant: a line is in the kernel before the next thing happens, so `kill -9` loses
nothing. Each line is one write(2), without a buffer. Every incarnation of a client has its own file,
`NAME.INCARNATION.jsonl`, so a line that a kill cut short is the last one of its file.

Times are CLOCK_MONOTONIC in nanoseconds, one clock for all processes of a machine. An `invoke` is stamped before the
call and the others after it, so an operation lies between its two stamps.

    line       {"t": 123, "f": "txn", "s": "invoke", ...}       process and incarnation are in the file's name
    txn        number, writes [[topic, partition, value]...], plan; group, offsets, inputs if it commits offsets;
               keys [key...] on a compacted topic; then ok (committed), fail (aborted), info; acked {value: offset}
    end        number, how: stamped before the commit or abort is sent
    sends      number, writes; then ok with acked {value: offset}: single records outside of transactions
    session    number, isolation, positions [[topic, partition, offset]...]: a reader starts there
    poll       session, records [[topic, partition, [[offset, value]...]]...]
    committed  group, offsets [[topic, partition, offset]...], began: an answer; began is before the request
    churn      number: a topic was created, written, read and deleted
    drain      reader, isolation, topic, partition, records, end: after everything, read to the end
    stuck      what: something did not recover after the faults were over
    surprise   what: an answer that no client may get
    fault      what: for the reader of the file, not for the checkers
"""

import enum
import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SUFFIX = ".jsonl"


class Function(enum.StrEnum):
    TXN = "txn"
    END = "end"
    SENDS = "sends"
    SESSION = "session"
    POLL = "poll"
    COMMITTED = "committed"
    CHURN = "churn"
    DRAIN = "drain"
    STUCK = "stuck"
    SURPRISE = "surprise"
    FAULT = "fault"


class Status(enum.StrEnum):
    INVOKE = "invoke"
    OK = "ok"
    FAIL = "fail"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Op:
    time_ns: int
    process: str
    incarnation: int
    function: Function
    status: Status
    data: Mapping[str, Any]

    @property
    def client(self) -> str:
        return f"{self.process}.{self.incarnation}"

    def line(self) -> str:
        return json.dumps({"t": self.time_ns, "f": self.function, "s": self.status, **self.data}, separators=(",", ":"))


class Recorder:
    """The history of one incarnation of one client."""

    def __init__(self, directory: Path, process: str, incarnation: int = 1) -> None:
        self._process = process
        self._incarnation = incarnation
        path = directory / f"{process}.{incarnation}{SUFFIX}"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def log(self, function: Function, status: Status, **data: Any) -> Op:
        op = Op(time.monotonic_ns(), self._process, self._incarnation, function, status, data)
        line = op.line().encode() + b"\n"
        while line:
            line = line[os.write(self._file, line) :]
        return op

    def close(self) -> None:
        os.close(self._file)


def parse_line(line: bytes, process: str, incarnation: int) -> Op:
    data = json.loads(line)
    return Op(data.pop("t"), process, incarnation, Function(data.pop("f")), Status(data.pop("s")), data)


def client_of(path: Path) -> tuple[str, int]:
    """Process and incarnation, from a file's name."""
    process, _, incarnation = path.name.removesuffix(SUFFIX).rpartition(".")
    return process, int(incarnation)


def read_file(path: Path) -> Iterator[Op]:
    process, incarnation = client_of(path)
    with path.open("rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):  # the last one may have been cut short by a kill
                yield parse_line(line, process, incarnation)


def load(directory: Path) -> list[Op]:
    """The whole history, in order of time."""
    ops = [op for path in sorted(directory.glob(f"*{SUFFIX}")) for op in read_file(path)]
    ops.sort(key=lambda op: op.time_ns)
    return ops
