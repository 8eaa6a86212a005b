"""A server of frames on a real socket: what plays a broker in a test."""

import contextlib
import socket
import struct
import threading
from typing import Any, Self

from fencepost.wire.terms import Address

HANG_UP, SILENCE = object(), object()


class FrameServer:
    def __init__(self) -> None:
        self.connections = 0
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address(*self._listener.getsockname())
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listener.close()
        self.hang_up()

    def hang_up(self) -> None:
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        self._open.clear()

    def respond(self, request: bytes) -> Any:
        """From a request without its size to a whole answer, or to `HANG_UP` or `SILENCE`."""
        raise NotImplementedError

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._open.append(connection)
                self.connections += 1
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError, struct.error), connection:
            while (answer := self.respond(read_frame(connection))) is not HANG_UP:
                if answer is not SILENCE:
                    connection.sendall(answer)
            connection.shutdown(socket.SHUT_RDWR)


def read_frame(connection: socket.socket) -> bytes:
    """The next frame without its size; struct.error when the peer has hung up."""
    (size,) = struct.unpack(">i", _exactly(connection, 4))
    return _exactly(connection, size)


def _exactly(connection: socket.socket, count: int) -> bytes:
    found = bytearray()
    while len(found) < count and (more := connection.recv(count - len(found))):
        found += more
    return bytes(found)
