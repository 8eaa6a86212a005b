"""Serving the console until it is told to stop. Owns where it listens, and under which conditions."""

import asyncio
import contextlib
import secrets
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import FrameType

import uvicorn

from fencepost.console.access import Changes, Rules
from fencepost.console.app import Console
from fencepost.console.clusters import patient_settings
from fencepost.errors import ConfigError
from fencepost.hosts import is_loopback
from fencepost.wire.terms import EVERYWHERE, Address

DEFAULT = Address("127.0.0.1", 9094)
STOP_S = 1


@dataclass(frozen=True, slots=True)
class Options:
    cluster: Mapping[str, str] = field(repr=False)
    listen: Address = DEFAULT
    token: str | None = field(default=None, repr=False)
    changes: Changes = Changes.REFUSED
    names: tuple[str, ...] = ()  #: more hosts under which it is asked
    metrics_url: str | None = None  #: of the broker beside it


def parse_listen(text: str, option: str) -> Address:
    """HOST:PORT, or a port alone, which is on this machine."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if colon else DEFAULT.host
    if not port.isdecimal() or int(port) > 65535 or not host:
        raise ConfigError(f"{option} takes HOST:PORT, not {text!r}")
    return Address(host, int(port))


def with_token(options: Options) -> Options:
    """Beyond this machine there must be a token: one is made if none was given."""
    if options.token is not None or is_loopback(options.listen.host):
        return options
    return replace(options, token=secrets.token_urlsafe(18))


def serve(options: Options, started: Callable[[str], None]) -> None:
    """Until SIGINT or SIGTERM. `started` gets the address once the page can be opened. Raises OSError."""
    with _listening(options.listen) as listener:
        host, port = listener.getsockname()[:2]
        names = {options.listen.host, socket.gethostname(), *options.names} - set(EVERYWHERE)
        rules = Rules.make(names, options.token, options.changes, port)
        console = Console(patient_settings(options.cluster), rules, options.metrics_url)
        config = uvicorn.Config(
            console.app(),
            access_log=False,
            log_level="warning",
            lifespan="on",
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=STOP_S,
            forwarded_allow_ips="",
            proxy_headers=False,
        )
        shown = "127.0.0.1" if host in EVERYWHERE else host
        server = _Server(config, lambda: started(f"http://{Address(shown, port)}/"), console.board.close)
        asyncio.run(server.serve(sockets=[listener]))


class _Server(uvicorn.Server):
    """Says when the page can be opened, and when it ends: streams would keep it alive."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None], stopping: Callable[[], None]) -> None:
        super().__init__(config)
        self._announce = started
        self._stopping = stopping

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._stopping()
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._announce()


@contextlib.contextmanager
def _listening(where: Address) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in where.host else socket.AF_INET
    with socket.create_server(where, family=family, backlog=128) as listener:
        yield listener
