"""Carries the planned faults out, one step after the other, and leaves nothing broken behind a step."""

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator

from fencepost.lab.chaos.crew import Crew
from fencepost.lab.chaos.network import FAIR, Network, Weather
from fencepost.lab.chaos.plan import Fault, Step
from fencepost.lab.kit.servers import Server, ServerFailed

Sleep = Callable[[float], None]
CUTS_PER_SECOND = 3.0


class Nemesis:
    def __init__(self, target: Server, network: Network, crew: Crew, sleep: Sleep) -> None:
        """`sleep` waits, and looks after the run meanwhile."""
        self._target = target
        self._network = network
        self._crew = crew
        self._sleep = sleep
        self.broker_is_down = False  #: on purpose

    def carry_out(self, step: Step) -> None:
        with self._background(step):
            self._main(step)

    def _main(self, step: Step) -> None:
        match step.fault:
            case Fault.NONE:
                self._sleep(step.duration_s)
            case Fault.KILL_BROKER | Fault.KILL_BROKER_TWICE | Fault.STOP_BROKER:
                self._restart(step)
            case Fault.PAUSE_BROKER:
                with self._paused_broker():
                    self._sleep(step.duration_s)
            case Fault.KILL_CLIENTS:
                for name in step.targets:
                    self._crew.kill(name)
                self._sleep(step.duration_s)
                for name in step.targets:
                    self._crew.start(name)
            case Fault.PAUSE_CLIENTS:
                for name in step.targets:
                    self._crew.pause(name)
                self._sleep(step.duration_s)
                for name in step.targets:
                    self._crew.resume(name)
            case Fault.ZOMBIES:
                for name in step.targets:
                    self._crew.pause(name)
                self._sleep(step.duration_s / 2)
                for name in step.targets:
                    self._crew.replace_paused(name)
                self._sleep(step.duration_s / 2 + 0.5)
                self._crew.wake_zombies()
            case _:
                self._bad_weather(step.fault, step)

    def _restart(self, step: Step) -> None:
        self.broker_is_down = True
        try:
            if step.fault is Fault.STOP_BROKER:
                self._target.stop()
            else:
                self._target.kill()
            if step.fault is Fault.KILL_BROKER_TWICE:
                self._kill_while_it_starts(min(step.duration_s / 4, 0.6))
            else:
                self._sleep(step.duration_s)
            self._target.start()
        finally:
            self.broker_is_down = False

    def _kill_while_it_starts(self, after_s: float) -> None:
        def start() -> None:
            with contextlib.suppress(ServerFailed):
                self._target.start()

        starting = threading.Thread(target=start)
        starting.start()
        time.sleep(after_s)
        self._target.signal(signal.SIGKILL)
        starting.join()
        self._target.kill()

    @contextlib.contextmanager
    def _paused_broker(self) -> Iterator[None]:
        self._target.pause()
        try:
            yield
        finally:
            self._target.resume()

    @contextlib.contextmanager
    def _background(self, step: Step) -> Iterator[None]:
        match step.background:
            case Fault.DELAY:
                self._network.change(Weather(delay_ms=step.delay_ms))
            case Fault.LOSE_ANSWERS:
                self._network.change(Weather(loses_answers=True))
            case Fault.CUT:
                self._network.cut()
            case _:
                pass
        try:
            yield
        finally:
            self._network.change(FAIR)

    def _bad_weather(self, fault: Fault, step: Step) -> None:
        match fault:
            case Fault.DELAY:
                self._network.change(Weather(delay_ms=step.delay_ms))
                self._sleep(step.duration_s)
            case Fault.HOLD:
                self._network.change(Weather(holds=True))
                self._sleep(step.duration_s)
            case Fault.LOSE_ANSWERS:
                self._network.change(Weather(loses_answers=True))
                self._sleep(step.duration_s)
            case Fault.PARTITION:
                self._network.change(Weather(unreachable=frozenset(step.targets)))
                self._sleep(step.duration_s)
            case _:
                for _ in range(1 + int(step.duration_s * CUTS_PER_SECOND)):
                    self._network.cut()
                    self._sleep(1 / CUTS_PER_SECOND)
        self._network.change(FAIR)
