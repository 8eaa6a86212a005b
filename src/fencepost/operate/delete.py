"""Removing what is left of a pipeline: its changelogs, its group, its ledger entry. In this order.

The ledger entry goes last, because it names the changelogs: if the command dies in between, it can be given again.
Until then a start of the pipeline is refused, because its state is gone. The transactional id cannot be deleted; the
cluster forgets it after a while (`transactional.id.expiration.ms`, a week by default).
"""

from dataclasses import dataclass

from fencepost.client.admin import delete_topics
from fencepost.client.cluster import Cluster
from fencepost.client.groups import delete_group
from fencepost.client.writing import TransactionWriter
from fencepost.operate.reset import commit, refuse_alive, take_over
from fencepost.operate.standing import Standing, read
from fencepost.spark import ledger
from fencepost.spark.naming import changelog_name


@dataclass(frozen=True, slots=True)
class Remains:
    """What there is to delete."""

    standing: Standing
    changelogs: tuple[str, ...]  #: topics
    has_group: bool
    has_entry: bool


def find(cluster: Cluster, name: str) -> Remains:
    standing = read(cluster, name)
    entry = standing.entry
    topics = [] if entry is None else [changelog_name(name, step) for step in sorted(entry.changelogs)]
    there = cluster.refresh(topics, missing_ok=True) if topics else {}
    return Remains(standing, tuple(sorted(there)), bool(standing.group), entry is not None)


def delete(cluster: Cluster, name: str, *, even_if_alive: bool) -> Remains:
    """Returns what was deleted. Raises ChangeRefused, and then nothing was."""
    refuse_alive(find(cluster, name).standing, even_if_alive=even_if_alive)
    transaction = take_over(cluster, name)
    found = find(cluster, name)  # again: now nobody adds to it
    delete_topics(cluster, found.changelogs)
    delete_group(cluster, name)
    ledger.ensure(cluster)
    identity = transaction.begin()
    with TransactionWriter(cluster, identity) as writer:
        writer.write(ledger.place(name), ledger.blob(name, None))
    commit(cluster, transaction, name, None)
    return found
