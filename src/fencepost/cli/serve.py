"""Run one broker in this process until it is told to stop, or until its owner is gone.

A broker that a program started belongs to that program (`fencepost.embedded`) and must not outlive it. The program may
be killed, so the broker itself has to notice.
"""

import asyncio
import contextlib
import errno
import gc
import logging
import os
import select
import shutil
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import uvloop

from fencepost.allocator import keep_freed_memory
from fencepost.broker.node import Node
from fencepost.broker.settings import Settings
from fencepost.errors import FencepostError
from fencepost.wire.terms import Address

logger = logging.getLogger("fencepost")

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
OWNER_POLL_S = 0.25
STDIN = 0
DENIALS_FILE = "authorizer.log"  #: in the data directory
DENIALS_BYTES = 10 * 1024 * 1024  #: then it is renamed to authorizer.log.1, and a new one begun
#: Memory that is freed is kept up to here; buffers of requests and answers are reused up to here.
KEPT_BYTES, REUSED_BYTES = 32 * 1024 * 1024, 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Owner:
    """The parent process. It holds the other end of standard input, and writes nothing to it.

    Its end of the pipe closes when it ends or calls exec. A fork of it may hold a copy of that end, so the parent's
    process id is compared too: a process whose parent dies gets another parent.
    """

    pid: int
    takes_data_along: bool

    def is_gone(self) -> bool:
        stdin = select.poll()
        stdin.register(STDIN, 0)  # POLLHUP is always reported
        return os.getppid() != self.pid or any(event & select.POLLHUP for _, event in stdin.poll(0))


def serve(
    data_dir: Path,
    settings: Settings,
    host: str,
    port: int,
    *,
    log_level: str,
    owner: Owner | None,
    users: Mapping[str, str],
    metrics: Address | None,
    greeting: Callable[[Node], str],
) -> str | None:
    """Serve until a signal. Returns None after a clean stop, otherwise an error message for the user.

    `greeting` is printed once connections are accepted.
    """
    logging.basicConfig(
        stream=sys.stderr, level=log_level.upper(), format="%(asctime)s %(levelname)-7s %(name)s: %(message)s"
    )
    if settings.authorizer_class_name:
        _log_denials(data_dir / DENIALS_FILE)
    keep_freed_memory(KEPT_BYTES, REUSED_BYTES)
    try:
        uvloop.run(_serve(Node(data_dir, settings, host, port, users=users, metrics=metrics), owner, greeting))
    except FencepostError as error:
        return str(error)
    except OSError as error:
        return _explain(error, data_dir, host, port)
    finally:
        # Checked again here: the owner may have been killed since it told us to stop.
        if owner is not None and owner.takes_data_along and owner.is_gone():
            shutil.rmtree(data_dir, ignore_errors=True)
    return None


def _log_denials(path: Path) -> None:
    """Denials go to a file of their own, which stays small, and not to standard error."""
    from logging.handlers import RotatingFileHandler  # 40 ms, which most brokers can do without

    log = logging.getLogger("fencepost.authorizer")
    to_file = RotatingFileHandler(path, maxBytes=DENIALS_BYTES, backupCount=1, delay=True, encoding="utf-8")
    to_file.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    log.addHandler(to_file)
    log.setLevel(logging.INFO)
    log.propagate = False


async def _serve(node: Node, owner: Owner | None, greeting: Callable[[Node], str]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, _stop_once, loop, stop)
    try:
        await node.start()
    except BaseException:
        with contextlib.suppress(Exception):  # report why the start failed, not why the stop did
            await node.stop()
        raise
    if owner is not None:
        _watch(owner, loop, stop)
    _calm_garbage_collector()
    print(greeting(node), flush=True)
    await stop.wait()
    logger.info("stopping")
    await node.stop()


def _calm_garbage_collector() -> None:
    """Collect less often: objects made at the start stay, and requests make few cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def _stop_once(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    """The first signal stops cleanly, the second at once."""
    stop.set()
    for number in STOP_SIGNALS:
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_DFL)


def _watch(owner: Owner, loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    if owner.is_gone():
        stop.set()
    else:
        loop.call_later(OWNER_POLL_S, _watch, owner, loop, stop)


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _explain(error: OSError, data_dir: Path, host: str, port: int) -> str:
    """An error of the operating system, as a message about what the user can change."""
    if error.errno == errno.EADDRINUSE:
        return f"{_address(host, port)} is in use by another process; choose another --port (0 for a free one)"
    if error.errno in (errno.EADDRNOTAVAIL, errno.EACCES) and error.filename is None:
        return f"cannot listen on {_address(host, port)}: {error.strerror}"
    if error.filename is not None:
        return f"{error.strerror}: {error.filename}"
    return f"cannot serve {data_dir} on {_address(host, port)}: {error}"
