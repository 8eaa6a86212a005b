"""One connection to one broker: requests out, answers in, in order.

A `Channel` sends any request in any version that its caller names. A `Connection` is a channel that agrees with the
broker on versions first. Both block, with a limit on how long an answer may take. Requests may be sent ahead (`send`,
then `receive` in the same order): a broker answers a connection's requests in the order in which they came.

Invariant: after any failure in the middle of a message the channel is closed. So an answer is never matched with the
wrong request.
"""

import contextlib
import itertools
import random
import select
import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Self

from fencepost.client import authentication
from fencepost.client.settings import ClientSettings
from fencepost.errors import AuthenticationFailed, ConnectionLost, ErrorCode, InvariantBroken, Malformed, Unsupported
from fencepost.security.settings import ClientSecurity
from fencepost.wire import messages
from fencepost.wire.codec import ALWAYS, Buffer, Message, Versions
from fencepost.wire.frame import API_VERSIONS_KEY, SIZE, skip_tags
from fencepost.wire.terms import Address

CLIENT_SOFTWARE_NAME = "fencepost"
MAX_PARTS_PER_CALL = 512  #: the kernel takes 1024
MAX_ANSWER_BYTES = 1 << 30
#: How much is sent at once through TLS, which takes one buffer and no list of them.
MAX_TLS_BYTES = 256 * 1024
#: SaslAuthenticate, whose first version that says how long a login lasts is 1.
LOGIN_VERSION = 1
#: The share of a login's life after which it is renewed, as in Kafka.
RENEWAL = (0.85, 0.95)
#: A peer that speaks another protocol (TLS, HTTP) is detected by the size that its first bytes would mean.
MAX_GREETING_BYTES = 1 << 20
NOT_KAFKA = "is this a Kafka listener without TLS?"
#: What an alert of TLS begins with: a TLS listener answers a request without TLS with one.
TLS_ALERT = b"\x15\x03"
SET_TLS = "set security.protocol to SSL or SASL_SSL"

Allocate = Callable[[int], memoryview]


class Pending(NamedTuple):
    """A request that has been sent."""

    api_key: int
    version: int
    correlation_id: int


PLAINTEXT = ClientSecurity()


class Channel:
    def __init__(
        self,
        address: Address,
        client_id: str,
        timeout_s: float,
        connect_timeout_s: float,
        security: ClientSecurity = PLAINTEXT,
    ) -> None:
        """Connect and log in; ConnectionLost or AuthenticationFailed say why that failed."""
        self.address = address
        self._security = security
        self._timeout_s = timeout_s
        self._client_id = client_id.encode()[:0x7FFF]
        self._correlation_ids = itertools.count(1)
        self._in_flight: deque[Pending] = deque()
        self._login_ends_s = self._renew_login_s = float("inf")
        try:
            self._socket = socket.create_connection(address, connect_timeout_s)
        except OSError as error:
            raise ConnectionLost(f"{address}: {_reason(error)}") from None
        except UnicodeError:  # not even DNS is asked for it
            raise ConnectionLost(f"{address}: no host can have this name") from None
        self._is_open = True
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        try:
            if security.protocol.uses_tls:
                self._socket = authentication.wrap(self._socket, address, security)
            if security.protocol.uses_sasl:
                self._log_in()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._is_open = False
        self._in_flight.clear()
        self._socket.close()

    def interrupt(self) -> None:
        """From any thread: whoever waits for this connection gets ConnectionLost. It is of no more use."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    @property
    def in_flight(self) -> int:
        """Requests without an answer so far."""
        return len(self._in_flight)

    def is_usable(self) -> bool:
        """Whether a request may be sent. A broker that has hung up is noticed here, not by a lost request."""
        if not self._is_open:
            return False
        is_over = time.monotonic() > self._login_ends_s
        if is_over or (not self._in_flight and self._readable()):  # nothing is due, so this is the end of the stream
            self.close()
        return self._is_open

    def request(self, api_key: int, version: int, fields: Mapping[str, Any]) -> Pending:
        return self.send_parts(api_key, version, [messages.api(api_key).request.encode(version, fields)])

    def send_parts(self, api_key: int, version: int, parts: Sequence[Buffer]) -> Pending:
        """A request whose body is already encoded; large parts of it are sent from where they lie."""
        if not self._in_flight and time.monotonic() > self._renew_login_s:
            self._renew_login()
        pending, header = self._header(api_key, version, parts)
        self._send([header, *parts])
        self._in_flight.append(pending)
        return pending

    def receive(
        self,
        pending: Pending,
        *,
        timeout_s: float | None = None,
        allocate: Allocate | None = None,
        size_max: int = MAX_ANSWER_BYTES,
    ) -> Message:
        """The answer to the oldest request in flight, which must be `pending`. `allocate` gives the memory for it."""
        frame = self._receive_frame(pending, self._timeout_s if timeout_s is None else timeout_s, allocate, size_max)
        try:
            return self.decode(pending.api_key, pending.version, frame)
        except Malformed as error:
            self.close()
            raise ConnectionLost(f"{self.address}: the answer cannot be read: {error}") from None

    def decode(self, api_key: int, version: int, frame: Buffer) -> Message:
        """An answer, from its correlation id on."""
        response = messages.api(api_key).response
        is_flexible = version in response.flexible and api_key != API_VERSIONS_KEY
        return response.decode(version, frame, skip_tags(frame, SIZE.size) if is_flexible else SIZE.size)

    # -- the login

    def _log_in(self) -> None:
        self._renew_login_s = float("inf")
        began_s = time.monotonic()
        life_ms = authentication.log_in(self._ask, self.address, self._security, LOGIN_VERSION)
        if life_ms > 0:
            self._login_ends_s = began_s + life_ms / 1000
            self._renew_login_s = began_s + life_ms / 1000 * random.uniform(*RENEWAL)

    def _renew_login(self) -> None:
        """Log in again on the same connection (KIP-368): the broker closes it when the present login ends."""
        try:
            self._log_in()
        except AuthenticationFailed as error:
            # A new connection decides whether this is for good: a token may have been replaced in the meantime.
            self.close()
            raise ConnectionLost(str(error)) from None
        except BaseException:  # half a login: the broker takes no other requests
            self.close()
            raise

    def _ask(self, api_key: int, version: int, fields: Mapping[str, Any]) -> Message:
        """Of a broker that has not shown yet that it is the right one."""
        return self.receive(self.request(api_key, version, fields), size_max=MAX_GREETING_BYTES)

    # -- bytes -------------------------------------------------------------------------------------------------------

    def _header(self, api_key: int, version: int, parts: Sequence[Buffer]) -> tuple[Pending, bytearray]:
        """What stands before these parts of a request: its size and its header."""
        pending = Pending(api_key, version, next(self._correlation_ids) & 0x7FFFFFFF)
        header = bytearray(struct.pack(">ihhih", 0, api_key, version, pending.correlation_id, len(self._client_id)))
        header += self._client_id
        if version in messages.api(api_key).request.flexible:
            header.append(0)
        SIZE.pack_into(header, 0, len(header) - SIZE.size + sum(len(part) for part in parts))
        return pending, header

    def _send(self, parts: Sequence[Buffer]) -> None:
        if not self._is_open:
            raise ConnectionLost(f"{self.address}: the connection has been closed")
        try:
            self._socket.settimeout(self._timeout_s)
            if isinstance(self._socket, ssl.SSLSocket):
                self._send_through_tls(parts)
            else:
                self._send_all([memoryview(part) for part in parts])
        except OSError as error:
            self.close()
            raise ConnectionLost(f"{self.address}: {_reason(error)}") from None
        except BaseException:  # interrupted in the middle of a message
            self.close()
            raise

    def _send_all(self, parts: list[memoryview]) -> None:
        first = 0
        while first < len(parts):
            sent = self._socket.sendmsg(parts[first : first + MAX_PARTS_PER_CALL])
            while first < len(parts) and sent >= len(parts[first]):
                sent -= len(parts[first])
                first += 1
            if sent:
                parts[first] = parts[first][sent:]

    def _send_through_tls(self, parts: Sequence[Buffer]) -> None:
        """Small parts together: each call makes a record, and a large part makes its own."""
        gathered = bytearray()
        for part in parts:
            if len(gathered) + len(part) > MAX_TLS_BYTES and gathered:
                self._socket.sendall(gathered)
                gathered = bytearray()
            if len(part) > MAX_TLS_BYTES:
                self._socket.sendall(part)
            else:
                gathered += part
        if gathered:
            self._socket.sendall(gathered)

    def _receive_frame(
        self, pending: Pending, timeout_s: float, allocate: Allocate | None = None, size_max: int = MAX_ANSWER_BYTES
    ) -> memoryview:
        """The answer to `pending`, from its correlation id on."""
        if self._is_open and (not self._in_flight or self._in_flight[0] != pending):
            raise InvariantBroken("answers are received in the order of the requests")
        name = messages.api_names()[pending.api_key]
        frame = self._read_frame(name, timeout_s, allocate, size_max)
        if SIZE.unpack_from(frame)[0] != pending.correlation_id:
            self.close()
            raise ConnectionLost(f"{self.address} answered another request than {name}")
        self._in_flight.popleft()
        return frame

    def _read_frame(self, name: str, timeout_s: float, allocate: Allocate | None, size_max: int) -> memoryview:
        """The next frame without its size; `name` is what is waited for."""
        if not self._is_open:
            raise ConnectionLost(f"{self.address}: the connection has been closed")
        try:
            self._socket.settimeout(timeout_s)
            (size,) = SIZE.unpack(self._fill(memoryview(bytearray(SIZE.size))))
            if not SIZE.size <= size <= size_max:
                self.close()
                if SIZE.pack(size).startswith(TLS_ALERT):
                    raise ConnectionLost(f"{self.address}: it speaks TLS: {SET_TLS}")
                raise ConnectionLost(f"{self.address}: an answer of {size} bytes; {NOT_KAFKA}")
            return self._fill((allocate or _allocate)(size))
        except TimeoutError:
            self.close()
            raise ConnectionLost(f"{self.address} did not answer {name} within {timeout_s:g} s") from None
        except ssl.SSLError as error:  # with TLS 1.3 a client learns only here that its certificate was refused
            self.close()
            raise authentication.tls_failure(self.address, error) from None
        except OSError as error:
            self.close()
            is_greeting = name == messages.api_names()[API_VERSIONS_KEY] and not isinstance(self._socket, ssl.SSLSocket)
            hint = f"; if it is a TLS listener, {SET_TLS}" if is_greeting else ""
            raise ConnectionLost(f"{self.address} hung up before it answered {name}: {_reason(error)}{hint}") from None
        except BaseException:
            self.close()
            raise

    def _fill(self, buffer: memoryview) -> memoryview:
        left = buffer
        while left:
            got = self._socket.recv_into(left)
            if not got:
                raise ConnectionResetError("end of stream")
            left = left[got:]
        return buffer

    def _readable(self) -> bool:
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        if not poll.poll(0):
            return False
        if not isinstance(self._socket, ssl.SSLSocket):
            return True
        self._socket.settimeout(0)
        try:
            self._socket.recv(1)
        except ssl.SSLWantReadError:  # a message of TLS itself
            return False
        except OSError:
            pass
        return True


class Connection(Channel):
    def __init__(self, address: Address, settings: ClientSettings) -> None:
        """Connect and agree on versions; ConnectionLost says why that failed."""
        super().__init__(
            address,
            settings.client_id,
            settings.request_timeout_ms / 1000,
            settings.connect_timeout_ms / 1000,
            settings.security,
        )
        self.features: dict[str, int] = {}  #: finalised features of the cluster, for instance transaction.version
        self._versions: dict[int, Versions] = {}
        self._negotiate()

    def call(
        self,
        api_key: int,
        fields: Mapping[str, Any],
        *,
        lowest: int = 0,
        highest: int = ALWAYS.last,
        timeout_s: float | None = None,
    ) -> Message:
        """One request and its answer."""
        return self.receive(self.send(api_key, fields, lowest=lowest, highest=highest), timeout_s=timeout_s)

    def send(self, api_key: int, fields: Mapping[str, Any], *, lowest: int = 0, highest: int = ALWAYS.last) -> Pending:
        return self.request(api_key, self.version(api_key, lowest, highest), fields)

    def version(self, api_key: int, lowest: int = 0, highest: int = ALWAYS.last) -> int:
        """The highest version that the broker, the tables and the caller know."""
        table = messages.api(api_key).request.versions
        theirs = self._versions.get(api_key)
        if theirs is not None:
            version = min(theirs.last, table.last, highest)
            if version >= max(theirs.first, table.first, lowest):
                return version
        spoken = "not at all" if theirs is None else f"in versions {theirs.first} to {theirs.last}"
        ours = f"{max(table.first, lowest)} to {min(table.last, highest)}"
        name = messages.api_names()[api_key]
        raise Unsupported(f"{self.address} speaks {name} {spoken}, and this needs one of {ours}")

    def speaks(self, api_key: int, version: int) -> bool:
        theirs = self._versions.get(api_key)
        return theirs is not None and version in theirs

    def _negotiate(self) -> None:
        fields = {"client_software_name": CLIENT_SOFTWARE_NAME, "client_software_version": "0"}
        version = messages.api(API_VERSIONS_KEY).request.versions.last
        answer = self._ask_versions(version, fields)
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            # An old broker answers in version 0, and says which versions it has.
            offered = {entry.api_key: entry for entry in answer.api_keys}
            known = offered.get(API_VERSIONS_KEY)
            answer = self._ask_versions(min(version, known.max_version) if known else 0, fields)
        if answer.error_code:
            self.close()
            raise ConnectionLost(f"{self.address}: ApiVersions was refused with error {answer.error_code}")
        self._versions = {entry.api_key: Versions(entry.min_version, entry.max_version) for entry in answer.api_keys}
        self.features = {entry.name: entry.max_version_level for entry in answer.finalized_features}

    def _ask_versions(self, version: int, fields: Mapping[str, Any]) -> Message:
        pending = self.request(API_VERSIONS_KEY, version, fields)
        try:
            frame = self._receive_frame(pending, self._timeout_s, size_max=MAX_GREETING_BYTES)
            # UNSUPPORTED_VERSION comes in version 0, whatever was asked.
            refused = frame[4:6] == struct.pack(">h", ErrorCode.UNSUPPORTED_VERSION)
            return self.decode(API_VERSIONS_KEY, 0 if refused else version, frame)
        except Malformed as error:
            self.close()
            raise ConnectionLost(f"{self.address}: {error}; {NOT_KAFKA}") from None


def _allocate(size: int) -> memoryview:
    return memoryview(bytearray(size))


def _reason(error: OSError) -> str:
    """What the system says, without errno and Python's class names around it."""
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return "the broker hung up"
    return str(error.strerror or error) or type(error).__name__
