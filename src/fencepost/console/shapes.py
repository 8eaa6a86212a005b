"""What the page gets: observations as JSON. Pure. The page's types (`static/lib/types.js`) say the same from its side.

Times are milliseconds since 1970, offsets are numbers, and bytes are text if they are text, otherwise base64.
"""

import base64
from collections.abc import Iterable, Mapping
from typing import Any

from fencepost.console.history import Figures, Story
from fencepost.console.logs import LogBatch, Outcome, Window
from fencepost.console.whole import Part
from fencepost.observe import words
from fencepost.observe.aborting import Outcome as AbortOutcome
from fencepost.observe.aborting import Plan
from fencepost.observe.groups import Counted, GroupLag, GroupView
from fencepost.observe.holding import Hold
from fencepost.observe.producers import ProducerView
from fencepost.observe.stable import Bounds
from fencepost.observe.transactions import TransactionView
from fencepost.observe.why import Explanation, Reader
from fencepost.wire.records import Record
from fencepost.wire.terms import TopicPartition

Json = dict[str, Any]
#: Longer keys, values and headers are cut for the page; a download has all of them.
SHOWN_BYTES = 32 << 10


def place(where: TopicPartition) -> Json:
    return {"topic": where.topic, "partition": where.partition}


def text_of(data: bytes | None) -> Json | None:
    """Null stays null. Text that a page can show is text, anything else base64."""
    if data is None:
        return None
    shown = data[:SHOWN_BYTES]
    about: Json = {"size": len(data), "cut": True} if len(shown) < len(data) else {"size": len(data)}
    text: str | None
    try:
        text = shown.decode()
    except UnicodeDecodeError as error:
        is_cut_character = len(shown) < len(data) and error.start > len(shown) - 4
        text = shown[: error.start].decode() if is_cut_character else None
    if text is not None and not any(ord(each) < 32 and each not in "\t\r\n" for each in text):
        return {"text": text, **about}
    return {"base64": base64.b64encode(shown).decode(), **about}


def transaction(found: TransactionView) -> Json:
    return {
        "id": found.transactional_id,
        "producer": found.producer_id,
        "epoch": found.epoch,
        "state": found.state,
        "open": found.is_open,
        "start_ms": found.start_ms,
        "timeout_ms": found.timeout_ms,
        "deadline_ms": found.deadline_ms,
        "partitions": len(found.partitions),
        "topics": sorted({where.topic for where in found.partitions})[:5],
        "coordinator": found.coordinator,
        "pipeline": found.pipeline,
    }


def transaction_in_full(found: TransactionView) -> Json:
    return {**transaction(found), "where": [place(where) for where in found.partitions]}


def story(found: Story) -> Json:
    return {
        "key": found.key,
        "id": found.transactional_id,
        "producer": found.producer_id,
        "epoch": found.epoch,
        "timeout_ms": found.timeout_ms,
        "start_ms": found.start_ms,
        "decided_ms": found.decided_ms,
        "ended_ms": found.ended_ms,
        "duration_ms": found.duration_ms,
        "ending": found.ending,
        "partitions": len(found.partitions),
        "pipeline": found.pipeline,
    }


def story_in_full(found: Story) -> Json:
    steps = [{"time_ms": each.time_ms, "state": each.state, "partitions": each.partitions} for each in found.steps]
    return {**story(found), "steps": steps, "where": [place(where) for where in sorted(found.partitions)]}


def figures(found: Figures) -> Json:
    return {
        "commits_per_s": round(found.commits_per_s, 2),
        "aborts_per_s": round(found.aborts_per_s, 2),
        "percentiles_ms": dict(found.percentiles_ms),
        "counted": found.counted,
    }


def producer(found: ProducerView) -> Json:
    return {
        **place(found.where),
        "producer": found.producer_id,
        "epoch": found.epoch,
        "last_ms": found.last_ms,
        "open_since": found.txn_start_offset,
    }


def bounds(found: Bounds) -> Json:
    return {**place(found.where), "log_start": found.log_start, "stable": found.stable, "end": found.end}


def batch(found: LogBatch) -> Json:
    header = found.header
    shown: Json = {
        "first": header.base_offset,
        "last": header.last_offset,
        "count": header.record_count,
        "bytes": header.size,
        "time_ms": header.max_timestamp,
        "outcome": found.outcome,
    }
    if header.producer_id >= 0:
        shown |= {"producer": header.producer_id, "epoch": header.producer_epoch}
    if found.ends_at is not None:
        shown["ends_at"] = found.ends_at
    return shown


def batch_in_full(found: LogBatch) -> Json:
    header = found.header
    return {
        **batch(found),
        "first_ms": header.base_timestamp,
        "compression": header.compression.name.lower(),
        "leader_epoch": header.leader_epoch,
        "sequence": header.base_sequence,
        "transactional": header.is_transactional,
        "append_time": header.uses_append_time,
        "crc": f"{header.crc:08x}",
        "records": [record(each, found) for each in found.records],
    }


def window(found: Window) -> Json:
    return {
        "bounds": bounds(found.bounds),
        "batches": [batch(each) for each in found.batches],
        "next": found.next_offset,
        "last": found.is_last,
    }


def record(found: Record, of: LogBatch) -> Json:
    shown: Json = {
        "offset": found.offset,
        "time_ms": found.timestamp,
        "key": text_of(found.key),
        "value": text_of(found.value),
        "headers": [[name, text_of(value)] for name, value in found.headers],
        "outcome": of.outcome,
    }
    if of.outcome is not Outcome.PLAIN:
        shown |= {"producer": of.header.producer_id, "epoch": of.header.producer_epoch, "ends_at": of.ends_at}
    return shown


def group(found: GroupView, lags: Iterable[GroupLag], now_ms: int) -> Json:
    known = list(lags)
    counts = [each.records for each in known]
    oldest = min((each.oldest_ms for each in known if each.oldest_ms is not None), default=None)
    return {
        "id": found.group_id,
        "state": found.state,
        "members": None if found.members is None else len(found.members),
        "protocol": found.protocol_type,
        "topics": sorted({each.where.topic for each in known})[:5],
        "partitions": len(known),
        "lag": None if None in counts else sum(each or 0 for each in counts),
        "exact": all(each.counted is Counted.EXACT for each in known),
        "held": sum(each.held for each in known),
        "oldest_s": None if oldest is None else max(0, (now_ms - oldest) // 1000),
    }


def group_lag(found: GroupLag, known: Bounds | None) -> Json:
    return {
        **place(found.where),
        "committed": found.committed,
        "place": found.place,
        "records": found.records,
        "counted": found.counted,
        "oldest_ms": found.oldest_ms,
        "held": found.held,
        "problem": found.problem,
        "stable": None if known is None else known.stable,
        "end": None if known is None else known.end,
    }


def members(found: GroupView) -> list[Json] | None:
    if found.members is None:
        return None
    return [{"id": each.member_id, "client": each.client_id, "host": each.host} for each in found.members]


def hold(found: Hold, now_ms: int) -> Json:
    return {
        "what": words.what(found),
        "ends": words.ends(found, now_ms),
        "client": words.client(found),
        "cause": found.cause,
        "producer": found.producer_id,
        "epoch": found.epoch,
        "transaction": None if found.transaction is None else transaction(found.transaction),
        "since_ms": found.since_ms,
        "ends_ms": found.ends_ms,
        "waiting": found.waiting,
        "exact": found.is_exact,
        "partitions": [
            {
                **bounds(each.bounds),
                "start": None if each.producer is None else each.producer.txn_start_offset,
                "waiting": None if each.backlog is None else each.backlog.waiting,
                "aborted": None if each.backlog is None else each.backlog.aborted,
                "undecided": None if each.backlog is None else each.backlog.undecided,
            }
            for each in found.partitions
        ],
        "owners": [{"group": each.group_id, "members": members(each)} for each in found.owners],
    }


def reader(found: Reader) -> Json:
    return {
        "group": found.group.group_id,
        "state": found.group.state,
        "waiting": found.is_waiting,
        "place": words.reader_place(found),
        "misses": found.misses,
        "exact": found.is_exact,
        "lag": found.lag,
        "lag_exact": found.is_lag_exact,
        "members": members(found.group),
        "lags": [group_lag(each, None) for each in found.lags],
    }


def explanation(found: Explanation) -> Json:
    return {
        "topic": found.topic,
        "partition": found.partition,
        "now_ms": found.now_ms,
        "verdict": found.verdict,
        "headline": words.headline(found),
        "holds": [hold(each, found.now_ms) for each in found.holds],
        "stopped": [{**place(each.where), "trouble": each.trouble, "text": each.text} for each in found.stopped],
        "readers": [reader(each) for each in found.readers],
        "partitions": found.partitions,
        "similar": list(found.similar),
        "missing": [str(each) for each in found.missing],
    }


def plan(found: Plan) -> Json:
    return {
        "way": found.way,
        "cause": found.cause,
        "producer": found.producer_id,
        "epoch": found.epoch,
        "id": None if found.transaction is None else found.transaction.transactional_id,
        "refusal": found.refusal(even_if_live=True),
        "live": found.refusal(even_if_live=False) is not None,
        "has_offsets": found.has_offsets,
        "undone": [
            {
                **place(each.where),
                "first": each.first_offset,
                "last": each.last_offset,
                "records": each.records,
                "exact": each.is_exact,
            }
            for each in found.undone
        ],
    }


def abort_outcome(found: AbortOutcome) -> Json:
    return {
        "proven": found.is_proven,
        "freed": [
            {
                **place(each.where),
                "before": each.before.stable,
                "after": None if each.after is None else each.after.stable,
                "moved": each.has_moved,
            }
            for each in found.freed
        ],
        "still_open": [place(each) for each in found.still_open],
    }


def part(found: Part) -> Json:
    return {
        **place(found.where),
        "first": found.first_offset,
        "last": found.last_offset,
        "records": found.records,
        "bytes": found.bytes,
        "outcome": found.outcome,
        "ends_at": found.ends_at,
        "commits": [{"group": each.group_id, **place(each.where), "offset": each.offset} for each in found.commits],
        "problem": found.problem,
    }


def topic(name: str, is_internal: bool, known: Mapping[TopicPartition, Bounds], **more: Any) -> Json:
    places = list(known.values())
    return {
        "name": name,
        "internal": is_internal,
        "offsets": sum(each.end - each.log_start for each in places),
        "end": sum(each.end for each in places),
        "held": sum(each.is_held for each in places),
        "held_offsets": sum(each.end - each.stable for each in places),
        **more,
    }
