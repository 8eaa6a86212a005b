"""What exists besides the logs, durably: topics, altered settings, producer ids handed out, users, ACLs, features.

The catalogue is a journal, `catalogue` in the data directory: one line per change. So a change costs one small
write and one sync, even with many topics. Reading the lines from the first to the last gives the present state;
the same `_apply` runs when a line is written and when it is read.

Layout, version 1. Every line is the CRC-32C of the JSON in eight hex digits, a space, compact JSON, a newline::

    {"catalogue": 1}                                                  the first line: the version
    {"topic": {"name": …, "id": …, "partitions": …, "config": {…}}}   a topic, new or changed; the id in hex
    {"gone": {"name": …, "id": …}}                                    a deleted topic; its directories may still exist
    {"altered": {"source": 2, "values": {…}}}                         altered on this broker (2) or for all (3)
    {"producer_ids": 1000}                                            ids below have been handed out
    {"scram": {"user": …, "mechanism": …, "salt": …, …}}              what is kept of a password; gone if `salt` is null
    {"acl": {"resource": "TOPIC", "name": …, "pattern": …, …}}        an access control entry; fields as `acl.Acl` has
    {"acl_gone": {…}}                                                 the same fields: that entry is deleted
    {"login_secret": …}                                               what unknown users' salts are made of, in hex
    {"features": {"epoch": 1, "levels": {"transaction.version": 2}}}  what clients set, and how often they did
    {"all": [{…}, {…}]}                                               several of these, which are one change

A line that a crash left unfinished can only be the last one and is cut off. Anything else that does not check out is
damage, and the broker does not start. A newer version than ours is refused; a change of the layout raises the version
and this module goes on reading the older ones. When most lines are outdated, `tidy` writes a fresh file in its place.
"""

import json
import logging
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from crc32c import crc32c

from fencepost.broker.acl import Acl
from fencepost.errors import ErrorCode, KafkaError, Malformed
from fencepost.log.disk import Disk, File, write_fully
from fencepost.security import scram
from fencepost.security.scram import Credential, Mechanism
from fencepost.wire.terms import INTERNAL_TOPICS

logger = logging.getLogger(__name__)

FILE_NAME = "catalogue"
VERSION = 1
#: Up to this many outdated lines the file is kept as it is.
SLACK_LINES = 100

Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    id: bytes
    partitions: int
    config: Mapping[str, str] = field(default_factory=dict)  #: the topic's own settings, by Kafka's names

    @property
    def internal(self) -> bool:
        return self.name in INTERNAL_TOPICS

    def has(self, partition: int) -> bool:
        return 0 <= partition < self.partitions

    def line(self) -> Line:
        fields = {"name": self.name, "id": self.id.hex(), "partitions": self.partitions, "config": dict(self.config)}
        return {"topic": fields}


def credential_line(user: str, mechanism: Mechanism, credential: Credential | None) -> Line:
    """What is kept of a user's password from now on; None for a user that is gone."""
    kept = (
        {name: getattr(credential, name).hex() for name in ("salt", "stored_key", "server_key")} if credential else {}
    )
    iterations = credential.iterations if credential else 0
    return {"scram": {"user": user, "mechanism": mechanism.mechanism, "salt": None, "iterations": iterations, **kept}}


class Catalogue:
    """The state and its journal. Nothing changes the state except a line that is on the disk."""

    def __init__(self, disk: Disk, data_dir: str) -> None:
        self._disk = disk
        self._path = os.path.join(data_dir, FILE_NAME)
        self._file: File | None = None
        self._size = 0
        self.line_count = 0  #: lines in the file
        self._failed: KafkaError | None = None
        self.topics: dict[str, Topic] = {}
        self.gone: dict[bytes, str] = {}  #: deleted topics whose directories may still exist
        self.altered: dict[int, dict[str, str | None]] = {}
        self.next_producer_id = 0
        self.credentials: dict[tuple[str, Mechanism], Credential] = {}
        self.acls: dict[Acl, None] = {}
        self.credential_shapes: dict[Mechanism, Counter[scram.Shape]] = {each: Counter() for each in Mechanism}
        self.login_secret = b""  #: kept, so that an unknown user's salt is the same after a restart
        self.features: dict[str, int] = {}
        self.features_epoch = 0

    def open(self) -> None:
        """Read the journal, or begin one. Raises Malformed if it is damaged."""
        if self._disk.exists(self._path):
            for line in self._read():
                self._apply(line)
                self.line_count += 1
        if not self.line_count:
            self._rewrite()
        self._open_file()

    def tidy(self) -> None:
        """Forget deleted topics, whose directories are removed by now, and outdated lines if there are many."""
        self.gone.clear()
        if self.line_count > 2 * sum(1 for _ in self._lines()) + SLACK_LINES:
            self.close()
            self._rewrite()
            self._open_file()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def write(self, lines: Iterable[Line]) -> None:
        """Change the state by these lines; when this returns they are durable. KAFKA_STORAGE_ERROR changes nothing."""
        if self._failed is not None:
            raise self._failed
        if self._file is None:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "the broker is shutting down")
        written = list(lines)
        # One line, so that a crash leaves all of it or nothing. Of several lines the disk may have the last one only.
        data = _encode(written[0] if len(written) == 1 else {"all": written})
        try:
            write_fully(self._file, data, self._size)
        except OSError as error:
            self._undo(error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the catalogue could not be written: {error}") from error
        try:
            self._file.fdatasync()
        except OSError as error:
            # After a failed sync the content of the disk is unknown: nothing may be built on it.
            self._fail(error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the catalogue could not be synced: {error}") from error
        self._size += len(data)
        self.line_count += 1
        for line in written:
            self._apply(line)

    # -- lines to state ----------------------------------------------------------------------------------------------

    def _apply(self, line: Line) -> None:
        ((kind, value),) = line.items()
        if kind == "all":
            for each in value:
                self._apply(each)
        elif kind == "topic":
            topic = Topic(value["name"], bytes.fromhex(value["id"]), value["partitions"], value["config"])
            self.topics[topic.name] = topic
        elif kind == "gone":
            self.topics.pop(value["name"], None)
            self.gone[bytes.fromhex(value["id"])] = value["name"]
        elif kind == "altered":
            self.altered[value["source"]] = value["values"]
        elif kind == "producer_ids":
            self.next_producer_id = value
        elif kind == "scram":
            self._apply_credential(value)
        elif kind == "acl":
            self.acls[Acl.of_fields(value)] = None
        elif kind == "acl_gone":
            self.acls.pop(Acl.of_fields(value), None)
        elif kind == "login_secret":
            self.login_secret = bytes.fromhex(value)
        elif kind == "features":
            self.features = value["levels"]
            self.features_epoch = value["epoch"]
        elif kind != "catalogue":
            raise Malformed(f"{self._path} has a line of unknown kind {kind!r}: was it written by a newer version?")

    def _apply_credential(self, value: dict[str, Any]) -> None:
        mechanism = scram.BY_NAME[value["mechanism"]]
        shapes = self.credential_shapes[mechanism]
        if (former := self.credentials.pop((value["user"], mechanism), None)) is not None:
            shapes -= Counter([former.shape])
        if value["salt"] is not None:
            salt, stored, server = (bytes.fromhex(value[name]) for name in ("salt", "stored_key", "server_key"))
            credential = Credential(mechanism, salt, stored, server, value["iterations"])
            self.credentials[value["user"], mechanism] = credential
            shapes[credential.shape] += 1

    def _lines(self) -> Iterator[Line]:
        """The fewest lines that give the present state."""
        yield {"catalogue": VERSION}
        for topic in self.topics.values():
            yield topic.line()
        for topic_id, name in self.gone.items():
            yield {"gone": {"name": name, "id": topic_id.hex()}}
        for source, values in self.altered.items():
            yield {"altered": {"source": source, "values": values}}
        for (user, mechanism), credential in self.credentials.items():
            yield credential_line(user, mechanism, credential)
        for acl in self.acls:
            yield {"acl": acl.fields()}
        if self.login_secret:
            yield {"login_secret": self.login_secret.hex()}
        yield {"producer_ids": self.next_producer_id}
        yield {"features": {"epoch": self.features_epoch, "levels": self.features}}

    # -- the file ----------------------------------------------------------------------------------------------------

    def _read(self) -> Iterator[Line]:
        data = self._disk.read_bytes(self._path)
        position = 0
        while position < len(data):
            end = data.find(b"\n", position) + 1
            line = _decode(data[position:end]) if end else None
            if line is None:
                self._cut(data, position)
                return
            if position == 0 and line.get("catalogue") != VERSION:
                raise Malformed(
                    f"{self._path} has version {line.get('catalogue')}; this broker reads version {VERSION}"
                )
            yield line
            position = end

    def _cut(self, data: bytes, position: int) -> None:
        if any(_decode(rest + b"\n") is not None for rest in data[position:].split(b"\n")[1:]):
            raise Malformed(f"{self._path} is damaged at byte {position}: restore it from a copy")
        logger.warning("%s: cutting off an unfinished change at byte %d", self._path, position)
        file = self._disk.open(self._path)
        file.truncate(position)
        file.fdatasync()
        file.close()

    def _rewrite(self) -> None:
        lines = list(self._lines())
        self._disk.write_atomically(self._path, b"".join(_encode(line) for line in lines))
        self.line_count = len(lines)

    def _open_file(self) -> None:
        self._file = self._disk.open(self._path)
        self._size = self._file.size()

    def _undo(self, error: OSError) -> None:
        logger.error("%s: a write failed: %s", self._path, error)
        try:
            if self._file is not None:
                self._file.truncate(self._size)
        except OSError as second:
            self._fail(second)

    def _fail(self, error: OSError) -> None:
        logger.critical("%s: the disk failed, so topics can no longer be changed: %s", self._path, error)
        self._failed = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the disk failed: {error}")


def _encode(line: Line) -> bytes:
    text = json.dumps(line, separators=(",", ":"), ensure_ascii=True).encode()
    return b"%08x %s\n" % (crc32c(text), text)


def _decode(data: bytes) -> Line | None:
    """The line, or None when it is not whole."""
    if len(data) < 12 or data[8:9] != b" " or data[-1:] != b"\n":
        return None
    text = data[9:-1]
    if data[:8] != b"%08x" % crc32c(text):
        return None
    line = json.loads(text)
    return line if isinstance(line, dict) else None
