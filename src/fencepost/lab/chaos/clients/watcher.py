"""Reads the committed offsets of all groups, over and over."""

import time

from fencepost.client import Cluster
from fencepost.client.groups import committed_offsets
from fencepost.errors import ClientError
from fencepost.lab.chaos.clients.base import Client
from fencepost.lab.chaos.history import Function, Recorder, Status
from fencepost.lab.chaos.plan import ClientSpec
from fencepost.wire.terms import TopicPartition

PAUSE_S = 0.2


def cluster_settings(spec: ClientSpec) -> dict[str, object]:
    """For our own client on a bad network."""
    return {
        **spec.kafka,
        "client.id": spec.name,
        "request.timeout.ms": 2500,
        "default.api.timeout.ms": 10_000,
        "socket.connection.setup.timeout.ms": 1500,
        "retry.backoff.max.ms": 300,
    }


class Watcher(Client):
    def run(self) -> None:
        with Cluster(cluster_settings(self.spec)) as cluster:
            while not self.stopping:
                try:
                    observe(cluster, self.spec, self.history)
                except ClientError:
                    pass  # reading changes nothing, so a failure needs no line
                self.rest(PAUSE_S)


def observe(cluster: Cluster, spec: ClientSpec, history: Recorder) -> None:
    partitions = [TopicPartition(spec.source, index) for index in range(spec.topics[spec.source])]
    for group in spec.groups:
        began_ns = time.monotonic_ns()
        found = committed_offsets(cluster, group, partitions)
        offsets = [[*where, entry.offset] for where, entry in found.items()]
        history.log(Function.COMMITTED, Status.OK, group=group, began=began_ns, offsets=offsets)
