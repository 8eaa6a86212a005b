"""What one run of a client gave, and what it cost the broker."""

import resource
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from bench.harness.brokers import Server
from bench.harness.process import busy_cpu_s, usage

MEGABYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Work:
    """What the client itself says: bytes moved, in the seconds that it counts."""

    records: int
    size_bytes: int
    seconds: float
    latency_ms: dict[str, float]

    @property
    def mb_s(self) -> float:
        return self.size_bytes / MEGABYTE / self.seconds


@dataclass(frozen=True, slots=True)
class Outcome:
    work: Work
    elapsed_s: float  #: of the client's process, its start included
    broker_cpu_s: float
    client_cpu_s: float
    others_cores: float  #: how many cores everything else on the machine kept busy
    rss_bytes: int

    @property
    def mb_s(self) -> float:
        return self.work.mb_s

    @property
    def broker_cpu_s_per_gb(self) -> float:
        return self.broker_cpu_s / (self.work.size_bytes / 1e9)

    @property
    def client_cores(self) -> float:
        return self.client_cpu_s / self.elapsed_s

    def raw(self, **labels: Any) -> dict[str, Any]:
        return {**labels, **asdict(self), "mb_s": self.mb_s, "broker_cpu_s_per_gb": self.broker_cpu_s_per_gb}


def observe(server: Server, run: Callable[[], Work]) -> Outcome:
    """Run a client process and see what it, the broker and everybody else used meanwhile."""
    began = time.perf_counter()
    machine, client, broker = busy_cpu_s(), _children_cpu_s(), usage(server.pid).cpu_s
    work = run()
    elapsed_s = time.perf_counter() - began
    used = usage(server.pid)
    broker_cpu_s = used.cpu_s - broker
    client_cpu_s = _children_cpu_s() - client
    others = busy_cpu_s() - machine - broker_cpu_s - client_cpu_s
    return Outcome(
        work=work,
        elapsed_s=elapsed_s,
        broker_cpu_s=broker_cpu_s,
        client_cpu_s=client_cpu_s,
        others_cores=max(0.0, others / elapsed_s),
        rss_bytes=used.rss_bytes,
    )


def _children_cpu_s() -> float:
    """Of children that have ended: the client's process, once it has been waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
