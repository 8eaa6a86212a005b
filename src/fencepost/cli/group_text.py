"""What `fencepost group` prints: tables for people, dictionaries for `--json`. Pure."""

from collections.abc import Sequence
from typing import Any

from fencepost.cli.tables import moment, table
from fencepost.manage.groups import GroupFacts, Move
from fencepost.observe.groups import Counted, GroupLag, GroupView
from fencepost.wording import at_most

_SHOWN_TOPICS = 3


def listed(found: Sequence[GroupView]) -> list[str]:
    if not found:
        return ["there is no consumer group, or none that you may see"]
    rows = [
        (each.group_id, each.state, None if each.members is None else len(each.members), _topics(each))
        for each in found
    ]
    return table(("GROUP", "STATE", "MEMBERS", "TOPICS"), rows)


def listed_as_dict(group: GroupView) -> dict[str, Any]:
    return {
        "group": group.group_id,
        "state": group.state,
        "members": None if group.members is None else len(group.members),
        "coordinator": group.coordinator,
        "topics": sorted({where.topic for where in group.offsets}),
    }


def described(found: GroupFacts) -> list[str]:
    group = found.group
    total = "unknown" if found.records is None else at_most(found.records, "record", is_exact=found.is_exact)
    lines = [f"group    {group.group_id}", f"state    {group.state}", f"lag      {total}"]
    if group.members is None:
        lines.append("members  not told: it is not a group of consumers")
    for number, member in enumerate(group.members or ()):
        static = f", static as {member.instance_id}" if member.instance_id else ""
        lines.append(f"{'members' if number == 0 else '':<9}{member.client_id} on {member.host}{static}")
    rows = [
        (
            each.where.topic,
            each.where.partition,
            each.committed,
            records(each.records, is_exact=each.counted is not Counted.BOUND),
            each.held,
            moment(each.oldest_ms),
            each.problem or each.place,
        )
        for each in found.lags
    ]
    if rows:
        lines += table(("TOPIC", "PARTITION", "OFFSET", "LAG", "HELD", "OLDEST UNREAD", "READER IS"), rows)
    else:
        lines.append("it has committed no offsets")
    return [*lines, *(f"not read: {each}" for each in found.missing)]


def described_as_dict(found: GroupFacts) -> dict[str, Any]:
    group = found.group
    members = None
    if group.members is not None:
        members = [
            {"id": m.member_id, "client": m.client_id, "host": m.host, "instance": m.instance_id} for m in group.members
        ]
    return {
        "group": group.group_id,
        "state": group.state,
        "members": members,
        "lag": {"records": found.records, "exact": found.is_exact},
        "partitions": [_lag_as_dict(each) for each in found.lags],
        "missing": list(found.missing),
    }


def _lag_as_dict(lag: GroupLag) -> dict[str, Any]:
    return {
        "topic": lag.where.topic,
        "partition": lag.where.partition,
        "offset": lag.committed,
        "records": lag.records,
        "counted": str(lag.counted),
        "held": lag.held,
        "oldest_ms": lag.oldest_ms,
        "reader_is": str(lag.place),
        "problem": lag.problem or None,
    }


def moves(found: Sequence[Move]) -> list[str]:
    rows = [(each.where.topic, each.where.partition, each.before, each.after) for each in found]
    return table(("TOPIC", "PARTITION", "BEFORE", "AFTER"), rows)


def move_as_dict(group: str, move: Move, *, is_done: bool) -> dict[str, Any]:
    return {
        "group": group,
        "topic": move.where.topic,
        "partition": move.where.partition,
        "before": move.before,
        "after": move.after,
        "done": is_done,
    }


def records(count: int | None, *, is_exact: bool) -> str | None:
    return None if count is None else str(count) if is_exact else f"<= {count}"


def _topics(group: GroupView) -> str:
    names = sorted({where.topic for where in group.offsets})
    more = f" and {len(names) - _SHOWN_TOPICS} more" if len(names) > _SHOWN_TOPICS else ""
    return ", ".join(names[:_SHOWN_TOPICS]) + more
