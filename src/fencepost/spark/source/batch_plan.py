"""What a batch query reads. Both ends are resolved once, when the query is planned."""

from fencepost.client.cluster import Cluster
from fencepost.spark.source.positions import (
    begin_of,
    ending_positions,
    high_watermarks,
    require_all,
    starting_positions,
    subscribed_partitions,
    warn_of_loss,
)
from fencepost.spark.source.read_options import SourceOptions
from fencepost.spark.source.splitting import OffsetRange


def batch_ranges(cluster: Cluster, options: SourceOptions) -> list[OffsetRange]:
    partitions = subscribed_partitions(cluster, options)
    require_all(options, partitions)
    if not partitions:
        return []
    start = starting_positions(cluster, options, partitions).positions
    end = ending_positions(cluster, options, partitions)
    first, high = begin_of(cluster, partitions), high_watermarks(cluster, partitions)
    ranges = []
    for where in partitions:
        if start[where] >= end[where]:
            continue
        begin, until = max(start[where], first[where]), min(end[where], high[where])
        if (begin, until) != (start[where], end[where]):
            what = (
                f"{where} should be read from offset {start[where]} to {end[where]}, but holds offsets {first[where]} "
                f"to {high[where]}"
            )
            warn_of_loss(options, what)
        if begin < until:
            ranges.append(OffsetRange(where, begin, until, cluster.topic(where.topic).id))
    return ranges
