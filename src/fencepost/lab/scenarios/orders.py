"""Orders to the processes of a Spark job: files in a directory. Drivers and workers look for them at certain points.

An order is carried out once, by the first process that reaches its point. Drivers look at every step of
`fencepost.spark.sink.steps` and at ENDTXN_SENT, Python workers at ENCODING and WRITTEN_SOME.
"""

import enum
import json
import os
import signal
import time
from pathlib import Path

VARIABLE = "FENCEPOST_SCENARIO_ORDERS"

#: EndTxn has been sent, and nobody has read the answer.
ENDTXN_SENT = "ENDTXN_SENT"
#: A worker makes record batches. None of them is in Kafka.
ENCODING = "ENCODING"
#: A writer has a record batch in Kafka, or has handed it to the driver, and may have more to come.
WRITTEN_SOME = "WRITTEN_SOME"

POLL_S = 0.02


class Action(enum.StrEnum):
    KILL = "kill"  #: the process that looks, alone
    KILL_GROUP = "kill group"  #: a driver with its JVM
    KILL_EXECUTOR = "kill executor"  #: the JVM that the worker belongs to
    WAIT = "wait"  #: until the order is withdrawn
    FAIL = "fail"


class Failed(Exception):
    """As ordered."""


class Orders:
    """The side that gives orders."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def give(self, point: str, action: Action, passes: int = 0) -> None:
        """`passes` is how often a process reaches the point before it carries out the order."""
        self.withdraw(point)
        draft = self.directory / f".{point}"
        draft.write_text(json.dumps({"action": action, "passes": passes}))
        draft.rename(self.directory / point)

    def taken_by(self, point: str) -> int | None:
        """The process that carries it out, or None."""
        try:
            return int((self.directory / f"{point}.taken").read_text())
        except (FileNotFoundError, ValueError):
            return None

    def withdraw(self, point: str) -> None:
        """A process that waits goes on."""
        for name in (point, f"{point}.taken"):
            (self.directory / name).unlink(missing_ok=True)

    def withdraw_all(self) -> None:
        for path in self.directory.iterdir():
            path.unlink(missing_ok=True)


_passed: dict[str, int] = {}


def look(point: str) -> None:
    """Carry out the order for this point, if there is one."""
    where = os.environ.get(VARIABLE)
    if not where:
        return
    _passed[point] = _passed.get(point, 0) + 1
    order, taken = Path(where) / point, Path(where) / f"{point}.taken"
    mine = Path(where) / f".{point}.{os.getpid()}"
    try:
        given = json.loads(order.read_text())
        if _passed[point] <= given["passes"]:
            return
        order.rename(mine)  # only one can
    except (FileNotFoundError, ValueError):
        return
    mine.write_text(str(os.getpid()))
    mine.rename(taken)
    _carry_out(Action(given["action"]), taken)


def _carry_out(action: Action, taken: Path) -> None:
    if action is Action.KILL:
        os.kill(os.getpid(), signal.SIGKILL)
    elif action is Action.KILL_GROUP:
        os.killpg(0, signal.SIGKILL)
    elif action is Action.KILL_EXECUTOR:
        os.kill(executor_of(os.getpid()), signal.SIGKILL)
        time.sleep(60)  # the daemon ends its workers when its executor is gone
    elif action is Action.WAIT:
        while taken.exists():
            time.sleep(POLL_S)
    else:
        raise Failed("as ordered")


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def executor_of(worker: int) -> int:
    """The executor has started the daemon that forked the worker."""
    return parent_of(parent_of(worker))
