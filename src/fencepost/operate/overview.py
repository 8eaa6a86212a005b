"""All that is shown of a pipeline, put together: for `ls` what is quick to read, for `describe` everything."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fencepost.client.cluster import Cluster
from fencepost.client.groups import Pending, committed_offsets
from fencepost.errors import ClientError, FencepostError
from fencepost.operate import lag as lags
from fencepost.operate import next_start as starts
from fencepost.operate import steps as sizes
from fencepost.operate.lag import Lag
from fencepost.operate.next_start import NextStart
from fencepost.operate.standing import Standing, names, read, read_owner, standing_of
from fencepost.operate.steps import Step
from fencepost.spark import ledger
from fencepost.spark.ledger import LedgerEntry

#: What may be fetched to count the lag of one pipeline in a list.
LIST_BYTES_MAX = 4 << 20


@dataclass(frozen=True, slots=True)
class Overview:
    name: str
    standing: Standing | None = None
    lag: Lag | None = None
    problem: str = ""  #: why something is missing


@dataclass(frozen=True, slots=True)
class Description:
    standing: Standing
    lag: Lag
    steps: Sequence[Step]
    next_start: NextStart | None = None
    history: Sequence[LedgerEntry] | None = None  #: newest first


def all_of(cluster: Cluster) -> list[Overview]:
    """Every pipeline of the cluster. One that cannot be read does not hide the others."""
    entries = ledger.read_entries(cluster)
    return [_overview(cluster, name, entries.get(name)) for name in sorted(names(cluster, entries))]


def _overview(cluster: Cluster, name: str, entry: LedgerEntry | FencepostError | None) -> Overview:
    if isinstance(entry, FencepostError):
        return Overview(name, problem=str(entry))
    standing = None
    try:
        group = committed_offsets(cluster, name, None, Pending.IGNORE)
        standing = standing_of(cluster, name, read_owner(cluster, name), entry, group)
        return Overview(name, standing, lags.measure(cluster, standing, LIST_BYTES_MAX))
    except ClientError as error:
        return Overview(name, standing, problem=str(error))


def of(
    cluster: Cluster, name: str, *, checkpoint: Path | None = None, exact: bool = False, history: bool = False
) -> Description:
    standing = read(cluster, name)
    changelogs = {} if standing.entry is None else standing.entry.changelogs
    return Description(
        standing,
        lags.measure(cluster, standing, None if exact else lags.BYTES_MAX),
        sizes.measure(cluster, name, changelogs, None if exact else sizes.OFFSETS_MAX),
        None if checkpoint is None else starts.foresee(standing, checkpoint),
        [noted.entry for noted in reversed(ledger.read_history(cluster, name))] if history else None,
    )
