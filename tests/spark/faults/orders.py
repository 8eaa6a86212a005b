"""Orders to processes that are to misbehave: files in a directory, which drivers and their workers look for at each
point where an order may be carried out. An order is carried out once, by whoever comes first.

Drivers look at every step of `fencepost.spark.sink.steps` and at ENDTXN_SENT; workers at ENCODING and at WRITTEN_SOME.
"""

import enum
import json
import os
import signal
import time
from collections import Counter
from pathlib import Path

VARIABLE = "FENCEPOST_TEST_ORDERS"

#: The request that commits has left, nobody has read the answer.
ENDTXN_SENT = "ENDTXN_SENT"
#: A worker makes record batches.
ENCODING = "ENCODING"
#: A writer has a record batch in Kafka, and more to come.
WRITTEN_SOME = "WRITTEN_SOME"

POLL_S = 0.02


class Action(enum.Enum):
    KILL = "kill"  #: this process alone
    KILL_GROUP = "kill group"  #: a driver with its JVM
    KILL_EXECUTOR = "kill executor"  #: the JVM that this worker belongs to
    WAIT = "wait"  #: until the test says `go_on`
    FAIL = "fail"


class Failed(Exception):
    """Ordered."""


#: How often this process has come to each point.
_times: Counter[str] = Counter()


def give(directory: Path, point: str, action: Action, *, passes: int = 0) -> None:
    """`passes` is how often a process comes to the point before the order is for it."""
    text = json.dumps({"action": action.value, "passes": passes})
    draft = directory / f".{point}"
    draft.write_text(text)
    draft.rename(directory / point)


def is_taken(directory: Path, point: str) -> bool:
    return (directory / f"{point}.taken").exists()


def go_on(directory: Path, point: str) -> None:
    """Let whoever waits at a point go on."""
    (directory / f"{point}.taken").unlink()


def look(point: str) -> None:
    """Carry out the order for this point, if there is one."""
    where = os.environ.get(VARIABLE)
    if not where:
        return
    _times[point] += 1
    order, taken = Path(where) / point, Path(where) / f"{point}.taken"
    try:
        given = json.loads(order.read_text())
        if _times[point] <= given["passes"]:
            return
        order.rename(taken)
    except FileNotFoundError:
        return
    _carry_out(Action(given["action"]), taken)


def _carry_out(action: Action, taken: Path) -> None:
    if action is Action.KILL:
        os.kill(os.getpid(), signal.SIGKILL)
    elif action is Action.KILL_GROUP:
        os.killpg(0, signal.SIGKILL)
    elif action is Action.KILL_EXECUTOR:
        os.kill(parent_of(os.getppid()), signal.SIGKILL)
        time.sleep(60)  # the daemon ends its workers when its executor is gone
    elif action is Action.WAIT:
        while taken.exists():
            time.sleep(POLL_S)
    else:
        raise Failed("as ordered")


def parent_of(pid: int) -> int:
    """A worker's parent is the daemon that forked it, and that one's is the executor."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
