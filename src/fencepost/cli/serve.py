"""Run one broker in this process until it is told to stop."""

import asyncio
import contextlib
import errno
import gc
import logging
import os
import signal
import sys
from pathlib import Path

import uvloop

from fencepost.broker.node import Node
from fencepost.broker.settings import Settings
from fencepost.errors import FencepostError

logger = logging.getLogger("fencepost")

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def serve(
    data_dir: Path, settings: Settings, host: str, port: int, *, log_level: str, until_stdin_closes: bool
) -> str | None:
    """Serve until a signal; None after an orderly end, else what went wrong, for a user to read."""
    logging.basicConfig(
        stream=sys.stderr, level=log_level.upper(), format="%(asctime)s %(levelname)-7s %(name)s: %(message)s"
    )
    try:
        uvloop.run(_serve(data_dir, settings, host, port, until_stdin_closes=until_stdin_closes))
    except FencepostError as error:
        return str(error)
    except OSError as error:
        return _explain(error, data_dir, host, port)
    return None


async def _serve(data_dir: Path, settings: Settings, host: str, port: int, *, until_stdin_closes: bool) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, _stop_once, loop, stop)
    node = Node(data_dir, settings, host, port)
    try:
        await node.start()
    except BaseException:
        with contextlib.suppress(Exception):  # what failed is the message, not that half a broker cannot stop
            await node.stop()
        raise
    if until_stdin_closes:
        loop.add_reader(sys.stdin.fileno(), _stop_at_end, loop, stop)
    _calm_garbage_collector()
    print(f"listening on {_address(*node.bound)}", flush=True)
    await stop.wait()
    logger.info("stopping")
    await node.stop()


def _calm_garbage_collector() -> None:
    """What was made at the start stays, and requests make few cycles: there is little to look for."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def _stop_once(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    """The first signal stops in good order, the second at once."""
    stop.set()
    for number in STOP_SIGNALS:
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_DFL)


def _stop_at_end(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        loop.remove_reader(sys.stdin.fileno())
        stop.set()


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _explain(error: OSError, data_dir: Path, host: str, port: int) -> str:
    """An error of the system, said as what the user can change."""
    if error.errno == errno.EADDRINUSE:
        return f"{_address(host, port)} is in use by another process; choose another --port (0 takes a free one)"
    if error.errno in (errno.EADDRNOTAVAIL, errno.EACCES) and error.filename is None:
        return f"cannot listen on {_address(host, port)}: {error.strerror}"
    if error.filename is not None:
        return f"{error.strerror}: {error.filename}"
    return f"cannot serve {data_dir} on {_address(host, port)}: {error}"
