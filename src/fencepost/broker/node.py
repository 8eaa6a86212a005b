"""One broker: opens its data, wires the parts together, serves until stopped.

The order of starting matters: logs are recovered first, coordinators replay them and finish what a crash left half
done, and only then is the first connection accepted.

Everything that a broker needs from outside can be passed in: time, disk, threads, random numbers. `open` without
`listen` starts a broker whose connections come from `accept` only. So a simulation runs a broker without sockets,
threads or real time (`tests/simulation`).
"""

import asyncio
import logging
import os
import random
import resource
import signal
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from fencepost.broker.authorizer import Authorizer, check_settings
from fencepost.broker.connection import Connection
from fencepost.broker.connection_limits import ConnectionLimits
from fencepost.broker.counts import BrokerCounts
from fencepost.broker.data_directory import random_uuid
from fencepost.broker.denials import Denials
from fencepost.broker.dispatch import handlers
from fencepost.broker.encryption import Encryption
from fencepost.broker.fetch_sessions import FetchSessions
from fencepost.broker.listeners import Certificates, Listener, listeners_of
from fencepost.broker.logins import Login, Mechanisms
from fencepost.broker.maintenance import Maintenance
from fencepost.broker.metrics import render
from fencepost.broker.principals import parse_rules
from fencepost.broker.producer_clients import ProducerClients
from fencepost.broker.progress import Progress
from fencepost.broker.session import Session
from fencepost.broker.settings import Settings
from fencepost.broker.topics import TopicRegistry
from fencepost.broker.users import add_users, mechanisms_of
from fencepost.clock import Clock, SystemClock
from fencepost.coordinator.group.coordinator import GroupCoordinator
from fencepost.coordinator.txn.coordinator import TransactionCoordinator
from fencepost.coordinator.txn.steps import Step, StepHook
from fencepost.log.disk import Disk, SystemDisk
from fencepost.log.flush import Worker
from fencepost.metrics.http import MetricsServer
from fencepost.wire.terms import Address

log = logging.getLogger("fencepost")

BACKLOG = 1024
QUIET_MS = 10_000
OPEN_FILES = 100_000
#: Names the step of an ending transaction at which the process kills itself, for crash tests.
CRASH_VARIABLE = "FENCEPOST_CRASH_AT"


class Node:
    """Everything that a handler may reach is an attribute here."""

    def __init__(
        self,
        data_dir: Path,
        settings: Settings,
        host: str = "127.0.0.1",
        port: int = 9092,
        *,
        users: Mapping[str, str] | None = None,
        clock: Clock | None = None,
        disk: Disk | None = None,
        worker: Worker | None = None,
        rng: random.Random | None = None,
        step: StepHook | None = None,
        metrics: Address | None = None,
    ) -> None:
        """`users` are users of SCRAM and their passwords, to be there at the start, beside those that there are.

        `worker` runs slow work off the event loop, by default on threads. `rng` makes ids, by default really random
        ones. `step` is called at every step of an ending transaction, by default to crash at one. `metrics` is where
        to serve them over HTTP.
        """
        rng = rng or random.SystemRandom()
        self.settings = settings
        self.clock = clock or SystemClock()
        self.node_id: int = settings.node_id
        self.handlers = handlers()
        self.counts = BrokerCounts(self.handlers, self.clock.now_ms())
        self.metrics = None if metrics is None else MetricsServer(lambda: render(self), metrics, self.clock)
        self.progress = Progress()
        self.fetch_sessions = FetchSessions(settings.max_incremental_fetch_session_cache_slots, rng)
        self._users = users or {}
        self.listeners = listeners_of(settings, host, port)
        self.principal_rules = parse_rules(settings.ssl_principal_mapping_rules)
        self.limits = ConnectionLimits(settings, self.clock)
        check_settings(settings)
        self.authorizer: Authorizer | None = None  #: None: everybody may do everything
        self.denials = Denials(self.clock)
        self.producer_clients = ProducerClients()
        self._certificates: dict[str, Certificates] = {}
        self._mechanisms: dict[str, Mechanisms] = {}
        self.topics = TopicRegistry(
            data_dir,
            settings,
            self.clock,
            disk or SystemDisk(),
            on_progress=self.progress.moved,
            worker=worker,
            rng=rng,
            counts=self.counts.log,
        )
        self.groups = GroupCoordinator(
            topics=self.topics,
            clock=self.clock,
            settings=settings,
            new_id=lambda: str(uuid.UUID(bytes=random_uuid(rng))),
        )
        self.topics.on_delete(lambda topic: self.groups.offsets.topic_deleted(topic.name))
        self.transactions = TransactionCoordinator(
            topics=self.topics,
            clock=self.clock,
            settings=settings,
            marker_appended=self.groups.marker_appended,
            step=step or _crash_hook(),
            counts=self.counts.transactions,
        )
        self._maintenance = Maintenance(self)
        self._servers: list[asyncio.Server] = []
        self._connections: dict[Connection, None] = {}  # in the order of their arrival
        self.loop: asyncio.AbstractEventLoop

    async def start(self) -> None:
        """Returns once connections are accepted."""
        _raise_open_files_limit()
        self.open()
        await self.listen()

    def open(self) -> None:
        """Recover the data and begin to work. The event loop must be running."""
        self.loop = asyncio.get_running_loop()
        self.topics.open()
        add_users(self.topics.catalogue, self._users)
        if self.settings.authorizer_class_name:
            self.authorizer = Authorizer(self.settings, self.topics.catalogue)
        self.groups.start()
        self.transactions.start()
        self._maintenance.start()

    async def listen(self) -> None:
        for listener in self.listeners:
            self._secure(listener)
        for listener in self.listeners:
            made = partial(self._protocol, listener)
            server = await self.loop.create_server(
                made, listener.bound.host or None, listener.bound.port, backlog=BACKLOG
            )
            listener.bound = Address(*server.sockets[0].getsockname()[:2])
            self._servers.append(server)
            if not listener.is_local and not self._knows_its_clients(listener):
                log.warning(
                    "NO LOGIN: whoever reaches %s can read, write and delete everything, since listener %s asks for "
                    "none. Try --secure, or --host 127.0.0.1 (docs/security.md)",
                    listener.bound, listener.name,
                )  # fmt: skip

        if self.metrics is not None:
            await self.metrics.listen()

    def _knows_its_clients(self, listener: Listener) -> bool:
        required = self.settings.for_listener(listener.name, "ssl.client.auth") == "required"
        return listener.protocol.uses_sasl or (listener.protocol.uses_tls and required)

    def _secure(self, listener: Listener) -> None:
        if listener.protocol.uses_tls:
            self._certificates[listener.name] = Certificates(self.settings, listener.name)
        if listener.protocol.uses_sasl:
            self._mechanisms[listener.name] = mechanisms_of(
                self.settings, listener.name, self.topics.catalogue, self.clock, self._background
            )

    def _background(self, work: Callable[[], None]) -> None:
        if self.topics.worker is not None:
            self.topics.worker.background(work, lambda error: None)

    def _protocol(self, listener: Listener) -> asyncio.BaseProtocol:
        connection = self.accept(listener)
        if not listener.protocol.uses_tls:
            return connection
        certificates = self._certificates[listener.name]
        return Encryption(connection, certificates.context(), certificates.suites, self.clock, self.limits)

    async def stop(self) -> None:
        """Refuse new work, close the connections, close the logs. The next start then has nothing to recover."""
        for server in self._servers:
            server.close()
        if self.metrics is not None:
            self.metrics.close()
        for connection in list(self._connections):
            connection.close()
        self._maintenance.stop()
        self.denials.close()
        self.transactions.stop()
        self.groups.stop()
        await self.topics.close()

    # -- connections --------------------------------------------------------------------------------------------------

    def accept(self, listener: Listener | None = None) -> Connection:
        """The broker's end of a new connection, to be given a transport."""
        return Connection(self, self.handlers, listener or self.listeners[0])

    def session(self, host: str, listener: Listener, when_known: Callable[[], None]) -> Session:
        if not listener.protocol.uses_sasl:
            return Session(host, listener, None)
        max_reauth_ms = self.settings.for_listener(listener.name, "connections.max.reauth.ms")
        return Session(
            host, listener, Login(self._mechanisms[listener.name], self.clock.now_ms, max_reauth_ms), when_known
        )

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    def connected(self, connection: Connection) -> None:
        self._connections[connection] = None

    def disconnected(self, connection: Connection) -> None:
        self._connections.pop(connection, None)

    def close_idle_connections(self) -> None:
        """Close connections that were silent for too long, and free the buffers of quiet ones."""
        now_ms = self.clock.monotonic_ms()
        close_before_ms = now_ms - self.settings.connections_max_idle_ms
        for connection in list(self._connections):
            if connection.last_active_ms < close_before_ms:
                connection.close()
            elif connection.last_active_ms < now_ms - QUIET_MS:
                connection.idle()


def _raise_open_files_limit() -> None:
    """Two thousand clients and as many segments need more files than the usual soft limit of 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _crash_hook() -> StepHook | None:
    wanted = os.environ.get(CRASH_VARIABLE)
    if not wanted:
        return None
    at = Step[wanted]

    def crash(step: Step) -> None:
        if step is at:
            os.kill(os.getpid(), signal.SIGKILL)

    return crash
