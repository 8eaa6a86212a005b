"""The way out of a connection: what is in line goes out in order, and nobody is served who has gone."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.broker.outbox import Outbox
from fencepost.log.disk import SystemDisk
from fencepost.log.slices import FileSlice

STORED = b"stored records " * 100


class OpenTransport:
    def __init__(self, near: socket.socket) -> None:
        self._near = near

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._near if name == "socket" else default

    def is_closing(self) -> bool:
        return False


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    near, far = socket.socketpair()
    near.setblocking(False)
    yield near, far
    near.close()
    far.close()


@pytest.fixture
def stored(tmp_path: Path) -> Callable[[], FileSlice]:
    (tmp_path / "log").write_bytes(STORED)
    file = SystemDisk().open(str(tmp_path / "log"))
    return lambda: FileSlice(file, 0, len(STORED))


class NoLoop:
    """The sockets of these tests take all that they are given."""

    def call_soon(self, callback: Callable[[], None], /) -> Any:
        raise AssertionError

    def add_writer(self, fd: int, callback: Callable[[], None], /) -> None:
        raise AssertionError

    def remove_writer(self, fd: int, /) -> bool:
        raise AssertionError


def open_outbox(near: socket.socket, broken: Callable[[str, int], None]) -> Outbox:
    return Outbox(OpenTransport(near), NoLoop(), lambda: None, broken)


def test_bytes_and_stored_records_go_out_in_order(
    ends: tuple[socket.socket, socket.socket], stored: Callable[[], FileSlice]
) -> None:
    near, far = ends
    outbox = open_outbox(near, pytest.fail)
    outbox.add([b"head", stored(), b"tail"])
    outbox.flush()
    outbox.close()
    wanted = b"head" + STORED + b"tail"
    assert far.recv(len(wanted), socket.MSG_WAITALL) == wanted


@pytest.mark.parametrize("first", ["bytes", "stored records"])
def test_whoever_hears_that_the_client_has_gone_may_flush_once_more(
    ends: tuple[socket.socket, socket.socket], stored: Callable[[], FileSlice], first: str
) -> None:
    near, far = ends
    far.close()
    heard: list[str] = []

    def broken(reason: str, level: int) -> None:
        heard.append(reason)
        outbox.flush()

    outbox = open_outbox(near, broken)
    outbox.add([b"head", stored(), b"tail"] if first == "bytes" else [stored(), b"tail", stored()])
    outbox.flush()
    assert len(heard) == 1
    assert not outbox.unsent
    outbox.close()
