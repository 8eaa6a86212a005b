"""What all clients share: their spec, their history, their random numbers, and how they end.

A client ends when it is told to (SIGTERM, or its parent is gone), by `StartAgain` if its library says that the producer
cannot go on, or because it is killed. It never guesses an outcome.
"""

import itertools
import os
import random
import signal
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fencepost.lab.chaos.history import Function, Recorder, Status
from fencepost.lab.chaos.plan import ClientSpec

#: The exit code that asks for a successor.
START_AGAIN = 3
#: How long one thing may take after the client was told to stop.
LAST_CALL_S = 15.0


class StartAgain(Exception):
    """This client cannot go on, but a successor can: it was fenced, or its library has a fatal error."""


class Client(ABC):
    def __init__(self, spec: ClientSpec) -> None:
        self.spec = spec
        self.rng = random.Random(f"{spec.seed}/{spec.incarnation}")
        self.history = Recorder(Path(spec.history), spec.name, spec.incarnation)
        self._stop = threading.Event()
        self._stop_asked_s = 0.0
        signal.signal(signal.SIGTERM, lambda *_: self._ask_to_stop())
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run, which stops its clients
        threading.Thread(target=self._watch_parent, daemon=True).start()

    @abstractmethod
    def run(self) -> None: ...

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    @property
    def overdue(self) -> bool:
        return self.stopping and time.monotonic() - self._stop_asked_s > LAST_CALL_S

    def numbers(self, rest_s: float = 0.03) -> Iterator[int]:
        """1, 2 and so on until told to stop, with a rest after each."""
        for number in itertools.count(1):
            if self.stopping:
                return
            yield number
            self.rest(rest_s)

    def next_offset(self) -> int:
        """For a group of this client's own. Every transaction raises it, whichever incarnation has fenced the other."""
        return time.monotonic_ns() // 1000

    def surprise(self, what: object) -> None:
        """Note an answer that no client may get."""
        self.history.log(Function.SURPRISE, Status.INFO, what=str(what))

    def rest(self, mean_s: float) -> None:
        self.sleep(min(self.rng.expovariate(1 / mean_s), 10 * mean_s))

    def sleep(self, seconds: float) -> None:
        """Unless told to stop."""
        self._stop.wait(seconds)

    def choose_writes(self, number: int) -> list[tuple[str, int, str]]:
        """Topic, partition and value of every write of a transaction."""
        everywhere = [(topic, part) for topic, count in self.spec.topics.items() for part in range(count)]
        chosen = self.rng.sample(everywhere, self.rng.randint(1, min(4, len(everywhere))))
        places = [self.rng.choice(chosen) for _ in range(self.rng.randint(1, 8))]
        return [(topic, part, self.value(number, k)) for k, (topic, part) in enumerate(places)]

    def value(self, number: int, index: int) -> str:
        return f"{self.spec.name}.{self.spec.incarnation}.{number}.{index}"

    def _ask_to_stop(self) -> None:
        self._stop_asked_s = time.monotonic()
        self._stop.set()

    def _watch_parent(self) -> None:
        """Standard input is a pipe from the run. It ends with the run, even if that is killed."""
        while os.read(sys.stdin.fileno(), 1):
            pass
        os._exit(1)


def again(client: Client, call: Callable[[], Any], is_retriable: Callable[[Exception], bool]) -> None:
    """Repeat a call while the library says that it may be repeated. After a timeout nothing else is allowed."""
    while True:
        try:
            call()
            return
        except Exception as error:
            if not is_retriable(error):
                raise
            if client.overdue:
                raise StartAgain("out of time") from error
            time.sleep(0.02)
