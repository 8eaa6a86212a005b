"""The running query as its checkpoint has it, for a sink that runs in another process than the query.

Spark writes a batch's offsets into the checkpoint before it runs the batch. So whoever can read the checkpoint knows
them, also when the batch is repeated. Invariant: a checkpoint counts only if it has the id of the query that runs.
"""

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass

from fencepost.errors import InvariantBroken
from fencepost.spark.checkpoint import ArrowFiles, Checkpoint, LocalFiles, local_path
from fencepost.spark.sink import microbatch
from fencepost.spark.sink.inherited import SourceSaid
from fencepost.spark.sink.microbatch import MicroBatch

logger = logging.getLogger(__name__)

#: In place of the names of sources that nobody can tell.
UNKNOWN_SOURCES = "the query's sources"
#: Hadoop's names for what Arrow calls `s3`.
_S3 = re.compile(r"s3[an]:")


@dataclass(slots=True)
class LoggedQuery:
    query_id: str
    run_id: str
    known: Checkpoint | None  #: None if it cannot be read, or is another query's

    @property
    def checkpoint(self) -> Checkpoint:
        if self.known is None:
            raise InvariantBroken("the checkpoint cannot be read")
        return self.known

    def is_active(self) -> bool:
        return True

    def keeps_state(self) -> bool:
        """Spark's operators have written their state before the sink commits."""
        return self.known is not None and self.known.has_state

    def runs_python(self) -> None:
        """That is not in a checkpoint."""

    def sources(self) -> Sequence[SourceSaid]:
        return ()  # their options are not in a checkpoint

    def batches_told(self) -> list[int]:
        return []


def find_query(query_id: str, run_id: str, root: str | None) -> LoggedQuery:
    """`root` is where its checkpoint should be, as Spark writes it."""
    checkpoint = None if root is None else open_checkpoint(root)
    if checkpoint is not None and checkpoint.query_id != query_id:
        logger.warning("the offsets of the query are not committed: %s is not its checkpoint, as seen from here", root)
        checkpoint = None
    return LoggedQuery(query_id, run_id, checkpoint)


def read_batch(query: LoggedQuery, batch_id: int) -> MicroBatch:
    """The batch with its offsets, or without them if nobody can tell."""
    if query.known is not None:
        return microbatch.read(query, batch_id)
    unknown = (UNKNOWN_SOURCES,)
    return MicroBatch(query.query_id, query.run_id, batch_id, {}, {}, others=unknown, has_offsets=False)


def open_checkpoint(root: str) -> Checkpoint | None:
    """None if this process has no access to its file system."""
    path = local_path(root)
    if path is not None:
        return Checkpoint(LocalFiles(path))
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyarrow.fs import FileSystem  # type: ignore[import-untyped]

    try:
        system, inside = FileSystem.from_uri(_S3.sub("s3:", root))
    except (pa.ArrowException, OSError, ValueError, ImportError) as error:
        logger.warning("the offsets of the query are not committed: cannot open its checkpoint %s: %s", root, error)
        return None
    return Checkpoint(ArrowFiles(system, inside.rstrip("/")))
