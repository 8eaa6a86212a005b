"""What `fencepost pipeline` prints: tables for people, dictionaries for `--json`. Pure."""

from collections.abc import Sequence
from typing import Any

from fencepost.cli.tables import moment, table
from fencepost.observe.words import age
from fencepost.operate.delete import Remains
from fencepost.operate.lag import Lag, PartitionLag
from fencepost.operate.overview import Description, Overview
from fencepost.operate.reset import Move, Plan, StateChoice
from fencepost.operate.standing import Standing
from fencepost.operate.steps import Step
from fencepost.spark.ledger import LedgerEntry
from fencepost.spark.offsets_json import positions_as_dict

# -- ls ----------------------------------------------------------------------------------------------------------------


def overview_table(found: Sequence[Overview]) -> list[str]:
    if not found:
        return ["no pipeline has written to this cluster"]
    rows = [
        (
            each.name,
            None if each.standing is None else last_batch(each.standing.entry),
            _ago(each.standing),
            None if each.lag is None else count(each.lag.records, is_exact=each.lag.is_exact),
            None if each.lag is None else _seconds(each.lag.seconds),
            each.problem or ("" if each.standing is None else each.standing.activity.value),
        )
        for each in found
    ]
    return table(("PIPELINE", "LAST BATCH", "COMMITTED", "LAG", "LAG SECONDS", "ACTIVITY"), rows)


def overview_as_dict(found: Overview) -> dict[str, Any]:
    shown: dict[str, Any] = {"pipeline": found.name}
    if found.standing is not None:
        shown |= _standing_as_dict(found.standing)
    if found.lag is not None:
        shown |= {"lag": lag_totals(found.lag)}
    return {**shown, "problem": found.problem or None}


def last_batch(entry: LedgerEntry | None) -> str | None:
    if entry is None:
        return None
    if entry.reset is not None:
        return f"reset to {entry.reset.to}"
    return f"{entry.batch_id} (unfinished)" if entry.is_unfinished else str(entry.batch_id)


def _ago(standing: Standing | None) -> str | None:
    if standing is None or standing.entry_ms is None:
        return None
    return f"{age(standing.now_ms - standing.entry_ms)} ago"


# -- lag ---------------------------------------------------------------------------------------------------------------


def lag_table(found: Lag) -> list[str]:
    rows = [
        (
            str(each.where),
            each.committed,
            each.end,
            count(each.records, is_exact=each.is_exact),
            _seconds(found.seconds_of(each)),
            _note(each),
        )
        for each in found.partitions
    ]
    lines = table(("PARTITION", "COMMITTED", "END", "LAG", "SECONDS", ""), rows) if rows else []
    return [*lines, lag_line(found)]


def lag_line(found: Lag) -> str:
    if found.records is None:
        return "lag: unknown, see above"
    how = "counted" if found.is_exact else "an upper bound by offsets; --exact counts all"
    text = f"lag: {count(found.records, is_exact=found.is_exact)} records ({how})"
    if found.seconds is None:
        return f"{text}; the first unread record has no timestamp"
    return f"{text}, the oldest is {found.seconds:.0f} s old" if found.records else text


def lag_as_dict(found: Lag) -> dict[str, Any]:
    partitions = [
        {
            "topic": each.where.topic,
            "partition": each.where.partition,
            "committed": each.committed,
            "end": each.end,
            "undecided": each.undecided,
            "records": each.records,
            "exact": each.is_exact,
            "seconds": found.seconds_of(each),
            "problem": each.problem or None,
        }
        for each in found.partitions
    ]
    return {**lag_totals(found), "partitions": partitions}


def lag_totals(found: Lag) -> dict[str, Any]:
    return {"records": found.records, "exact": found.is_exact, "seconds": found.seconds}


def count(records: int | None, *, is_exact: bool) -> str | None:
    if records is None:
        return None
    return str(records) if is_exact else f"<= {records}"


def _note(lag: PartitionLag) -> str:
    notes = [lag.problem] if lag.problem else []
    if lag.committed is None:
        notes.append("never read, not in the total")
    if lag.undecided:
        notes.append(f"{lag.undecided} offsets behind an open transaction")
    return "; ".join(notes)


def _seconds(seconds: float | None) -> str | None:
    return None if seconds is None else f"{seconds:.0f}"


# -- describe ----------------------------------------------------------------------------------------------------------


def description(found: Description) -> list[str]:
    standing, entry = found.standing, found.standing.entry
    owner, transaction = standing.owner, standing.owner.transaction
    lines = [f"pipeline {standing.name}"]
    if entry is None:
        lines.append("  last batch: none is in the ledger")
    else:
        whose = f"batch {last_batch(entry)} of query {entry.query_id}" if entry.reset is None else last_batch(entry)
        lines.append(f"  last batch: {whose}, committed {_ago(standing)} ({moment(entry.time_ms)})")
    if entry is not None and entry.failed is not None:
        lines.append(f"  failed: batch {entry.failed[1]} of query {entry.failed[0]} was tried and is not written")
    lines.append(f"  running: {standing.activity_words}")
    if transaction is not None:
        lines.append(
            f"  transactional id: {owner.transactional_id}, {transaction.state}, producer {transaction.producer_id}, "
            f"epoch {transaction.epoch}"
        )
    if standing.set_by_hand:
        shown = ", ".join(map(str, standing.set_by_hand[:5]))
        lines.append(f"  offsets: the group's offsets of {shown} were set by another tool; a checkpoint will not fit")
    lines += ["", *(f"  {line}" for line in lag_table(found.lag))]
    if found.steps:
        lines += ["", *_steps_table(found.steps)]
    if entry is not None and entry.in_checkpoint:
        kept = ", ".join(sorted(kind.value for kind in entry.in_checkpoint))
        lines += ["", f"  only in Spark's checkpoint: {kept}"]
    if found.history is not None:
        lines += ["", *_history_table(found.history)]
    if found.next_start is not None:
        start = found.next_start
        whose = "" if start.query_id is None else f" batch {start.batch_id} of query {start.query_id}:"
        lines += ["", f"  next start with that checkpoint: {start.outcome.value}:{whose} {start.why}"]
    return lines


def description_as_dict(found: Description) -> dict[str, Any]:
    shown = {"pipeline": found.standing.name, **_standing_as_dict(found.standing), "lag": lag_as_dict(found.lag)}
    shown["state"] = [
        {
            "step": each.name,
            "topic": each.topic,
            "partitions": each.partitions,
            "keys": each.keys,
            "offsets": each.offsets,
            "bytes": each.bytes,
            "problem": each.problem or None,
        }
        for each in found.steps
    ]
    if found.history is not None:
        shown["history"] = [_entry_as_dict(entry) for entry in found.history]
    if (start := found.next_start) is not None:
        shown["next_start"] = {
            "outcome": start.outcome.value,
            "query": start.query_id,
            "batch": start.batch_id,
            "why": start.why,
        }
    return shown


def _steps_table(steps: Sequence[Step]) -> list[str]:
    rows = [
        (each.name, each.topic, each.partitions, each.keys, each.offsets, each.bytes, each.problem) for each in steps
    ]
    return table(("STATE", "CHANGELOG", "PARTITIONS", "KEYS", "OFFSETS", "BYTES", ""), rows, "  ")


def _history_table(history: Sequence[LedgerEntry]) -> list[str]:
    rows = [
        (last_batch(each), each.query_id, moment(each.time_ms), positions_as_dict(each.offsets)) for each in history
    ]
    return table(("BATCH", "QUERY", "COMMITTED", "OFFSETS"), rows, "  ")


def _standing_as_dict(standing: Standing) -> dict[str, Any]:
    transaction = standing.owner.transaction
    return {
        "last": None if standing.entry is None else _entry_as_dict(standing.entry),
        "activity": standing.activity.value,
        "transaction": {
            "id": standing.owner.transactional_id,
            "state": None if transaction is None else transaction.state,
            "producer_id": None if transaction is None else transaction.producer_id,
            "epoch": None if transaction is None else transaction.epoch,
            "open_since": None if transaction is None else moment(transaction.started_ms),
            "last_write": moment(standing.owner.last_write_ms),
            "hidden": standing.owner.hidden_because or None,
        },
        "offsets": positions_as_dict(standing.positions),
        "set_by_hand": [str(where) for where in standing.set_by_hand],
    }


def _entry_as_dict(entry: LedgerEntry) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "query": entry.query_id,
        "batch": entry.batch_id,
        "time": moment(entry.time_ms),
        "offsets": positions_as_dict(entry.offsets),
        "in_checkpoint": sorted(kind.value for kind in entry.in_checkpoint or ()),
    }
    if entry.is_unfinished:
        shown["unfinished"] = True
    if entry.failed is not None:
        shown["failed"] = {"query": entry.failed[0], "batch": entry.failed[1]}
    if entry.reset is not None:
        shown["reset"] = {"query": entry.reset.query_id, "batch": entry.reset.batch_id, "to": entry.reset.to}
    return shown


# -- reset and delete --------------------------------------------------------------------------------------------------


def reset_text(plan: Plan, *, is_done: bool) -> list[str]:
    name, entry = plan.standing.name, plan.standing.entry
    rows = [(str(move.where), move.was, move.to, _effect(move)) for move in plan.moves]
    lines = table(("PARTITION", "FROM", "TO", "EFFECT"), rows)
    if plan.state is not None:
        steps = ", ".join(sorted(entry.changelogs)) if entry is not None else ""
        lines += ["", f"state ({steps}): {_state_effect(plan)}"]
    if any(move.is_back for move in plan.moves):
        lines += ["", "What was written to output topics stays: records that are processed again are written again."]
    if entry is not None and entry.is_unfinished:
        lines += ["", f"Batch {entry.batch_id} was written only in part; the rest of it will not be written any more."]
    if not is_done:
        return [*lines, "", f"Nothing was changed. Does the pipeline run? {plan.standing.activity_words}"]
    done = f"Pipeline {name} is reset to {plan.to}. Start it with an EMPTY checkpoint directory, and at the source with"
    return [*lines, "", done, *_how(plan)]


def _how(plan: Plan) -> list[str]:
    entry = plan.standing.entry
    lines = [
        f'  .option("pipeline", "{plan.standing.name}")    # then startingOffsets=committed is the default',
        "The old checkpoint is refused from now on.",
    ]
    if entry is not None and entry.in_checkpoint:
        kept = " and ".join(sorted(kind.value for kind in entry.in_checkpoint))
        lines.append(
            f"The old checkpoint also held {kept} of Spark's own, which a reset cannot move: it begins empty. Set the "
            'sink\'s option "failOnStateLoss" to "false" for the first start.'
        )
    return lines


def _effect(move: Move) -> str:
    if move.was is None:
        return "new"
    if move.was == move.to:
        return "-"
    return f"{count(move.records, is_exact=move.is_exact)} records {'again' if move.to < move.was else 'skipped'}"


def _state_effect(plan: Plan) -> str:
    match plan.state:
        case StateChoice.DROP:
            return f"dropped, {plan.keys_changed} keys. It is built again from the new start"
        case StateChoice.RESTORE if plan.restored is not None:
            entry = plan.restored.entry
            whose = f"batch {entry.batch_id} of query {entry.query_id}" if entry.reset is None else "a reset"
            return f"restored as it was after {whose} ({moment(entry.time_ms)}), {plan.keys_changed} keys change"
    return "kept: no record is read again"


def reset_as_dict(plan: Plan, *, is_done: bool) -> dict[str, Any]:
    restored = plan.restored
    return {
        "pipeline": plan.standing.name,
        "done": is_done,
        "to": plan.to,
        "moves": [
            {
                "topic": move.where.topic,
                "partition": move.where.partition,
                "from": move.was,
                "to": move.to,
                "records": move.records,
                "exact": move.is_exact,
                "effect": "again" if move.is_back else "skipped" if move.records else None,
            }
            for move in plan.moves
        ],
        "state": None if plan.state is None else plan.state.value,
        "keys_changed": plan.keys_changed,
        "restored": None if restored is None else _entry_as_dict(restored.entry),
        "activity": plan.standing.activity.value,
    }


def remains_text(found: Remains, *, is_done: bool) -> list[str]:
    standing = found.standing
    what = [f"changelog {topic}" for topic in found.changelogs]
    what += [f"consumer group {standing.name}"] if found.has_group else []
    what += [f"ledger entry of {standing.name}"] if found.has_entry else []
    lines = [f"{'deleted' if is_done else 'would delete'} {each}" for each in what] or ["there is nothing to delete"]
    lines.append(
        f"The transactional id {standing.owner.transactional_id} stays: Kafka cannot delete one, and forgets it after "
        "transactional.id.expiration.ms (a week by default)."
    )
    if not is_done:
        lines.append(f"Nothing was deleted: add --yes. Does the pipeline run? {standing.activity_words}")
    return lines


def remains_as_dict(found: Remains, *, is_done: bool) -> dict[str, Any]:
    return {
        "pipeline": found.standing.name,
        "done": is_done,
        "changelogs": list(found.changelogs),
        "group": found.has_group,
        "ledger": found.has_entry,
        "activity": found.standing.activity.value,
    }
