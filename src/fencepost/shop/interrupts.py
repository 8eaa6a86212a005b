"""Ctrl-C, for a program that has threads and a JVM to bring to an end.

Where nothing is at stake it raises KeyboardInterrupt as ever. After `hold` the first one only leaves a note, which the
program looks at when it suits, because an exception in the middle of a call to Java would leave half an answer on the
connection. Invariant: the second one always raises.
"""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self


class Interrupts:
    def __init__(self) -> None:
        self._is_holding = False
        self._have_come = threading.Event()
        self._before: Any = None

    def __enter__(self) -> Self:
        self._before = signal.getsignal(signal.SIGINT)
        self.take_back()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if _is_main_thread():
            signal.signal(signal.SIGINT, self._before)

    def take_back(self) -> None:
        """Be the one who is asked, whoever has put a handler there in the meantime."""
        if _is_main_thread():
            signal.signal(signal.SIGINT, self._handle)

    def hold(self) -> None:
        """From here on the first one is only noted."""
        self._is_holding = True

    def release(self) -> None:
        """From here on each one raises."""
        self._is_holding = False

    @property
    def have_come(self) -> bool:
        return self._have_come.is_set()

    def _handle(self, _signal: int, _frame: FrameType | None) -> None:
        if not self._is_holding or self.have_come:
            raise KeyboardInterrupt
        self._have_come.set()


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
