"""Who may write: a writer asks the driver for a permit before its first record, and each gets at most one.

Sequences begin at 0 in every epoch. Kafka takes the batches of a second writer for retries of the first one's and drops
them. So a writer that Spark starts again must not write. Spark starts tasks again for many reasons and does not tell a
Python worker all of them: a stage that is repeated after a lost shuffle file counts its attempts from 0 again, while
tasks of the first attempt may still run. The driver is one process, so it can count.

The permit carries the identity to write with. So nobody can write without one, and the transaction is begun by the
first permit, not while rows are computed.

An encoder that hands its record batches to the driver (`handover`) asks the same way, once for each part. Its first
part gets the permit, and the others are taken from the same task only.

Invariant: between `open` and `close` a writer's number is granted at most once; after `close` none is, and nothing is
taken.
"""

import contextlib
import json
import secrets
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fencepost.client.identity import ProducerIdentity, TransactionProtocol
from fencepost.errors import FencepostError, WriteFailed
from fencepost.spark.sink.spool import Place

#: Takes a part that a writer has handed over, to be written with this identity.
Take = Callable[[ProducerIdentity, int, Place], None]

TIMEOUT_S = 30.0
#: The driver answers when the transaction is begun. Before that it may have to wait for a broker to restart.
ANSWER_TIMEOUT_S = 180.0
MAX_LINE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Ticket:
    """Where to ask for a permit, for one attempt at a batch."""

    host: str
    port: int
    token: str


class PermitDesk:
    """The driver's side. Listens until `shut`, and serves one attempt at a time."""

    def __init__(self, bind_host: str, host: str, port: int = 0) -> None:
        self._host = host
        self._lock = threading.Lock()
        self._token: str | None = None  #: of the attempt that is open
        self._granted: dict[int, str] = {}
        self._begin: Callable[[], ProducerIdentity]
        self._take: Take | None = None
        self.error: FencepostError | None = None  #: why the transaction could not be begun
        self._is_shut = False
        try:
            self._socket = socket.create_server((bind_host, port))
        except OSError as error:
            raise WriteFailed(f"the driver cannot listen on {bind_host}:{port} for its writers: {error}") from None
        self._port = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._listen, name="fencepost-permits", daemon=True)
        self._thread.start()

    def open(self, begin: Callable[[], ProducerIdentity], take: Take | None = None) -> Ticket:
        """Grant permits for one attempt. Each calls `begin` for the identity. `take` gets what is handed over."""
        with self._lock:
            self._token, self._granted, self._begin, self.error = secrets.token_hex(16), {}, begin, None
            self._take = take
            return Ticket(self._host, self._port, self._token)

    def close(self) -> int:
        """Grant no more permits. Returns how many were granted. No other thread begins the transaction from now on."""
        with self._lock:
            self._token = None
            return len(self._granted)

    def shut(self) -> None:
        self.close()
        self._is_shut = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # `accept` in the other thread returns
        self._thread.join()
        self._socket.close()

    def _listen(self) -> None:
        while not self._is_shut:
            with contextlib.suppress(OSError):  # a client that hung up, or `shut`
                connection, _ = self._socket.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        """One question, one answer. A client that hangs up or sends garbage gets no permit."""
        connection.settimeout(TIMEOUT_S)
        with connection, connection.makefile("rb") as lines, contextlib.suppress(Exception):
            asked = json.loads(lines.readline(MAX_LINE_BYTES))
            connection.sendall(json.dumps(self._answer(asked)).encode() + b"\n")

    def _answer(self, asked: Any) -> dict[str, object]:
        with self._lock:
            if self._token is None or not secrets.compare_digest(str(asked.get("token")), self._token):
                return {"refused": "its attempt at the batch is over"}
            writer, task, part = int(asked["writer"]), str(asked["task"]), asked.get("part")
            holder = self._granted.get(writer)
            if holder is not None and (part is None or holder != task):
                return {"refused": f"task {holder} has a permit already"}
            try:
                identity = self._begin()
            except FencepostError as error:
                self.error = error
                return {"refused": f"the transaction cannot be begun: {error}"}
            self._granted[writer] = task
            if part is not None and self._take is not None:
                self._take(identity, writer, Place._make(map(int, part)))
        return {
            "transactional_id": identity.transactional_id,
            "producer_id": identity.producer_id,
            "epoch": identity.epoch,
            "protocol": int(identity.protocol),
        }


def ask(ticket: Ticket, writer: int, task: str, part: Place | None = None) -> ProducerIdentity:
    """The writer's side: the identity to write with. Raises WriteFailed if the writer gets no permit.

    `part` is handed over: once this returns, the driver writes it.
    """
    asked = {"token": ticket.token, "writer": writer, "task": task} | ({} if part is None else {"part": part})
    try:
        with socket.create_connection((ticket.host, ticket.port), timeout=TIMEOUT_S) as connection:
            line = json.dumps(asked)
            connection.sendall(line.encode() + b"\n")
            connection.settimeout(ANSWER_TIMEOUT_S)
            with connection.makefile("rb") as answers:
                answer = json.loads(answers.readline(MAX_LINE_BYTES))
    except (OSError, ValueError) as error:
        raise WriteFailed(
            f"writer {writer} cannot reach the driver at {ticket.host}:{ticket.port} to ask for its permit: {error}. "
            "If executors need another host name or port for the driver, set the options permitHost and permitPort"
        ) from None
    if "refused" in answer:
        raise WriteFailed(f"writer {writer} (task {task}) may not write: {answer['refused']}")
    return ProducerIdentity(
        answer["transactional_id"], answer["producer_id"], answer["epoch"], TransactionProtocol(answer["protocol"])
    )
