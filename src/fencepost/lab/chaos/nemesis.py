"""Carries out the planned faults one by one. After each, everything is repaired."""

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
        """`sleep` waits, and keeps the run going."""
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
            case Fault.KILL_BROKER | Fault.KILL_BROKER_TWICE | Fault.STOP_BROKER:
                self._restart(step)
            case Fault.PAUSE_BROKER:
                self._target.pause()
                try:
                    self._sleep(step.duration_s)
                finally:
                    self._target.resume()
            case Fault.KILL_CLIENTS:
                self._crew.kill(*step.targets)
                self._sleep(step.duration_s)
                self._crew.start(*step.targets)
            case Fault.PAUSE_CLIENTS:
                self._crew.pause(*step.targets)
                self._sleep(step.duration_s)
                self._crew.resume(*step.targets)
            case Fault.ZOMBIES:
                self._crew.pause(*step.targets)
                self._sleep(step.duration_s / 2)
                self._crew.replace_paused(*step.targets)
                self._sleep(step.duration_s / 2 + 0.5)
                self._crew.wake_zombies()
            case Fault.CUT:
                self._cut_again_and_again(step.duration_s)
            case _:
                self._network.change(_weather(step.fault, step))
                self._sleep(step.duration_s)

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
    def _background(self, step: Step) -> Iterator[None]:
        if step.background is Fault.CUT:
            self._network.cut()
        else:
            self._network.change(_weather(step.background, step))
        try:
            yield
        finally:
            self._network.change(FAIR)

    def _cut_again_and_again(self, duration_s: float) -> None:
        for _ in range(1 + int(duration_s * CUTS_PER_SECOND)):
            self._network.cut()
            self._sleep(1 / CUTS_PER_SECOND)


def _weather(fault: Fault, step: Step) -> Weather:
    match fault:
        case Fault.DELAY:
            return Weather(delay_ms=step.delay_ms)
        case Fault.HOLD:
            return Weather(holds=True)
        case Fault.LOSE_ANSWERS:
            return Weather(loses_answers=True)
        case Fault.PARTITION:
            return Weather(unreachable=frozenset(step.targets))
        case _:
            return FAIR
