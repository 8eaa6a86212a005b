"""A child process that belongs to the process that started it.

The owner holds the write end of the child's standard input and writes nothing: when it closes, the child knows that
nobody needs it any more. Invariant: nobody but the owner holds that end. A fork copies it, so the copy is closed in the
new process (`os.register_at_fork`); forks that Python does not see, and a process that is made while another thread
starts the child, are why the child watches its parent's id as well (`fencepost.cli.serve`).

A forked process has a copy of this object too. There it does nothing: it must not signal a process that is not its
child, and cannot wait for one.
"""

import contextlib
import os
import select
import subprocess
import time
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from threading import Thread, current_thread

POLL_MS = 100
LOG_TIMEOUT_S = 1.0  #: for the last words of a child that has ended

_processes: "weakref.WeakSet[OwnedProcess]" = weakref.WeakSet()


class OwnedProcess:
    """At most one child in its life. What it says on standard error is appended to `log`, line by line."""

    def __init__(self, log: deque[str]) -> None:
        self._owner = os.getpid()
        self._log = log
        self._child: subprocess.Popen[bytes] | None = None
        self._reader: Thread | None = None
        #: Our ends of its pipes. As numbers: a stream's lock may be held by a thread that a forked process lacks.
        self._ends: dict[str, int] = {}
        _processes.add(self)

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Interrupted at any point, it leaves nothing behind that `kill` or closing the pipe does not end."""
        theirs: dict[str, int] = {}
        try:
            for name in ("stdin", "stdout", "stderr"):
                read_end, write_end = os.pipe()
                ours_is_read = name != "stdin"
                self._ends[name] = read_end if ours_is_read else write_end
                theirs[name] = write_end if ours_is_read else read_end
            self._child = subprocess.Popen(
                command,
                stdin=theirs["stdin"],
                stdout=theirs["stdout"],
                stderr=theirs["stderr"],
                env=environment,
                start_new_session=True,  # Ctrl-C in a terminal is for the owner, which then ends the child
            )
        finally:
            for end in theirs.values():
                os.close(end)
        self._reader = Thread(target=_keep_log, args=(self._ends, self._log), name="fencepost-log", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int | None:
        """None once it has ended."""
        return self._child.pid if self._child is not None and self.is_running() else None

    def is_running(self) -> bool:
        return os.getpid() == self._owner and self._child is not None and self._child.poll() is None

    def first_line(self, timeout_s: float) -> str | None:
        """Of its standard output: what there is of it when the child ends, None if the time is up before that."""
        deadline = time.monotonic() + timeout_s
        line = b""
        poll = select.poll()
        poll.register(self._ends["stdout"], select.POLLIN)
        while not line.endswith(b"\n"):
            has_ended = not self.is_running()  # before the look into the pipe, so that nothing said is missed
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

    def await_log(self) -> None:
        """Until all that an ended child said is in the log."""
        reader = self._reader
        if reader is not None and reader.ident is not None and reader is not current_thread():
            reader.join(LOG_TIMEOUT_S)

    def terminate(self, timeout_s: float) -> None:
        """Ask it to end, and kill it if it does not in time."""
        if os.getpid() != self._owner:
            return
        if self._child is not None:
            self._child.terminate()
            try:
                self._child.wait(timeout_s)
            except subprocess.TimeoutExpired:
                pass
        self.kill()

    def kill(self) -> None:
        """Also of a child that has ended: afterwards nothing is left of it."""
        if os.getpid() != self._owner:
            return
        if self._child is not None:
            self._child.kill()
            self._child.wait()
        self.await_log()
        for name in ("stdin", "stdout") if self._reader is not None else list(self._ends):
            _close(self._ends, name)

    def disown(self) -> None:
        """In a process that is a copy of the owner: let go of the pipes, so that the owner alone holds them."""
        for name in list(self._ends):
            _close(self._ends, name)
        self.leave()

    def leave(self) -> None:
        """To itself: nobody here waits for it, nor gets a ResourceWarning because nobody has."""
        if self._child is not None:
            self._child.returncode = 0


def _keep_log(ends: dict[str, int], log: deque[str]) -> None:
    # The pipe has to be emptied or the child would stand still on a full one. This thread alone closes it.
    with contextlib.suppress(OSError), open(ends["stderr"], encoding="utf-8", errors="replace", closefd=False) as lines:
        for line in lines:
            log.append(line)
    _close(ends, "stderr")


def _close(ends: dict[str, int], name: str) -> None:
    """Once only: forgotten before it is closed, because a number that is closed twice may be another's by then."""
    end = ends.pop(name, None)
    if end is not None:
        os.close(end)


def _disown_all() -> None:
    for process in list(_processes):
        process.disown()


os.register_at_fork(after_in_child=_disown_all)
