"""Finds the directories of partitions, and clears away the others.

What is left of a deleted topic is removed. A directory whose topic the catalogue never knew is only renamed, as Kafka
does with strays: it may be the only copy of the data.
"""

import logging
import os
import re
from collections.abc import Iterator

from fencepost.broker.catalogue import Catalogue, Topic
from fencepost.log import checkpoint
from fencepost.log.disk import Disk

logger = logging.getLogger(__name__)

STRAY = "-stray"
_PARTITION = re.compile(r"(.+)-(\d+)")


def find_partitions(disk: Disk, data_dir: str, catalogue: Catalogue) -> Iterator[tuple[Topic, int]]:
    """The partitions that have a directory. At the end no other directory looks like a partition's."""
    checkpoint.sweep_discarded(disk, data_dir)
    for name in sorted(disk.listdir(data_dir)):
        match = _PARTITION.fullmatch(name)
        if match is None:
            continue
        topic, partition = catalogue.topics.get(match[1]), int(match[2])
        topic_id = checkpoint.read_topic_id(disk, os.path.join(data_dir, name))
        # A directory without an id was never synced. Nothing in it was acknowledged, so its topic takes it over.
        if topic is not None and partition < topic.partitions and topic_id in (topic.id, None):
            yield topic, partition
        elif topic_id is not None:
            _put_away(disk, os.path.join(data_dir, name), topic_id, deleted=topic_id in catalogue.gone)
    disk.fsync_dir(data_dir)


def _put_away(disk: Disk, path: str, topic_id: bytes, *, deleted: bool) -> None:
    if deleted:
        disk.rmtree(path)
        return
    directory, name = os.path.split(path)
    suffix = f".{topic_id.hex()}{STRAY}"
    stray = os.path.join(directory, name[: 255 - len(suffix)] + suffix)
    logger.warning("%s belongs to no topic in the catalogue and is put aside as %s", path, stray)
    disk.rename(path, stray)
