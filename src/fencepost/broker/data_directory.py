"""Which cluster and which node the data directory belongs to.

`meta.properties` is Kafka's file, version 1::

    version=1
    cluster.id=…         22 characters, a random UUID in URL-safe base64
    node.id=1
    directory.id=…
"""

import base64
import os
import random
import uuid
from dataclasses import dataclass

from fencepost.errors import ConfigError, Malformed
from fencepost.log.disk import Disk

META = "meta.properties"
META_VERSION = "1"


@dataclass(frozen=True, slots=True)
class Identity:
    cluster_id: str
    node_id: int
    directory_id: bytes


def load_identity(disk: Disk, data_dir: str, node_id: int, rng: random.Random) -> Identity:
    """The owner of the directory. A new one becomes ours. ConfigError if it belongs to another node id."""
    path = os.path.join(data_dir, META)
    if not disk.exists(path):
        identity = Identity(encode_uuid(random_uuid(rng)), node_id, random_uuid(rng))
        disk.write_atomically(path, _render(identity))
        return identity
    lines = disk.read_bytes(path).decode("utf-8", "replace").splitlines()
    fields = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    try:
        if fields["version"] != META_VERSION:
            raise Malformed(f"{path} has version {fields['version']}; this broker reads version {META_VERSION}")
        found = Identity(fields["cluster.id"], int(fields["node.id"]), decode_uuid(fields["directory.id"]))
    except (KeyError, ValueError) as error:
        raise Malformed(f"{path} cannot be read: {error}") from None
    if found.node_id != node_id:
        raise ConfigError(f"{data_dir} belongs to node.id {found.node_id}, but node.id is {node_id}")
    return found


def _render(identity: Identity) -> bytes:
    return (
        f"#\nversion={META_VERSION}\ncluster.id={identity.cluster_id}\nnode.id={identity.node_id}\n"
        f"directory.id={encode_uuid(identity.directory_id)}\n"
    ).encode()


def random_uuid(rng: random.Random) -> bytes:
    """A random id as Kafka makes them: its text never begins with a dash, which command lines would misread."""
    while True:
        value = uuid.UUID(bytes=rng.randbytes(16), version=4).bytes
        if not encode_uuid(value).startswith("-"):
            return value


def encode_uuid(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def decode_uuid(text: str) -> bytes:
    value = base64.urlsafe_b64decode(text + "==")
    if len(value) != 16:
        raise ValueError(f"{text!r} is not a UUID")
    return value
