"""Ctrl-C for a program with threads and a JVM to stop.

By default Ctrl-C raises KeyboardInterrupt. After `hold` the first one only sets a flag, which the program polls: an
exception in the middle of a call to Java would leave half an answer on the connection. Invariant: the second Ctrl-C
always raises.
"""

import signal
import threading
from types import FrameType
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

    def __exit__(self, *_: object) -> None:
        if _is_main_thread():
            signal.signal(signal.SIGINT, self._before)

    def take_back(self) -> None:
        """Install our handler again, if another one was installed in the meantime."""
        if _is_main_thread():
            signal.signal(signal.SIGINT, self._handle)

    def hold(self) -> None:
        """From now on the first Ctrl-C only sets a flag."""
        self._is_holding = True

    def release(self) -> None:
        """From now on every Ctrl-C raises."""
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
