"""A broker for the Python program that needs one: started on entry, gone on exit.

It runs in a process of its own. A thread would start sooner, but broker and clients would share one interpreter lock,
and a broker that cannot be killed cannot show what survives. The child watches a pipe from this process, so that it
ends when this one does, however that comes about.
"""

import contextlib
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import weakref
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import IO, Any, Self

from fencepost.broker.settings import Settings
from fencepost.errors import ErrorCode, FencepostError, KafkaError

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
LOG_LINES_KEPT = 200
CREATE_TOPICS, CREATE_TOPICS_VERSION = 19, 7
_GREETING = "listening on "
_CLIENT_ID = b"fencepost"


class BrokerFailed(FencepostError):
    """The broker did not start, or is not running. The message has what it said last."""


class Broker:
    """A running broker.

        with fencepost.Broker() as broker:
            broker.bootstrap_servers                       # "127.0.0.1:41234"

        fencepost.Broker("data", num_partitions=4)         # keeps its data; Kafka's settings, underscores for dots
        fencepost.Broker(settings={"num.partitions": 4})   # or with the dots

    Without a directory the data is temporary, but outlives `kill` and `restart`: it is gone when the broker is closed.
    Settings that do not exist or cannot be raise ConfigError at once.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str] | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        settings: dict[str, object] | None = None,
        log_level: str = "warning",
        **more_settings: object,
    ) -> None:
        self.host = host
        self.port = port  #: the one it listens on, once it has been started; the same after a restart
        self._settings = {name: _text(value) for name, value in (settings or {}).items()}
        self._settings |= {name.replace("_", "."): _text(value) for name, value in more_settings.items()}
        Settings.parse(self._settings)
        self._log_level = log_level
        self._process: subprocess.Popen[str] | None = None
        self._log: deque[str] = deque(maxlen=LOG_LINES_KEPT)
        self._reader: Thread | None = None
        self._temporary: Path | None = None
        if directory is None:
            self._temporary = Path(tempfile.mkdtemp(prefix="fencepost-"))
            # For the broker that nobody closes: its data is gone with the object or at exit, whichever comes first.
            weakref.finalize(self, shutil.rmtree, self._temporary, ignore_errors=True)
        self.directory = Path(directory) if directory is not None else self._temporary or Path()

    # -- life --------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> Self:
        """Start it, unless it is running; returns when it accepts connections."""
        if self.running:
            return self
        self._log.clear()
        process = self._process = subprocess.Popen(
            self._command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=_environment(),
            start_new_session=True,  # Ctrl-C in a terminal is for the program, which then stops the broker
        )
        if process.stderr is not None:
            self._reader = Thread(target=self._keep_log, args=(process.stderr,), name="fencepost-log", daemon=True)
            self._reader.start()
        line = self._first_line(process)
        if not line.startswith(_GREETING):
            self.kill()
            raise BrokerFailed(f"the broker did not start: {self.log.strip() or line.strip() or 'it said nothing'}")
        self.port = int(line.rpartition(":")[2])
        return self

    def stop(self) -> None:
        """End it in good order; its data stays until `close`."""
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
        self._reap(process)

    def kill(self) -> None:
        """SIGKILL, as a crash would end it. What was acknowledged is there after `start`."""
        if self._process is not None:
            self._process.kill()
            self._reap(self._process)

    def restart(self) -> Self:
        """Stop it, if it is running, and start it on the same port with the same data."""
        self.stop()
        return self.start()

    def close(self) -> None:
        """Stop it for good; temporary data is gone."""
        if self._temporary is not None:
            self.kill()  # nobody will ask for the data again, so there is nothing to put in order
            shutil.rmtree(self._temporary, ignore_errors=True)
        else:
            self.stop()

    # -- looking -----------------------------------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def bootstrap_servers(self) -> str:
        """What clients take as `bootstrap.servers`."""
        if not self.running:
            raise BrokerFailed(f"the broker is not running. {self.log}".strip())
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, object] | None = None) -> None:
        """Make a topic, without a client library; KafkaError if it cannot be made."""
        configs = [{"name": key, "value": _text(value)} for key, value in (config or {}).items()]
        wanted = {"name": name, "num_partitions": partitions, "replication_factor": -1, "configs": configs}
        request = {"topics": [wanted], "timeout_ms": int(START_TIMEOUT_S * 1000)}
        result = _ask(self.bootstrap_servers, CREATE_TOPICS, CREATE_TOPICS_VERSION, request).topics[0]
        if result.error_code != ErrorCode.NONE:
            raise KafkaError(ErrorCode(result.error_code), result.error_message or "")

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    @property
    def log(self) -> str:
        """The last lines that it logged."""
        return "".join(self._log)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _command(self) -> list[str]:
        # -P: a file of this program that happens to be called click.py is none of the broker's business.
        command = [sys.executable, "-P", "-m", "fencepost.cli.main", "up", str(self.directory), "--until-stdin-closes"]
        command += ["--host", self.host, "--port", str(self.port), "--log-level", self._log_level]
        for name, value in self._settings.items():
            command += ["--set", f"{name}={value}"]
        return command

    def _first_line(self, process: "subprocess.Popen[str]") -> str:
        """The child's first line, or nothing when it ends or does not come to it in time."""
        lines: list[str] = []
        if process.stdout is None:
            return ""
        reader = Thread(target=lambda out: lines.append(out.readline()), args=(process.stdout,), daemon=True)
        reader.start()
        reader.join(START_TIMEOUT_S)
        if not lines:
            return f"it did not listen within {START_TIMEOUT_S:.0f} s"
        if not lines[0]:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
            self._await_log()
        return lines[0]

    def _keep_log(self, stream: IO[str]) -> None:
        # The pipe has to be emptied or the child would stand still on a full one.
        with contextlib.suppress(ValueError, OSError):
            for line in stream:
                self._log.append(line)

    def _await_log(self) -> None:
        if self._reader is not None:
            self._reader.join(1)

    def _reap(self, process: "subprocess.Popen[str]") -> None:
        process.wait()
        self._await_log()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self._process = None


def _ask(address: str, key: int, version: int, request: Mapping[str, Any]) -> Any:
    """Send one request (of a flexible version) on a connection of its own; gives the decoded answer."""
    from fencepost.wire import messages

    api = messages.api(key)
    header = struct.pack(">hhih", key, version, 0, len(_CLIENT_ID)) + _CLIENT_ID + b"\0"
    body = header + bytes(api.request.encode(version, request))
    host, _, port = address.rpartition(":")
    with socket.create_connection((host.strip("[]"), int(port)), START_TIMEOUT_S) as connection:
        connection.sendall(struct.pack(">i", len(body)) + body)
        with connection.makefile("rb") as stream:
            (size,) = struct.unpack(">i", stream.read(4))
            answer = stream.read(size)
    return api.response.decode(version, answer, 5)  # past the correlation id and an empty set of tagged fields


def _environment() -> dict[str, str]:
    """Ours, and the place where this very package is found, wherever this process has it from."""
    here = str(Path(__file__).parent.parent)
    given = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([here, given] if given else [here])}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(str(item) for item in value)
    return str(value)
