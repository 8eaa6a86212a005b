"""A child process: started with a log, read, waited for, sent signals, ended. Every process we start is one.

The owner holds the write end of the child's standard input. When it closes, a child that reads it knows that nobody
needs it any more. Invariant: nobody but the owner holds that end. A fork copies it, so the copy is closed in the new
process (`os.register_at_fork`). Forks that Python does not see, and a process that is made while another thread starts
the child, are why our broker watches its parent's id as well (`fencepost.cli.serve`).

A forked process has a copy of this object too. There it does nothing: it must not signal a process that is not its
child, and cannot wait for one.
"""

import contextlib
import os
import select
import signal
import subprocess
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Thread, current_thread
from types import TracebackType
from typing import Self

from fencepost.errors import FencepostError
from fencepost.processes import continue_all, signal_all, stop_all, tree

POLL_MS = 100
LAST_WORDS_TIMEOUT_S = 5.0  #: for reading what an ended child wrote last
LOG_CHARACTERS_TOLD = 3_000

_children: "weakref.WeakSet[Child]" = weakref.WeakSet()


class ChildFailed(FencepostError):
    """A process did not do what it was started for."""


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Our variables, with a PYTHONPATH that leads to the package this process runs."""
    here = str(Path(__file__).parent.parent)
    given = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([here, given] if given else [here]), **(more or {})}


class Child:
    """At most one process in its life.

    What it says on standard error goes to `log`: to the end of a file, or line by line into a deque. Lines of its
    standard output go to `on_line`, if there is one, or to the log with `logs_output`; else `first_line` reads it.
    """

    def __init__(
        self,
        log: deque[str] | Path,
        name: str = "the process",
        *,
        on_line: Callable[[str], object] | None = None,
        logs_output: bool = False,
    ) -> None:
        self.name = name
        self._owner = os.getpid()
        self._log = log
        self._on_line = on_line
        self._logs_output = logs_output
        self._process: subprocess.Popen[bytes] | None = None
        self._readers: dict[str, Thread] = {}
        #: Our ends of its pipes. As numbers: a stream's lock may be held by a thread that a forked process lacks.
        self._ends: dict[str, int] = {}
        _children.add(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill_all()

    def start(
        self, command: Sequence[str], variables: Mapping[str, str] | None = None, directory: Path | None = None
    ) -> Self:
        """Interrupted at any point, it leaves nothing behind that `kill` or closing the pipe does not end."""
        theirs: dict[str, int] = {}
        try:
            for name in ("stdin", "stderr", "stdout"):
                if name == "stdout" and self._logs_output:
                    theirs[name] = os.dup(theirs["stderr"])
                elif name == "stderr" and isinstance(self._log, Path):
                    theirs[name] = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
                else:
                    self._ends[name], theirs[name] = os.pipe() if name != "stdin" else reversed(os.pipe())
            self._process = subprocess.Popen(
                command,
                stdin=theirs["stdin"],
                stdout=theirs["stdout"],
                stderr=theirs["stderr"],
                env=environment(variables),
                cwd=directory,
                start_new_session=True,  # Ctrl-C in a terminal goes to the owner; it ends the child
            )
        finally:
            for end in theirs.values():
                os.close(end)
        if isinstance(self._log, deque):
            self._read("stderr", self._log.append)
        if self._on_line is not None:
            self._read("stdout", self._on_line)
        return self

    # -- looking -----------------------------------------------------------------------------------------------------

    @property
    def pid(self) -> int | None:
        """None once it has ended."""
        return self._process.pid if self._process is not None and self.is_running else None

    @property
    def is_running(self) -> bool:
        return os.getpid() == self._owner and self._process is not None and self._process.poll() is None

    @property
    def status(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs."""
        return self._process.poll() if self._process is not None and os.getpid() == self._owner else None

    def said(self) -> str:
        """The end of its log, for error messages."""
        if isinstance(self._log, deque):
            return "".join(self._log)
        return self._log.read_text(errors="replace")[-LOG_CHARACTERS_TOLD:] if self._log.exists() else ""

    def first_line(self, timeout_s: float) -> str | None:
        """The first line of its standard output, or a part of it if the child ends first. None if the time is up.

        Called again, the line after that.
        """
        deadline = time.monotonic() + timeout_s
        line = b""
        poll = select.poll()
        poll.register(self._ends["stdout"], select.POLLIN)
        while not line.endswith(b"\n"):
            has_ended = not self.is_running  # asked before the pipe is read, so that nothing is missed
            if poll.poll(0 if has_ended else POLL_MS):
                got = os.read(self._ends["stdout"], 1)
                if not got:
                    break
                line += got
            elif has_ended:  # another process may hold the other end, so this is not always the end of the stream
                break
            elif time.monotonic() > deadline:
                return None
        return line.decode(errors="replace")

    def await_last_words(self) -> None:
        """Wait until everything that an ended child wrote has been read."""
        for reader in self._readers.values():
            if reader.ident is not None and reader is not current_thread():
                reader.join(LAST_WORDS_TIMEOUT_S)

    def wait(self, timeout_s: float) -> int:
        """Wait for its end and return its exit status. Raises ChildFailed if it does not end in time."""
        if self._process is None:
            raise ChildFailed(f"{self.name} has not been started")
        try:
            status = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise ChildFailed(f"{self.name} did not end within {timeout_s:.0f} s: {self.said()}") from None
        self.await_last_words()
        return status

    # -- doing -------------------------------------------------------------------------------------------------------

    def send(self, text: str) -> None:
        """Write to its standard input."""
        with contextlib.suppress(OSError, KeyError):
            os.write(self._ends["stdin"], text.encode())

    def signal(self, number: signal.Signals) -> None:
        if self.is_running and self._process is not None:
            self._process.send_signal(number)

    def pause(self) -> None:
        """Stop it and all its descendants. They stand still when this returns."""
        if (pid := self.pid) is not None:
            stop_all(tree(pid))

    def resume(self) -> None:
        if (pid := self.pid) is not None:
            continue_all(tree(pid))

    # -- ending ------------------------------------------------------------------------------------------------------

    def terminate(self, timeout_s: float) -> None:
        """Ask it to end, and kill it if it does not in time."""
        if os.getpid() != self._owner:
            return
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                pass
        self.kill()

    def kill(self) -> None:
        """Kill it and close its pipes. A child that has ended is cleaned up in the same way."""
        if os.getpid() != self._owner:
            return
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self.await_last_words()
        for name in self._ends.keys() - self._readers.keys():
            _close(self._ends, name)

    def kill_all(self) -> None:
        """Kill it and all its descendants."""
        if os.getpid() != self._owner:
            return
        if (pid := self.pid) is not None:
            signal_all(tree(pid), signal.SIGKILL)
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)  # what is left of its session
        self.kill()

    def disown(self) -> None:
        """In a process that is a copy of the owner: let go of the pipes, so that the owner alone holds them."""
        for name in list(self._ends):
            _close(self._ends, name)
        self.leave()

    def leave(self) -> None:
        """Leave it to itself. Nobody here waits for it, so Python must not warn that nobody did."""
        if self._process is not None:
            self._process.returncode = 0

    def _read(self, name: str, keep: Callable[[str], object]) -> None:
        reader = Thread(target=_hand_on, args=(self._ends, name, keep), name=f"child-{name}", daemon=True)
        self._readers[name] = reader
        reader.start()


def _hand_on(ends: dict[str, int], name: str, keep: Callable[[str], object]) -> None:
    # A full pipe would block the child, so it is always read. Only this thread closes it.
    with contextlib.suppress(OSError), open(ends[name], encoding="utf-8", errors="replace", closefd=False) as lines:
        for line in lines:
            keep(line)
    _close(ends, name)


def _close(ends: dict[str, int], name: str) -> None:
    """Once only: forgotten before it is closed, because a number that is closed twice may be another's by then."""
    end = ends.pop(name, None)
    if end is not None:
        os.close(end)


def _disown_all() -> None:
    for child in list(_children):
        child.disown()


os.register_at_fork(after_in_child=_disown_all)
