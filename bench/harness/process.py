"""What a process costs, as the kernel counts it: CPU seconds of all its threads and children, resident memory."""

import os
from dataclasses import dataclass
from pathlib import Path

from fencepost.processes import tree

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Usage:
    user_s: float
    system_s: float
    rss_bytes: int

    @property
    def cpu_s(self) -> float:
        return self.user_s + self.system_s


def usage(pid: int) -> Usage:
    """Of the process and of its descendants, those that have ended and been waited for included."""
    user = system = rss = 0
    for each in tree(pid):
        try:
            stat = Path(f"/proc/{each}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        # The name in parentheses may hold blanks: count from behind it. Field 3 (state) is words[0].
        words = stat[stat.rindex(")") + 2 :].split()
        user += int(words[11]) + int(words[13])
        system += int(words[12]) + int(words[14])
        rss += int(words[21])
    return Usage(user / TICKS_PER_SECOND, system / TICKS_PER_SECOND, rss * PAGE_BYTES)


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
