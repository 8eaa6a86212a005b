"""The one clock of a race: looks from outside at how far the outputs are visible, and at what the processes used.

Ten times a second it asks the broker for the last stable offset of every output partition: what a `read_committed`
reader would see. It reads nothing, so it costs every system the same, and little. What lies below those offsets is
counted afterwards (`window`), when nobody runs any more.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from bench.harness.brokers import Server
from bench.harness.process import CompilerAccount, CpuAccount, busy_cpu_s
from fencepost.client.cluster import Cluster
from fencepost.client.offsets import latest, partitions_of
from fencepost.wire.terms import TopicPartition

EVERY_S = 0.1


class NotFinished(RuntimeError):
    """A system did not come to the end of its work."""


@dataclass(frozen=True, slots=True)
class Sample:
    time_s: float
    ends: Mapping[TopicPartition, int]  #: last stable offsets
    cpu_s: Mapping[str, float]  #: since each process began, by kind
    machine_s: float  #: CPU seconds of everybody
    compilers_s: float = 0.0  #: of `cpu_s`: what the compilers of the client's JVM used


class Clock:
    """Samples while the block runs. `roots` are process ids by who they belong to."""

    def __init__(self, server: Server, topics: Sequence[str], roots: Mapping[str, int]) -> None:
        self._server = server
        self._topics = topics
        self._cpu = CpuAccount(roots)
        self._compilers = CompilerAccount(roots["client"])
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="clock")
        self._failure: Exception | None = None
        self.samples: list[Sample] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def until(self, is_over: Callable[[], bool], timeout_s: float) -> None:
        """Wait until it is, and take one more sample."""
        deadline_s = time.monotonic() + timeout_s
        while not is_over():
            if self._failure is not None:
                raise self._failure
            if time.monotonic() > deadline_s:
                raise NotFinished(f"not over after {timeout_s:.0f} s")
            time.sleep(EVERY_S)
        seen = len(self.samples)
        while len(self.samples) == seen and self._thread.is_alive():
            time.sleep(EVERY_S / 10)
        if self._failure is not None:
            raise self._failure

    @property
    def quiet_s(self) -> float:
        """For how long nothing more has become visible; 0 while nothing has at all."""
        if not self.samples:
            return 0.0
        last = self.samples[-1]
        if not any(last.ends.values()):
            return 0.0
        since = next(sample for sample in self.samples if sample.ends == last.ends)
        return last.time_s - since.time_s

    @property
    def visible(self) -> int:
        """Offsets that are visible now, markers of transactions included."""
        return sum(self.samples[-1].ends.values()) if self.samples else 0

    def _run(self) -> None:
        try:
            with Cluster(self._server.client_config("java")) as cluster:
                places = partitions_of(cluster, self._topics)
                while not self._stopping.wait(EVERY_S):
                    ends = latest(cluster, places)
                    used = self._cpu.look()
                    self.samples.append(Sample(time.monotonic(), ends, used, busy_cpu_s(), self._compilers.look()))
        except Exception as error:  # for the thread that waits
            self._failure = error
