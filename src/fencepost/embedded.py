"""A broker for the Python program that needs one: started on entry, gone on exit.

It runs in a process of its own. A thread would start sooner, but broker and clients would share one interpreter lock,
and a broker that cannot be killed cannot show what survives.

Invariant: a broker belongs to the process that started it, and always ends with it. This module ends it at exit, and
when nothing refers to it any more. If this process is killed, the broker notices, and removes temporary data
(`fencepost.cli.serve`). A copy, in a forked process or unpickled, can reach the broker and look at it. It ends nothing
and removes nothing.
"""

import atexit
import json
import os
import shutil
import sys
import tempfile
import weakref
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Self

from fencepost.broker.settings import Settings
from fencepost.child import Child
from fencepost.errors import ConnectionLost, ErrorCode, FencepostError, KafkaError
from fencepost.log.disk import LOCK
from fencepost.metrics.address import PATH, parse_metrics_address
from fencepost.security.names import Protocol

if TYPE_CHECKING:
    from fencepost.security.settings import ClientSecurity

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
LOG_LINES_KEPT = 200
CREATE_TOPICS, CREATE_TOPICS_VERSION = 19, 7
_GREETING, _METRICS = "listening on ", "metrics at "
#: Settings of a broker that a program starts, as JSON. They may hold passwords, and all can read a command line.
SETTINGS_VARIABLE = "FENCEPOST_BROKER_SETTINGS"


class BrokerFailed(FencepostError):
    """The broker did not start, is not running, or is not ours. The message has what it said last."""


class BrokerProcess(Child):
    """`fencepost up`. It ends when the process that started it does."""

    def launch(
        self,
        directory: Path,
        settings: Mapping[str, str],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        log_level: str = "info",
        is_temporary: bool = False,
        security: "Protocol | None" = None,
        variables: Mapping[str, str] | None = None,
        metrics: str | None = None,
    ) -> None:
        # -P: the broker must not import a file of this program that happens to be called click.py.
        command = [sys.executable, "-P", "-m", "fencepost.cli.main", "up", str(directory), "--owner", str(os.getpid())]
        command += ["--temporary"] if is_temporary else []
        command += ["--security", security] if security is not None else []
        command += ["--metrics", metrics] if metrics is not None else []
        command += ["--host", host, "--port", str(port), "--log-level", log_level]
        self.start(command, {SETTINGS_VARIABLE: json.dumps(dict(settings)), **(variables or {})})

    def await_port(self) -> int:
        """The port it listens on, once it does."""
        return int(self._line_with(_GREETING).rpartition(":")[2])

    def await_metrics(self) -> str:
        """Where its metrics are, if it was launched with any. To be asked after its port."""
        return self._line_with(_METRICS)

    def _line_with(self, greeting: str) -> str:
        line = self.first_line(START_TIMEOUT_S)
        if line is None or not line.startswith(greeting):
            self.kill()  # now its last words are in the log
            said = f"it did not listen within {START_TIMEOUT_S:.0f} s" if line is None else line.strip()
            raise BrokerFailed(f"the broker did not start: {self.said().strip() or said or 'it said nothing'}")
        return line.removeprefix(greeting).strip()


@dataclass(eq=False, slots=True, weakref_slot=True)
class _Holdings:
    """What has to be given back. Not part of the Broker: the finalizer refers to this, and must not keep that alive."""

    owner: int | None = None  #: a process id; None until somebody starts the broker
    process: BrokerProcess | None = None
    temporary: Path | None = None

    def give_back(self) -> None:
        """First the process, then the data that it writes. In a forked process none of it is ours."""
        if self.owner != os.getpid():
            return
        if self.temporary is None:
            if self.process is not None:
                self.process.terminate(STOP_TIMEOUT_S)
        else:
            if self.process is not None:
                self.process.kill()  # its data is removed, so it need not stop in good order
            shutil.rmtree(self.temporary, ignore_errors=True)
        self.process = None


_all_holdings: "weakref.WeakSet[_Holdings]" = weakref.WeakSet()


def _give_back_at_exit() -> None:
    """Ends the brokers that nobody closed.

    If multiprocessing is about to wait for processes, they may need their broker until they end. Then it is left
    running: it notices when this process is gone.
    """
    multiprocessing = sys.modules.get("multiprocessing")
    are_needed = multiprocessing is not None and any(not child.daemon for child in multiprocessing.active_children())
    for holdings in list(_all_holdings):
        if not are_needed:
            holdings.give_back()
        elif holdings.process is not None:
            holdings.process.leave()


atexit.register(_give_back_at_exit)


class Broker:
    """A broker, which runs between `start` and `close`, or in a `with` statement.

        with fencepost.Broker() as broker:
            broker.bootstrap_servers                                   # "127.0.0.1:41234"

        broker = fencepost.Broker("data", num_partitions=4).start()    # keeps its data; Kafka's settings, _ for dots
        ...
        broker.close()

        with fencepost.Broker(settings={"num.partitions": 4}): ...     # or with the dots

        with fencepost.Broker(security="SASL_SSL") as broker:          # also SSL, SASL_PLAINTEXT
            confluent_kafka.Producer(broker.client_config("confluent"))

        with fencepost.Broker(metrics="127.0.0.1:0") as broker:        # Prometheus' text, on a free port
            urllib.request.urlopen(broker.metrics_url)

    Without a directory the data is temporary. It outlives `kill` and `restart`, and is removed by `close`. Settings
    that do not exist or have an invalid value raise ConfigError at once. Threads may share a Broker. A copy, after a
    fork or unpickled, can only reach the broker: there `close` and `stop` do nothing, `start` and `kill` raise.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str] | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        settings: dict[str, object] | None = None,
        security: str | None = None,
        log_level: str = "warning",
        metrics: str | None = None,
        **more_settings: object,
    ) -> None:
        self.host = host
        self.port = port  #: the one it listens on, once it has been started; the same after a restart
        self._settings = {name: _text(value) for name, value in (settings or {}).items()}
        self._settings |= {name.replace("_", "."): _text(value) for name, value in more_settings.items()}
        Settings.parse(self._settings)
        self._security = None if security is None else Protocol.parse(security, "security")
        self._log_level = log_level
        self._metrics = None if metrics is None else parse_metrics_address(metrics, "metrics")
        self._directory = Path(directory).absolute() if directory is not None else None
        self._has_listened = False
        self._has_lost_data = False
        self._log: deque[str] = deque(maxlen=LOG_LINES_KEPT)
        self._is_copy = False
        self._make_own()

    def _make_own(self) -> None:
        """What no copy shares."""
        self._lock = RLock()  # starting and ending, one at a time; taken by the owner alone
        self._held = _Holdings()
        _all_holdings.add(self._held)
        weakref.finalize(self, self._held.give_back).atexit = False

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in vars(self).items() if name not in {"_lock", "_held"}}
        return state | {"_log": deque(self._log, LOG_LINES_KEPT), "owner": self._held.owner}

    def __setstate__(self, state: dict[str, Any]) -> None:
        owner = state.pop("owner")
        vars(self).update(state)
        self._make_own()
        self._held.owner, self._is_copy = owner, owner is not None

    # -- life --------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> Self:
        """Start it, unless it is running; returns when it accepts connections."""
        self._own("start")
        with self._lock:
            if self.running:
                return self
            if self._has_lost_data:
                raise BrokerFailed(
                    "the broker has been closed, and its temporary data is gone: make a new Broker, give it a "
                    "directory, or call stop() instead of close()"
                )
            self._log = deque(maxlen=LOG_LINES_KEPT)
            process = self._held.process = BrokerProcess(self._log, "the broker")
            try:
                process.launch(
                    self.directory,
                    self._settings,
                    host=self.host,
                    port=self.port,
                    log_level=self._log_level,
                    is_temporary=self._held.temporary is not None,
                    security=self._security,
                    metrics=None if self._metrics is None else str(self._metrics),
                )
                self.port = process.await_port()
                if self._metrics is not None:
                    url = process.await_metrics()
                    self._metrics = parse_metrics_address(url.split("/")[2], "metrics")  # the same after a restart
                self._has_listened = True
            except BaseException:  # Ctrl-C as well
                process.kill()
                raise
            return self

    def stop(self) -> None:
        """Stop it in good order. Its data stays until `close`."""
        if self._is_ours():
            with self._lock:
                if self._held.process is not None:
                    self._held.process.terminate(STOP_TIMEOUT_S)

    def kill(self) -> None:
        """SIGKILL, like a crash. After `start`, everything that was acknowledged is there."""
        self._own("kill")
        with self._lock:
            if self._held.process is not None:
                self._held.process.kill()

    def restart(self) -> Self:
        """Stop it if it is running, and start it on the same port with the same data."""
        self._own("restart")
        with self._lock:
            self.stop()
            return self.start()

    def close(self) -> None:
        """Stop it for good, and remove temporary data."""
        if self._is_ours():
            with self._lock:
                self._held.give_back()
                if self._held.temporary is not None and self._has_listened:
                    self._has_lost_data = True
                elif self._held.temporary is not None:  # it never listened: another start gets another directory
                    self._directory = self._held.temporary = None

    # -- looking -----------------------------------------------------------------------------------------------------

    @property
    def directory(self) -> Path:
        """Where its data is."""
        if self._directory is None:
            self._own("make a directory for")
            with self._lock:
                if self._directory is None:
                    self._directory = self._held.temporary = Path(tempfile.mkdtemp(prefix="fencepost-"))
        return self._directory

    @property
    def running(self) -> bool:
        return self.pid is not None

    @property
    def pid(self) -> int | None:
        """Its process id while it runs, else None."""
        if self._is_anothers():
            return _pid_of_server(self._directory) if self._directory is not None else None
        process = self._held.process
        return process.pid if process is not None else None

    @property
    def bootstrap_servers(self) -> str:
        """The `bootstrap.servers` of clients. The same from the first start on, also while it is not running."""
        if not self._has_listened:
            raise BrokerFailed("the broker has not been started: call start() or use `with`")
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    @property
    def metrics_url(self) -> str:
        """Where its metrics are, for Prometheus. It has to be made with `metrics`, and started."""
        if self._metrics is None:
            raise BrokerFailed('the broker has no metrics: make it with metrics="127.0.0.1:0"')
        if not self._has_listened:
            raise BrokerFailed("the broker has not been started: call start() or use `with`")
        return f"http://{self._metrics}{PATH}"

    def client_config(self, client: str) -> dict[str, Any]:
        """What a client needs to connect: for "confluent", "kafka-python", "aiokafka", "spark" or "java".

        confluent_kafka.Producer(broker.client_config("confluent"))
        spark.readStream.format("fencepost").options(**broker.client_config("spark"))
        """
        from fencepost.security.spellings import spelled

        return spelled(self.bootstrap_servers, self._client_security(), client)

    def _client_security(self) -> "ClientSecurity":
        from fencepost.security.quick import prepare
        from fencepost.security.settings import ClientSecurity

        if self._security is None:
            return ClientSecurity()
        return prepare(self.directory / "security", self._security, self.host).client_security()

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, object] | None = None) -> None:
        """Create a topic without a client library. Raises KafkaError if the broker refuses."""
        # Imported here because most programs that start a broker do not need it.
        from fencepost.client.connection import Channel
        from fencepost.client.settings import parse_address

        configs = [{"name": key, "value": _text(value)} for key, value in (config or {}).items()]
        wanted = {"name": name, "num_partitions": partitions, "replication_factor": -1, "configs": configs}
        request = {"topics": [wanted], "timeout_ms": int(START_TIMEOUT_S * 1000)}
        address = self.bootstrap_servers
        try:
            with Channel(
                parse_address(address), "fencepost", START_TIMEOUT_S, START_TIMEOUT_S, self._client_security()
            ) as channel:
                asked = channel.request(CREATE_TOPICS, CREATE_TOPICS_VERSION, request)
                result = channel.receive(asked).topics[0]
        except ConnectionLost as error:
            state = f"does not answer at {address}" if self.running else "is not running"
            raise BrokerFailed(f"the broker {state}: {error}. {self.log}".strip()) from None
        if result.error_code != ErrorCode.NONE:
            raise KafkaError(ErrorCode(result.error_code), result.error_message or "")

    @property
    def log(self) -> str:
        """The last lines that it has logged since its start. A copy has those from before it was made."""
        return "".join(self._log)

    # -- whose it is -------------------------------------------------------------------------------------------------

    def _is_ours(self) -> bool:
        return self._held.owner == os.getpid() and not self._is_copy

    def _is_anothers(self) -> bool:
        return self._held.owner is not None and not self._is_ours()

    def _own(self, what: str) -> None:
        """Become the owner, if there is none. Called before the lock is taken: after a fork it may be held for ever."""
        if self._is_anothers():
            raise BrokerFailed(
                f"the broker belongs to process {self._held.owner}, which started it; "
                f"this is a copy in process {os.getpid()} and cannot {what} it"
            )
        self._held.owner = os.getpid()


def _pid_of_server(directory: Path) -> int | None:
    """The broker that serves a directory, seen from a process that cannot wait for it."""
    try:
        pid = int((directory / LOCK).read_text())
        if os.path.exists("/proc/self/cmdline"):
            # Empty for a process that has ended and was not waited for. Another command if the id was used again.
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            return pid if os.fsencode(directory) in words else None
        os.kill(pid, 0)
    except (OSError, ValueError):
        return None
    return pid


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(str(item) for item in value)
    return str(value)
