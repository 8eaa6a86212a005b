"""The way into a connection: bytes from the socket become whole frames, wherever they were cut.

All connections read into one scratch buffer, because an event loop serves them one at a time; frames that arrive whole
are served from there, without a copy. A connection whose frames arrive in pieces gets a buffer of its own and keeps it
while it is busy. That buffer grows with the bytes that really came, so that announcing 2 GB costs nothing.

A frame is a view into one of these buffers and is valid until the next read. A caller that needs it longer copies it.
"""

from collections.abc import Iterator

from fencepost.errors import Malformed
from fencepost.wire.frame import SIZE

SIZE_BYTES = SIZE.size
SCRATCH_BYTES = 256 * 1024
OWN_BYTES = 256 * 1024
#: If a buffer has less room than this at its end, its bytes are moved to its beginning.
ROOM_BYTES = 64 * 1024
#: A larger buffer is freed as soon as it is empty. Frames of clients with a `batch.size` of 1 MB fit into a kept one.
KEPT_BYTES = 2 * 1024 * 1024

_scratch = memoryview(bytearray(SCRATCH_BYTES))


class Inbox:
    __slots__ = ("_end", "_own", "_start", "max_frame_bytes")

    def __init__(self, max_frame_bytes: int) -> None:
        self.max_frame_bytes = max_frame_bytes
        self._own: memoryview | None = None
        self._start = 0  # in our own buffer, where the bytes that are not yet served begin
        self._end = 0

    def room(self) -> memoryview:
        """Where the next bytes go."""
        return _scratch if self._own is None else self._own[self._end :]

    def frames(self, count: int) -> Iterator[memoryview]:
        """The frames that are whole now that `count` bytes came. Run it to its end, unless the connection is over.

        Raises Malformed for a frame that is larger than allowed.
        """
        if self._own is None:
            buffer, start, end = _scratch, 0, count
        else:
            buffer, start, end = self._own, self._start, self._end + count
        frame_bytes = 0
        while end - start >= SIZE_BYTES:
            (size,) = SIZE.unpack_from(buffer, start)
            if not 0 <= size <= self.max_frame_bytes:
                raise Malformed(
                    f"a frame of {size} bytes was announced (socket.request.max.bytes={self.max_frame_bytes})"
                )
            begin = start + SIZE_BYTES
            if begin + size > end:
                frame_bytes = SIZE_BYTES + size
                break
            start = begin + size
            yield buffer[begin:start]
        self._keep(buffer, start, end, frame_bytes)

    def release(self) -> None:
        """Free the buffer if nothing is in it."""
        if self._start == self._end:
            self._own = None

    def _keep(self, buffer: memoryview, start: int, end: int, frame_bytes: int) -> None:
        """Keep the piece of a frame, with room behind it for more; `frame_bytes` is 0 while its size is not known."""
        piece = end - start
        if piece == 0:
            self._start = self._end = 0
            if self._own is not None and len(self._own) > KEPT_BYTES:
                self._own = None
            return
        own = self._own
        if own is not None and len(own) - end >= ROOM_BYTES:
            self._start, self._end = start, end
            return
        if own is None or piece > len(own) - ROOM_BYTES:
            # The buffer is never resized in place: the event loop may still hold a view of the old one.
            own = memoryview(bytearray(max(OWN_BYTES, min(2 * piece, frame_bytes + ROOM_BYTES))))
        own[:piece] = buffer[start:end]
        self._own, self._start, self._end = own, 0, piece
