"""A broker to be maltreated: `fencepost up` in a process of its own, to be killed, paused, crashed and measured."""

import contextlib
import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from tests.faults.raw import Address, Kafka

ROOT = Path(__file__).resolve().parents[2]
CRASH_VARIABLE = "FENCEPOST_CRASH_AT"
START_TIMEOUT_S = 30.0

#: Timed-out transactions are looked for often, groups form at once and short session timeouts are allowed.
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
}


class NotListening(AssertionError):
    """The broker ended, or stayed silent, instead of listening."""


class BrokerProcess:
    """One data directory and at most one process that serves it; a second start takes the same port again."""

    def __init__(self, home: Path, settings: Mapping[str, str] | None = None, *, directory: Path | None = None) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.directory = directory or home / "data"
        self.settings = {**SETTINGS, **(settings or {})}
        self.log = home / "log"
        self.log.touch()
        self.address: Address = ("127.0.0.1", 0)
        self._process: subprocess.Popen[str] | None = None

    # -- life ---------------------------------------------------------------------------------------------------------

    def start(self, *, crash_at: str | None = None, env: Mapping[str, str] | None = None) -> "BrokerProcess":
        """Returns once it listens. `crash_at` names the step of a transaction at which it kills itself."""
        self.launch(crash_at=crash_at, env=env)
        self.wait_until_listening()
        return self

    def launch(self, *, crash_at: str | None = None, env: Mapping[str, str] | None = None) -> None:
        variables = {**environment(), **(env or {})}
        if crash_at is not None:
            variables[CRASH_VARIABLE] = crash_at
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True, env=variables
            )

    def command(self) -> list[str]:
        options = [word for name, value in self.settings.items() for word in ("--set", f"{name}={value}")]
        program = [sys.executable, "-m", "fencepost.cli.main"]
        return [*program, "up", str(self.directory), "--port", str(self.address[1]), *options]

    def wait_until_listening(self) -> None:
        process = self._running()
        line = _first_line(process, START_TIMEOUT_S)
        found = re.fullmatch(r"listening on (.+):(\d+)\n", line)
        if found is None:
            self.kill()
            raise NotListening(f"the broker does not listen; it said {line!r} and\n{self.log_text()[-4000:]}")
        self.address = (found[1], int(found[2]))

    def stop(self) -> int:
        """End it as a service manager would, and give its exit status."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def restart(self, *, kill: bool = False, crash_at: str | None = None) -> "BrokerProcess":
        if kill:
            self.kill()
        elif self._process is not None:
            status = self.stop()
            if status != 0:
                raise AssertionError(f"the broker ended with status {status}:\n{self.log_text()[-4000:]}")
        return self.start(crash_at=crash_at)

    def wait_until_dead(self, timeout_s: float = 30.0) -> None:
        """Until it has ended by itself, as it does at a crash step."""
        process = self._running()
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the broker is alive after {timeout_s:g} s") from None
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        self._running().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._running().send_signal(signal.SIGCONT)

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _running(self) -> "subprocess.Popen[str]":
        if self._process is None:
            raise RuntimeError("the broker is not running")
        return self._process

    def _end(self, how: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(how)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
        return process.returncode

    # -- what can be seen of it ---------------------------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"

    def client(self, timeout_s: float = 15.0) -> Kafka:
        return Kafka(self.address, timeout_s=timeout_s)

    def partition_directory(self, topic: str, partition: int) -> Path:
        return self.directory / f"{topic}-{partition}"

    def log_text(self) -> str:
        return self.log.read_text(errors="replace")

    def tracebacks(self) -> list[str]:
        """What went wrong inside: a broker that answers well may still have stumbled."""
        return re.findall(r"(?m)^Traceback[^\n]*\n(?:[ \t].*\n)*.*\n?", self.log_text())

    @property
    def pid(self) -> int:
        return self._running().pid

    def rss_bytes(self) -> int:
        return self._status("VmRSS")

    def peak_rss_bytes(self) -> int:
        return self._status("VmHWM")

    def _status(self, name: str) -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
        raise AssertionError(f"the kernel does not say {name}")


def environment() -> dict[str, str]:
    """Ours, with the broker's source on the path and without a step to crash at."""
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    inherited = {name: value for name, value in os.environ.items() if name != CRASH_VARIABLE}
    return {**inherited, "PYTHONPATH": path}


def _first_line(process: "subprocess.Popen[str]", timeout_s: float) -> str:
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    stdout = process.stdout
    if stdout is None:
        return ""

    def pump() -> None:
        with contextlib.suppress(ValueError):  # closed while reading: the broker has been stopped
            lines.put(stdout.readline())

    threading.Thread(target=pump, daemon=True).start()
    try:
        return lines.get(timeout=timeout_s)
    except queue.Empty:
        return ""
