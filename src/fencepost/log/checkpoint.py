"""The small files beside the logs: offsets checkpointed for a whole data directory, the mark of a clean shutdown, and
which topic a partition's directory belongs to. All are Kafka's formats.

`recovery-point-offset-checkpoint`, `log-start-offset-checkpoint` and `cleaner-offset-checkpoint`: lines of text, `0`
(the version), the number of entries, then `topic partition offset`. `.kafka_cleanshutdown` counts by being there.
`partition.metadata`: `version: 0`, `topic_id: ` and the id in URL-safe base64 without padding.
"""

import base64
import os
from collections.abc import Mapping, Sequence

from fencepost.errors import ErrorCode, KafkaError, Malformed
from fencepost.log import files
from fencepost.log.disk import Disk
from fencepost.log.flush import Worker
from fencepost.wire.terms import TopicPartition

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"

VERSION = 0


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, int]:
    """The offsets in a checkpoint file, none when there is no file. Raises Malformed."""
    try:
        entries = [line.rsplit(" ", 2) for line in decode_lines(disk.read_bytes(path))]
        return {TopicPartition(topic, int(partition)): int(offset) for topic, partition, offset in entries}
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise Malformed(f"{path} cannot be read: {error}") from None


def write_offsets(disk: Disk, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    entries = [f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items())]
    disk.write_atomically(path, encode_lines(entries))


def encode_lines(entries: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in (VERSION, len(entries), *entries)).encode()


def decode_lines(data: bytes) -> list[str]:
    """The entries of a checkpoint. Raises ValueError for what is not one."""
    version, count, *entries = data.decode().splitlines()
    if int(version) != VERSION or int(count) != len(entries):
        raise ValueError("it has another version or length than it says")
    return entries


def mark_clean_shutdown(disk: Disk, data_directory: str) -> None:
    """Every log has been closed without an error."""
    disk.write_atomically(os.path.join(data_directory, CLEAN_SHUTDOWN), b'{"version":0,"brokerEpoch":-1}')


def take_clean_shutdown(disk: Disk, data_directory: str) -> bool:
    """Whether the last shutdown was clean. The mark is removed: this broker writes its own when it stops."""
    path = os.path.join(data_directory, CLEAN_SHUTDOWN)
    if not disk.exists(path):
        return False
    disk.unlink(path)
    disk.fsync_dir(data_directory)
    return True


def encode_topic_id(topic_id: bytes) -> bytes:
    """The content of `partition.metadata`."""
    return b"version: 0\ntopic_id: " + base64.urlsafe_b64encode(topic_id).rstrip(b"=")


def read_topic_id(disk: Disk, directory: str) -> bytes | None:
    """The topic id in `partition.metadata`; None when there is no such file or a crash left it unfinished."""
    try:
        text = disk.read_bytes(os.path.join(directory, files.PARTITION_METADATA)).decode("ascii")
        fields = dict(line.split(": ", 1) for line in text.splitlines())
        topic_id = base64.urlsafe_b64decode(fields["topic_id"] + "==")
    except (OSError, ValueError, KeyError):
        return None
    return topic_id if len(topic_id) == 16 else None


def check_topic_id(disk: Disk, directory: str, topic_id: bytes) -> None:
    found = read_topic_id(disk, directory)
    if found is not None and found != topic_id:
        raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID, f"{directory} belongs to another topic of the same name")


def discard_directory(disk: Disk, directory: str, topic_id: bytes, worker: Worker) -> None:
    """Rename a partition's directory, durably, and remove its files in the background."""
    # Kafka's pattern for deleted directories: name.uuid-delete, cut to the length of a file name.
    suffix = f".{topic_id.hex()}{files.DELETED_DIRECTORY}"
    parent, name = os.path.split(directory)
    discarded = os.path.join(parent, name[: 255 - len(suffix)] + suffix)
    disk.rename(directory, discarded)
    disk.fsync_dir(parent)
    worker.background(lambda: disk.rmtree(discarded), lambda error: None)


def sweep_discarded(disk: Disk, data_directory: str) -> None:
    """Remove directories that `discard_directory` had renamed when the process ended."""
    for name in disk.listdir(data_directory):
        if name.endswith(files.DELETED_DIRECTORY):
            disk.rmtree(os.path.join(data_directory, name))
