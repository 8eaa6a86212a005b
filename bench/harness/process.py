"""What processes cost, as the kernel counts it: CPU seconds of all threads and children, resident memory."""

import contextlib
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fencepost.processes import tree

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

JVM, PYTHON = "JVM", "Python"


@dataclass(frozen=True, slots=True)
class Usage:
    user_s: float
    system_s: float
    rss_bytes: int

    @property
    def cpu_s(self) -> float:
        return self.user_s + self.system_s


@dataclass(frozen=True, slots=True)
class Stat:
    """The fields of `/proc/PID/stat` that count, in clock ticks and pages."""

    name: str
    user: int
    system: int
    children_user: int  #: of those that have ended and been waited for
    children_system: int
    rss: int

    @classmethod
    def parse(cls, line: str) -> "Stat":
        # The name in parentheses may hold blanks: count from behind it. Field 3 (state) is words[0].
        words = line[line.rindex(")") + 2 :].split()
        name = line[line.index("(") + 1 : line.rindex(")")]
        return cls(name, *(int(words[index]) for index in (11, 12, 13, 14, 21)))

    @classmethod
    def of(cls, pid: int) -> "Stat | None":
        return cls.read(Path(f"/proc/{pid}/stat"))

    @classmethod
    def read(cls, path: Path) -> "Stat | None":
        """None if the process or thread has ended."""
        try:
            return cls.parse(path.read_text())
        except (FileNotFoundError, ProcessLookupError):
            return None


def usage(pid: int) -> Usage:
    """Of the process and of its descendants, those that have ended and been waited for included."""
    found = [stat for stat in map(Stat.of, tree(pid)) if stat is not None]
    user = sum(stat.user + stat.children_user for stat in found)
    system = sum(stat.system + stat.children_system for stat in found)
    rss = sum(stat.rss for stat in found)
    return Usage(user / TICKS_PER_SECOND, system / TICKS_PER_SECOND, rss * PAGE_BYTES)


def cpu_by_kind(owner: str, stats: list[Stat]) -> dict[str, float]:
    """CPU seconds of a client's processes: those of its JVMs, and those of its Pythons. A broker's are all its own.

    Children of a JVM that have ended were Python workers.
    """
    used = {JVM: 0, PYTHON: 0}
    for stat in stats:
        own, of_children = stat.user + stat.system, stat.children_user + stat.children_system
        used[JVM if stat.name == "java" else PYTHON] += own
        used[PYTHON] += of_children
    if owner != "client":
        return {owner: sum(used.values()) / TICKS_PER_SECOND}
    return {kind: ticks / TICKS_PER_SECOND for kind, ticks in used.items()}


class CpuAccount:
    """CPU seconds by kind of process, of the trees below `roots` (by owner). Cheap enough to be asked often."""

    #: Finding the descendants reads all of /proc. A process that is found late has its seconds with it.
    FIND_EVERY_S = 0.5

    def __init__(self, roots: Mapping[str, int]) -> None:
        self._roots = dict(roots)
        self._found: dict[str, list[int]] = {}
        self._found_s = float("-inf")
        self._totals = Totals()

    def look(self) -> dict[str, float]:
        now_s = time.monotonic()
        if now_s - self._found_s >= self.FIND_EVERY_S:
            self._found = {owner: tree(root) for owner, root in self._roots.items()}
            self._found_s = now_s
        read = self._read()
        # A process may end between the look at its parent and the look at itself: then it is missing in both, once.
        return self._totals.add(self._read() if self._totals.would_fall(read) else read)

    def _read(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for owner, pids in self._found.items():
            found |= cpu_by_kind(owner, [stat for stat in map(Stat.of, pids) if stat is not None])
        return found


class CompilerAccount:
    """CPU seconds of the threads that compile, in the JVMs below `root`: how warm a JVM is. Ended threads are kept."""

    FIND_EVERY_S = 0.5
    #: The kernel cuts names of threads: `C2 CompilerThread0`.
    NAMES = ("C1 Compiler", "C2 Compiler")

    def __init__(self, root: int) -> None:
        self._root = root
        self._threads: dict[Path, bool] = {}  #: whether they compile
        self._used: dict[Path, float] = {}
        self._found_s = float("-inf")

    def look(self) -> float:
        now_s = time.monotonic()
        if now_s - self._found_s >= self.FIND_EVERY_S:
            self._found_s = now_s
            for pid in tree(self._root):
                self._find(Path(f"/proc/{pid}"))
        for thread, compiles in self._threads.items():
            if compiles and (stat := Stat.read(thread / "stat")) is not None:
                self._used[thread] = (stat.user + stat.system) / TICKS_PER_SECOND
        return sum(self._used.values())

    def _find(self, process: Path) -> None:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for thread in (process / "task").iterdir():
                if thread not in self._threads:
                    self._threads[thread] = (thread / "comm").read_text().startswith(self.NAMES)


class Totals:
    """Sums that never fall. What a process used that ended is kept: nobody waits for PySpark's workers."""

    def __init__(self) -> None:
        self._seen: dict[str, float] = {}
        self._lost: dict[str, float] = {}

    def would_fall(self, read: Mapping[str, float]) -> bool:
        return any(read.get(kind, 0.0) < before for kind, before in self._seen.items())

    def add(self, read: Mapping[str, float]) -> dict[str, float]:
        for kind in self._seen.keys() | read.keys():
            before, now = self._seen.get(kind, 0.0), read.get(kind, 0.0)
            self._lost[kind] = self._lost.get(kind, 0.0) + max(0.0, before - now)
            self._seen[kind] = now
        return {kind: now + self._lost[kind] for kind, now in self._seen.items()}


def peak_rss_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def busy_cpu_s() -> float:
    """CPU seconds that the whole machine has spent working, to tell what others took during a run."""
    words = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    user, nice, system, _idle, _iowait, irq, softirq, *_ = map(int, words)
    return (user + nice + system + irq + softirq) / TICKS_PER_SECOND
