"""Consumer groups: described with their true lag, moved, and deleted.

Invariant: offsets are changed only while the group has no members. Members have positions of their own, so they would
commit over what was set, or never look at it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fencepost.client.cluster import Cluster
from fencepost.client.groups import commit_offsets, delete_group
from fencepost.client.offsets import partitions_of
from fencepost.errors import ConfigError, ErrorCode, GroupInUse, OffsetsOutOfRange, Refused, UnknownGroup
from fencepost.lines.reading import View, bounds
from fencepost.lines.targets import Target, ToOffset, resolve
from fencepost.observe.counting import BYTES_MAX
from fencepost.observe.groups import Counted, GroupLag, GroupView, lags_of, survey_groups
from fencepost.observe.stable import bounds_of
from fencepost.wire.terms import TopicPartition


@dataclass(frozen=True, slots=True)
class GroupFacts:
    group: GroupView
    lags: Sequence[GroupLag]
    missing: Sequence[str] = ()  #: what could not be read, and why

    @property
    def records(self) -> int | None:
        """None if it is unknown in one partition."""
        counts = [each.records for each in self.lags]
        return None if None in counts or self.missing else sum(count for count in counts if count is not None)

    @property
    def is_exact(self) -> bool:
        return all(each.counted is Counted.EXACT for each in self.lags)


@dataclass(frozen=True, slots=True)
class Move:
    where: TopicPartition
    before: int | None  #: None if the group had no offset here
    after: int


def describe(cluster: Cluster, name: str, bytes_max: int | None = BYTES_MAX) -> GroupFacts:
    """`bytes_max` is what may be fetched to count records; None for no limit. Raises UnknownGroup."""
    survey = survey_groups(cluster, names=[name])
    missing = [f"{each}" for each in survey.missing]
    if not survey.groups:
        raise UnknownGroup(_unknown(name, missing))
    group = survey.groups[0]
    known = bounds_of(cluster, group.offsets)
    missing += [f"{where}: {failure}" for where, failure in known.failed.items()]
    return GroupFacts(group, lags_of(cluster, [group], known.found, bytes_max)[name], missing)


def plan_move(
    cluster: Cluster, name: str, target: Target, topics: Mapping[str, int | None], view: View = View.COMMITTED
) -> list[Move]:
    """What `move` would do. `topics` may name a partition of each; without any, all that the group has read.

    Raises UnknownGroup, GroupInUse, and OffsetsOutOfRange.
    """
    survey = survey_groups(cluster, names=[name])
    if survey.groups:
        _refuse_members(survey.groups[0])
    elif not topics:  # else a new group is fine
        raise UnknownGroup(_unknown(name, []) + "; or name a topic, to set the offsets of a new group")
    before = survey.groups[0].offsets if survey.groups else {}
    chosen = topics or dict.fromkeys(where.topic for where in before)
    partitions = [w for w in partitions_of(cluster, chosen) if chosen[w.topic] in (None, w.partition)]
    if not partitions:
        raise OffsetsOutOfRange(f"there is no such partition: {', '.join(f'{t}:{p}' for t, p in chosen.items())}")
    after = resolve(cluster, target, partitions, view)
    if isinstance(target, ToOffset):
        for where, known in bounds(cluster, partitions, view).items():
            if not known.begin <= after[where] <= known.end:
                raise OffsetsOutOfRange(
                    f"{where} has offsets {known.begin} to {known.end}, so it cannot be set to {after[where]}. "
                    "Nothing was changed"
                )
    return [Move(where, before.get(where), after[where]) for where in partitions]


def move(cluster: Cluster, name: str, moves: Sequence[Move]) -> None:
    """Raises GroupInUse if somebody has joined since."""
    try:
        commit_offsets(cluster, name, {each.where: each.after for each in moves})
    except ConfigError as error:
        raise GroupInUse(f"{error}. Nothing was changed") from None


def refuse_members(cluster: Cluster, name: str) -> None:
    """Raises GroupInUse, if the group exists and has any."""
    for group in survey_groups(cluster, names=[name]).groups:
        _refuse_members(group)


def plan_delete(cluster: Cluster, name: str) -> GroupView:
    """What `delete` would delete. Raises UnknownGroup, GroupInUse."""
    survey = survey_groups(cluster, names=[name])
    if not survey.groups:
        raise UnknownGroup(_unknown(name, [f"{each}" for each in survey.missing]))
    _refuse_members(survey.groups[0])
    return survey.groups[0]


def delete(cluster: Cluster, name: str) -> None:
    try:
        if not delete_group(cluster, name):
            raise UnknownGroup(_unknown(name, []))
    except Refused as error:
        if error.code is ErrorCode.NON_EMPTY_GROUP:
            raise GroupInUse(f"group {name!r} has got members. Nothing was changed") from None
        raise


def _refuse_members(group: GroupView) -> None:
    if group.is_active:
        who = ", ".join(f"{each.client_id} on {each.host}" for each in group.members or ())
        raise GroupInUse(
            f"group {group.group_id!r} has members ({who or group.state}): stop them first. Nothing was changed"
        )


def _unknown(name: str, missing: Sequence[str]) -> str:
    but = f" (not everything could be read: {'; '.join(missing)})" if missing else ""
    return f"there is no group {name!r}, or you may not see it{but}. See: fencepost group ls"
