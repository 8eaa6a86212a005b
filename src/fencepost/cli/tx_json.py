"""What `fencepost tx --json` prints: dictionaries whose names stay, times in milliseconds since 1970. Pure."""

from typing import Any

from fencepost.observe import words
from fencepost.observe.aborting import Outcome, Plan
from fencepost.observe.groups import GroupLag
from fencepost.observe.hanging import Hanging
from fencepost.observe.holding import Held, Hold
from fencepost.observe.producers import ProducerView
from fencepost.observe.stable import Bounds
from fencepost.observe.transactions import TransactionView
from fencepost.observe.watching import Change
from fencepost.observe.why import Explanation, Reader
from fencepost.wire.terms import TopicPartition


def where(each: TopicPartition) -> dict[str, Any]:
    return {"topic": each.topic, "partition": each.partition}


def transaction(each: TransactionView) -> dict[str, Any]:
    return {
        "id": each.transactional_id,
        "state": each.state,
        "producer_id": each.producer_id,
        "epoch": each.epoch,
        "start_ms": each.start_ms,
        "timeout_ms": each.timeout_ms,
        "deadline_ms": each.deadline_ms,
        "partitions": [where(partition) for partition in each.partitions],
        "coordinator": each.coordinator,
        "pipeline": each.pipeline,
        "client": each.client,
    }


def producer(each: ProducerView) -> dict[str, Any]:
    return {
        **where(each.where),
        "producer_id": each.producer_id,
        "epoch": each.epoch,
        "last_sequence": each.last_sequence,
        "last_ms": each.last_ms,
        "coordinator_epoch": each.coordinator_epoch,
        "txn_start_offset": each.txn_start_offset,
    }


def hanging(each: Hanging) -> dict[str, Any]:
    return {
        **producer(each.producer),
        "age_ms": each.age_ms,
        "transaction": None if each.transaction is None else transaction(each.transaction),
    }


def bounds(each: Bounds) -> dict[str, Any]:
    return {**where(each.where), "log_start": each.log_start, "stable": each.stable, "end": each.end}


def explanation(found: Explanation) -> dict[str, Any]:
    return {
        "verdict": found.verdict.name.lower(),
        "text": words.headline(found),
        "topic": found.topic,
        "partition": found.partition,
        "partitions": found.partitions,
        "holds": [_hold(each, found.now_ms) for each in found.holds],
        "stopped": [
            {**where(each.where), "trouble": each.trouble.name.lower(), "text": each.text} for each in found.stopped
        ],
        "groups": [_reader(each) for each in found.readers],
        "missing": [str(each) for each in found.missing],
    }


def _hold(hold: Hold, now_ms: int) -> dict[str, Any]:
    return {
        "cause": hold.cause.value,
        "text": words.what(hold),
        "producer_id": hold.producer_id,
        "epoch": hold.epoch,
        "transaction": None if hold.transaction is None else transaction(hold.transaction),
        "since_ms": hold.since_ms,
        "ends_ms": hold.ends_ms,
        "ends": words.ends(hold, now_ms),
        "waiting": hold.waiting,
        "exact": hold.is_exact,
        "owners": [
            {
                "group": each.group_id,
                "members": [{"client_id": member.client_id, "host": member.host} for member in each.members or ()],
            }
            for each in hold.owners
        ],
        "partitions": [_held(each) for each in hold.partitions],
    }


def _held(each: Held) -> dict[str, Any]:
    backlog = each.backlog
    return {
        **bounds(each.bounds),
        "waiting": None if backlog is None else backlog.waiting_max,
        "undecided": None if backlog is None else backlog.undecided,
        "aborted": None if backlog is None else backlog.aborted,
        "exact": backlog is not None and backlog.is_exact,
    }


def _reader(each: Reader) -> dict[str, Any]:
    return {
        "group": each.group.group_id,
        "state": each.group.state,
        "members": None if each.group.members is None else len(each.group.members),
        "waits": each.is_waiting,
        "lag": each.lag,
        "lag_exact": each.is_lag_exact,
        "misses": each.misses,
        "misses_exact": each.is_exact,
        "text": words.reader_place(each),
        "partitions": [_lag(lag) for lag in each.lags],
    }


def _lag(lag: GroupLag) -> dict[str, Any]:
    return {
        **where(lag.where),
        "committed": lag.committed,
        "place": lag.place.name.lower(),
        "records": lag.records,
        "counted": lag.counted.value,
        "oldest_ms": lag.oldest_ms,
        "held": lag.held,
    }


def plan(found: Plan, *, is_done: bool) -> dict[str, Any]:
    return {
        "done": is_done,
        "cause": found.cause.value,
        "way": found.way.value,
        "producer_id": found.producer_id,
        "epoch": found.epoch,
        "transaction": None if found.transaction is None else transaction(found.transaction),
        "undone": [
            {
                **where(each.where),
                "first_offset": each.first_offset,
                "last_offset": each.last_offset,
                "records": each.records,
                "exact": each.is_exact,
            }
            for each in found.undone
        ],
        "offsets": found.has_offsets,
    }


def outcome(found: Outcome) -> dict[str, Any]:
    return {
        **plan(found.plan, is_done=True),
        "proven": found.is_proven,
        "stable": [
            {
                **where(each.where),
                "before": each.before.stable,
                "after": None if each.after is None else each.after.stable,
                "end": None if each.after is None else each.after.end,
            }
            for each in found.freed
        ],
        "still_open": [where(each) for each in found.still_open],
    }


def change(each: Change) -> dict[str, Any]:
    return {
        "time_ms": each.time_ms,
        "event": each.event.value,
        "duration_ms": each.duration_ms,
        **transaction(each.transaction),
    }
