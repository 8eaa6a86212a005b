"""The stateful steps of a pipeline: their changelogs, and how large these are as far as the cluster tells."""

from collections.abc import Mapping
from dataclasses import dataclass

from fencepost.client.admin import sizes_bytes
from fencepost.client.cluster import Cluster
from fencepost.client.offsets import earliest, latest
from fencepost.client.rights import Operation, wanted
from fencepost.client.scanning import read_records
from fencepost.errors import ClientError
from fencepost.spark.ledger import ChangelogEntry
from fencepost.spark.naming import changelog_name
from fencepost.spark.topic_identity import identity_of, is_other
from fencepost.wire.terms import TopicPartition

#: A changelog with more offsets is not read to count its keys, unless told to.
OFFSETS_MAX = 200_000


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    topic: str
    partitions: int
    bytes: int | None = None  #: on the leaders' disks; None if the cluster does not tell
    offsets: int | None = None  #: an upper bound of its records: compaction leaves gaps
    keys: int | None = None  #: that have a value; None if they were not counted
    problem: str = ""


@wanted(Operation.READ)
def measure(
    cluster: Cluster, pipeline: str, changelogs: Mapping[str, ChangelogEntry], offsets_max: int | None = OFFSETS_MAX
) -> list[Step]:
    """Keys are counted in changelogs of at most `offsets_max` offsets; None for no limit."""
    return [_measure(cluster, pipeline, name, changelogs[name], offsets_max) for name in sorted(changelogs)]


def _measure(cluster: Cluster, pipeline: str, name: str, entry: ChangelogEntry, offsets_max: int | None) -> Step:
    topic = changelog_name(pipeline, name)
    found = cluster.refresh([topic], missing_ok=True).get(topic)
    if found is None:
        return Step(name, topic, entry.partitions, problem="the topic is gone, and with it the state")
    if is_other(entry.topic, identity_of(found)):
        return Step(name, topic, entry.partitions, problem="the topic was deleted and created again: the state is gone")
    places = [TopicPartition(topic, index) for index in found.partitions]
    begins, ends = earliest(cluster, places), latest(cluster, places)
    offsets = sum(ends[where] - begins[where] for where in places)
    keys = None
    if offsets_max is None or offsets <= offsets_max:
        keys = sum(len(live_keys(cluster, where, begins[where], ends[where])) for where in places)
    try:
        sizes = sizes_bytes(cluster, places)
    except ClientError:
        sizes = {}
    total = sum(sizes.values()) if len(sizes) == len(places) else None
    return Step(name, topic, entry.partitions, total, offsets, keys)


def live_keys(cluster: Cluster, where: TopicPartition, begin: int, end: int) -> set[bytes]:
    """The keys that have a value at `end`."""
    found: set[bytes] = set()
    for record in read_records(cluster, where, begin, end):
        if record.key is not None:
            (found.discard if record.value is None else found.add)(record.key)
    return found
