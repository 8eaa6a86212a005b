"""Who may write: a writer asks the driver before its first record, and each is told yes once.

Sequences begin at 0 in every epoch, and Kafka takes a second writer's batch for a repetition of the first one's and
drops it. So a writer that Spark starts again must not write. Spark starts tasks again for many reasons, and does not
tell a Python worker all of them: a stage that is repeated after a lost shuffle file counts its attempts from 0 again,
beside tasks of the first attempt that still run. The driver's process can tell, because it is one.

The answer carries the identity to write with. So without a permit nobody can write, and the transaction is open from
the first permit on, not during the computing before it.

Invariant: between `open` and `close` a writer's number is granted at most once; after `close` none is.
"""

import json
import secrets
import socket
import socketserver
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fencepost.client.identity import ProducerIdentity, TransactionProtocol
from fencepost.errors import FencepostError, WriteFailed

TIMEOUT_S = 30.0
#: The driver answers once the transaction is begun, and for that it may have to wait for a broker that is restarted.
ANSWER_TIMEOUT_S = 180.0
MAX_LINE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Ticket:
    """Where to ask, for one attempt at a batch."""

    host: str
    port: int
    token: str


class PermitDesk:
    """The driver's side. Listens from the first `open` on until `shut`; one attempt at a time."""

    def __init__(self, bind_host: str, host: str, port: int = 0) -> None:
        self._host = host
        self._lock = threading.Lock()
        self._token = ""
        self._granted: dict[int, str] = {}
        self._begin: Callable[[], ProducerIdentity] | None = None
        self.error: FencepostError | None = None  #: why the transaction could not be begun
        try:
            self._server = _Server((bind_host, port), self)
        except OSError as error:
            raise WriteFailed(f"the driver cannot listen on {bind_host}:{port} for its writers: {error}") from None
        threading.Thread(target=self._server.serve_forever, name="fencepost-permits", daemon=True).start()

    def open(self, begin: Callable[[], ProducerIdentity]) -> Ticket:
        """Grant permits for one attempt. `begin` gives the identity, and is called no sooner than it is needed."""
        with self._lock:
            self._token, self._granted, self._begin, self.error = secrets.token_hex(16), {}, begin, None
            return Ticket(self._host, self._server.server_address[1], self._token)

    def close(self) -> int:
        """No more of them. Gives how many there were; then nobody but the caller uses the transaction."""
        with self._lock:
            self._token, self._begin = "", None
            return len(self._granted)

    def shut(self) -> None:
        self.close()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, asked: Any) -> dict[str, object]:
        """What a writer is told. Runs in the server's threads."""
        with self._lock:
            if self._begin is None or not secrets.compare_digest(str(asked.get("token")), self._token):
                return {"refused": "its attempt at the batch is over"}
            writer, task = int(asked["writer"]), str(asked["task"])
            if writer in self._granted:
                return {"refused": f"task {self._granted[writer]} has been writing already"}
            try:
                identity = self._begin()
            except FencepostError as error:
                self.error = error
                return {"refused": f"the transaction cannot be begun: {error}"}
            self._granted[writer] = task
        return {
            "transactional_id": identity.transactional_id,
            "producer_id": identity.producer_id,
            "epoch": identity.epoch,
            "protocol": int(identity.protocol),
        }


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    #: Otherwise every connection's thread is kept to be joined at the end.
    block_on_close = False

    def __init__(self, address: tuple[str, int], desk: PermitDesk) -> None:
        self.desk = desk
        super().__init__(address, _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever hangs up or sends nonsense has no permit; nothing to say about it."""


class _Handler(socketserver.StreamRequestHandler):
    timeout = TIMEOUT_S
    server: _Server

    def handle(self) -> None:
        asked = json.loads(self.rfile.readline(MAX_LINE_BYTES))
        self.wfile.write(json.dumps(self.server.desk.answer(asked)).encode() + b"\n")


def ask(ticket: Ticket, writer: int, task: str) -> ProducerIdentity:
    """The writer's side: the identity to write with. WriteFailed when it must not."""
    try:
        with socket.create_connection((ticket.host, ticket.port), timeout=TIMEOUT_S) as connection:
            line = json.dumps({"token": ticket.token, "writer": writer, "task": task})
            connection.sendall(line.encode() + b"\n")
            connection.settimeout(ANSWER_TIMEOUT_S)
            with connection.makefile("rb") as answers:
                answer = json.loads(answers.readline(MAX_LINE_BYTES))
    except (OSError, ValueError) as error:
        raise WriteFailed(
            f"writer {writer} cannot ask the driver at {ticket.host}:{ticket.port} whether it may write: {error}. "
            "If executors reach the driver by another name or port, say so with the options permitHost and permitPort"
        ) from None
    if "refused" in answer:
        raise WriteFailed(f"writer {writer} (task {task}) may not write: {answer['refused']}")
    return ProducerIdentity(
        answer["transactional_id"], answer["producer_id"], answer["epoch"], TransactionProtocol(answer["protocol"])
    )
