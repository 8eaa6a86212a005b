"""The option `commitOffsets`: a query's progress as committed offsets of a consumer group, on any sink.

Kafka's tools then show the lag of the query. Invariant: an offset is committed only after Spark has completed the batch
that ends there. Spark tells that in several ways, and each version and trigger tells another part:

==========================  ============================================================================================
`commit(end)`               the batch is complete; but Spark calls it only when there is a next batch
`latestOffset(start)`       Spark 4.2 and later: a next batch would begin at `start`, so the last one is complete. Also
                            called when nothing is new, and before a query with `availableNow` ends
`latestOffset()`            Spark 4.0 and 4.1: the batch that ends at the last answer is complete. Not called again
                            before a query with `availableNow` ends, so the next start commits its end
`partitions(start, end)`    the batch that ends at `start` is complete, also after a restart
==========================  ============================================================================================

The offset where a query began is nobody's end. A commit that fails because the cluster is away is not worth a failed
query: the next one makes up for it.
"""

import logging
from dataclasses import replace

from fencepost.client.cluster import Cluster
from fencepost.client.groups import commit_offsets
from fencepost.client.rights import Operation, wanted
from fencepost.client.settings import ClientSettings
from fencepost.errors import BootstrapFailed, ConnectionLost, GaveUp, TopicNotFound
from fencepost.spark.offsets_json import Positions, SourceOffset

logger = logging.getLogger(__name__)

#: The query waits for no longer than this.
PATIENCE_MS = 5_000


class OffsetCommitter:
    """Lives in the process that Spark keeps for planning a stream. Has a cluster of its own, which is less patient."""

    def __init__(self, client: ClientSettings, group: str) -> None:
        short = min(client.api_timeout_ms, PATIENCE_MS)
        self._cluster = Cluster(replace(client, api_timeout_ms=short, request_timeout_ms=short))
        self._group = group
        self._committed: Positions = {}

    @wanted(Operation.READ)
    def completed(self, end: SourceOffset) -> None:
        """Spark has completed the batch that ends here."""
        new = {where: offset for where, offset in end.offsets.items() if self._committed.get(where) != offset}
        if end.is_initial or not new:
            return
        try:
            commit_offsets(self._cluster, self._group, new)
        except (BootstrapFailed, ConnectionLost, GaveUp, TopicNotFound) as error:
            logger.warning("group %s: the offsets will be committed with the next batch: %s", self._group, error)
        else:
            self._committed |= new

    def close(self) -> None:
        self._cluster.close()
