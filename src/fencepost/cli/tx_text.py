"""What `fencepost tx` prints for people. Pure. `tx_json` has the same for programs."""

from collections.abc import Sequence

from fencepost.cli.tables import shell_word, table
from fencepost.client.settings import ClientSettings
from fencepost.observe import words
from fencepost.observe.aborting import Freed, Outcome, Plan, Undone, Way
from fencepost.observe.asking import Answers
from fencepost.observe.hanging import Hanging, Search
from fencepost.observe.holding import Cause, Hold
from fencepost.observe.producers import Producers
from fencepost.observe.transactions import Missing, State, TransactionView
from fencepost.observe.watching import Change, Event
from fencepost.observe.why import Explanation, Reader, Verdict
from fencepost.observe.words import age, since, some
from fencepost.security.names import Protocol
from fencepost.wire.terms import TopicPartition
from fencepost.wording import at_most, plural

#: Readers that are listed before "and N more".
READERS_MAX = 20


def place(where: TopicPartition) -> str:
    """As `TOPIC:PARTITION` arguments are written."""
    return f"{where.topic}:{where.partition}"


def command(settings: ClientSettings, *given: str) -> str:
    """A command on the same cluster, to be copied."""
    more = () if settings.security.protocol is Protocol.PLAINTEXT else ("--command-config", "FILE")
    return " ".join(map(shell_word, ["fencepost", "tx", *given, "-b", str(settings.bootstrap[0]), *more]))


def warnings(missing: Sequence[Missing]) -> list[str]:
    return [f"Warning: not all could be asked: {some(missing)}"] if missing else []


# -- ls, describe, producers -------------------------------------------------------------------------------------------

HEADINGS = ("TRANSACTIONAL ID", "STATE", "OPEN FOR", "TIMEOUT", "PARTITIONS", "PRODUCER", "EPOCH", "BROKER", "PIPELINE")


def transactions(found: Sequence[TransactionView], now_ms: int) -> list[str]:
    if not found:
        return ["there is no such transaction, or none that you may see"]
    rows = [
        (
            each.transactional_id,
            each.state,
            _open_for(each, now_ms),
            age(each.timeout_ms),
            len(each.partitions) if each.is_open else None,
            each.producer_id,
            each.epoch,
            each.coordinator,
            each.pipeline or "",
        )
        for each in found
    ]
    return table(HEADINGS, rows)


def _open_for(view: TransactionView, now_ms: int) -> str | None:
    open_ms = view.age_ms(now_ms)
    if open_ms is None:
        return None
    deadline_ms = view.deadline_ms
    return age(open_ms) + (" (overdue)" if deadline_ms is not None and now_ms > deadline_ms else "")


def description(view: TransactionView, now_ms: int) -> list[str]:
    rows = [
        ("state", f"{view.state}: {_STATES.get(view.state, 'a state that this version does not know')}"),
        ("producer", f"{view.producer_id}, epoch {view.epoch}"),
        ("coordinator", f"broker {view.coordinator}"),
    ]
    if view.pipeline is not None:
        rows.append(("pipeline", f"{view.pipeline}; see fencepost pipeline describe {shell_word(view.pipeline)}"))
    if view.client is not None:
        rows.append(("client", view.client))
    if view.start_ms is not None:
        rows.append(("open since" if view.is_open else "last began", since(view.start_ms, now_ms)))
    rows.append(("ends", _ends(view, now_ms)))
    if view.partitions:
        rows.append(("partitions", some(view.partitions)))
    return [f"transactional id {view.transactional_id}", *facts(rows)]


def facts(rows: Sequence[tuple[str, str]]) -> list[str]:
    width = max(len(name) for name, _ in rows)
    return [f"  {name.ljust(width)}  {text}" for name, text in rows]


_STATES: dict[str, str] = {
    State.EMPTY: "no transaction was begun since the id was taken",
    State.ONGOING: "a transaction is open",
    State.PREPARE_COMMIT: "committed; markers are being written",
    State.PREPARE_ABORT: "aborted; markers are being written",
    State.COMPLETE_COMMIT: "the last transaction was committed",
    State.COMPLETE_ABORT: "the last transaction was aborted",
    State.DEAD: "the id has expired",
    State.PREPARE_EPOCH_FENCE: "another producer takes the id; the open transaction is being aborted",
}


def _ends(view: TransactionView, now_ms: int) -> str:
    timeout = f"timeout {age(view.timeout_ms)}"
    if view.deadline_ms is None:
        return "as soon as all partitions have their marker" if view.is_ending else f"nothing is open ({timeout})"
    if view.deadline_ms <= now_ms:
        return f"it should have been aborted {age(now_ms - view.deadline_ms)} ago ({timeout})"
    return f"aborted in {age(view.deadline_ms - now_ms)} ({timeout}), unless its producer ends it before"


def producers(found: Answers[TopicPartition, Producers], now_ms: int) -> list[str]:
    rows = [
        (
            str(each.where),
            each.producer_id,
            each.epoch,
            each.txn_start_offset,
            None if each.last_sequence < 0 else each.last_sequence,
            None if each.last_ms is None else f"{age(now_ms - each.last_ms)} ago",
            None if each.coordinator_epoch < 0 else each.coordinator_epoch,
        )
        for where in sorted(found.found)
        for each in found.found[where]
    ]
    headings = (
        "PARTITION",
        "PRODUCER",
        "EPOCH",
        "OPEN SINCE OFFSET",
        "LAST SEQUENCE",
        "LAST WRITE",
        "COORDINATOR EPOCH",
    )
    return table(headings, rows) if rows else ["no idempotent or transactional producer has written there lately"]


# -- hanging -----------------------------------------------------------------------------------------------------------


def hanging(search: Search, settings: ClientSettings) -> list[str]:
    looked = plural(search.partitions, "partition")
    if not search.hanging and not search.doubtful:
        return [f"no transaction hangs ({looked} looked at)"]
    lines = []
    if search.hanging:
        rows = [
            (
                str(each.where),
                each.start_offset,
                each.producer.producer_id,
                each.producer.epoch,
                None if each.age_ms is None else f"{age(each.age_ms)} ago",
                "-" if each.transaction is None else f"{each.transaction.transactional_id} ({each.transaction.state})",
            )
            for each in search.hanging
        ]
        lines += table(("PARTITION", "SINCE OFFSET", "PRODUCER", "EPOCH", "LAST WRITE", "TRANSACTIONAL ID"), rows)
        lines += ["", _how_many(search.hanging), f"  {command(settings, 'abort', place(search.hanging[0].where))}"]
    if search.doubtful:
        where = some([each.where for each in search.doubtful])
        lines += [
            "",
            f"Perhaps also in {where}: no transactional id has the producer, but not all of them can be seen.",
        ]
    return lines


def _how_many(found: Sequence[Hanging]) -> str:
    if len(found) == 1:
        return "This transaction hangs: no coordinator will ever end it. See what ending it would undo:"
    return f"{len(found)} transactions hang: no coordinator will ever end them. See what ending one would undo:"


# -- why ---------------------------------------------------------------------------------------------------------------


def explanation(found: Explanation, settings: ClientSettings) -> list[str]:
    lines = [words.headline(found)]
    if found.verdict is Verdict.NO_TOPIC:
        return lines
    for hold in found.holds:
        lines += ["", *_hold(hold, found.now_ms)]
    if found.stopped:
        rows = [(str(each.where), each.trouble.value, each.text) for each in found.stopped[:READERS_MAX]]
        lines += ["", *table(("PARTITION", "PROBLEM", ""), rows, "  ")]
    lines += _readers(found)
    for hold in found.holds[:3]:
        lines += ["", *_advice(hold, found.now_ms, settings)]
    return lines


def _hold(hold: Hold, now_ms: int) -> list[str]:
    rows = [("held by", words.what(hold))]
    if hold.producer_id is not None:
        producer = f"{hold.producer_id}, epoch {hold.epoch}"
        rows.append(
            (
                "producer",
                producer + (f"; coordinator: broker {hold.transaction.coordinator}" if hold.transaction else ""),
            )
        )
    if hold.transaction is not None and hold.transaction.pipeline is not None:
        rows.append(("pipeline", hold.transaction.pipeline))
    if (client := words.client(hold)) is not None:
        rows.append(("client", client))
    if hold.since_ms is not None:
        rows.append(("since", since(hold.since_ms, now_ms)))
    rows.append(("ends", words.ends(hold, now_ms)))
    for each in hold.partitions[: words.NAMED_MAX]:
        rows.append(("partition", f"{each.bounds.where}: stable to {each.bounds.stable}, written to {each.bounds.end}"))
        if each.backlog is not None:
            undecided, aborted = each.backlog.undecided, each.backlog.aborted
            waiting = at_most(each.backlog.waiting_max, "committed record", is_exact=each.backlog.is_exact)
            parts = [f"{waiting} behind it", f"{undecided:,} undecided"] + ([f"{aborted:,} aborted"] if aborted else [])
            rows[-1] = ("partition", f"{rows[-1][1]}: {', '.join(parts)}")
    if len(hold.partitions) > words.NAMED_MAX:
        rows.append(("", f"and {len(hold.partitions) - words.NAMED_MAX:,} more partitions"))
    return facts(rows)


def _readers(found: Explanation) -> list[str]:
    if not found.readers:
        text = (
            "no group has a committed offset here" if found.group is None else f"group {found.group}: {words.NO_OFFSET}"
        )
        return ["", f"  {text}"]
    shown = found.readers[:READERS_MAX]
    rows = [
        (
            each.group.group_id,
            each.group.state,
            "?" if each.group.members is None else len(each.group.members),
            _bounded(each.lag, is_exact=each.is_lag_exact),
            _bounded(each.misses, is_exact=each.is_exact),
            words.reader_place(each),
        )
        for each in shown
    ]
    more = len(found.readers) - len(shown)
    return [
        "",
        *table(("GROUP", "STATE", "MEMBERS", "LAG", "MISSES", ""), rows, "  "),
        *([f"  and {more} more groups"] if more else []),
        *_legend(found.readers),
    ]


def _legend(readers: Sequence[Reader]) -> list[str]:
    if not any(each.is_waiting for each in readers):
        return []
    return ["  LAG: records that it can read now. MISSES: committed records that it gets when nothing holds them."]


def _bounded(count: int | None, *, is_exact: bool) -> str | None:
    return None if count is None else str(count) if is_exact else f"<= {count}"


def _advice(hold: Hold, now_ms: int, settings: ClientSettings) -> list[str]:
    first = hold.partitions[0].bounds.where
    name = "" if hold.transaction is None else hold.transaction.transactional_id
    match hold.cause:
        case Cause.HANGING:
            return ["Free the readers with", f"  {command(settings, 'abort', place(first), '--yes')}"]
        case Cause.OPEN:
            left = (
                f"Wait {age(hold.ends_ms - now_ms)}" if hold.ends_ms is not None and hold.ends_ms > now_ms else "Wait"
            )
            lines = [f"{left}, or start its producer again: that aborts the transaction at once. To end it now:"]
            return [*lines, f"  {command(settings, 'abort', '--id', name, '--force', '--yes')}"]
        case Cause.OVERDUE:
            broker = "its coordinator" if hold.transaction is None else f"broker {hold.transaction.coordinator}"
            lines = [f"Is {broker} healthy? It should have aborted the transaction. To end it now:"]
            return [*lines, f"  {command(settings, 'abort', '--id', name, '--force', '--yes')}"]
        case Cause.COMMITTING | Cause.ABORTING:
            partitions = () if hold.transaction is None else hold.transaction.partitions
            return [f"Look at the leaders of the partitions without a marker: {some(partitions)}. Nothing else helps."]
        case Cause.HIDDEN:
            return ["It may be alive. See the warning: bring all brokers back, or get the right to see all ids."]
    return ["Look at the partition's replicas: the marker is stable as soon as those in sync have it."]


# -- abort -------------------------------------------------------------------------------------------------------------


def plan(found: Plan, *, is_done: bool) -> list[str]:
    whose = f"producer {found.producer_id}, epoch {found.epoch}"
    if found.transaction is not None:
        whose = f"transactional id {found.transaction.transactional_id!r} ({whose})"
    verb = "Aborted" if is_done else "Would abort"
    lines = [f"{verb} the {found.cause.value} transaction of {whose}. Undone, for read_committed readers:"]
    lines += [*map(_undone, found.undone)] or ["  no record: it has written none"]
    if found.has_offsets:
        lines.append("  the offsets that groups have committed in it are not committed")
    if found.way is Way.FENCE:
        lines.append("  its producer is fenced: it gets an error at its next request, and must start again")
    if found.others:
        lines.append(f"  the same producer also hangs in {some(found.others)}, which stays as it is")
    return lines


def _undone(each: Undone) -> str:
    if each.records is None or each.last_offset is None:
        return f"  {each.where}: its records from offset {each.first_offset} on are undone"
    count = plural(each.records, "record")
    offsets = (
        f"offset {each.first_offset}" if each.records == 1 else f"offsets {each.first_offset} to {each.last_offset}"
    )
    more = "" if each.is_exact else ", and more behind what was looked at"
    return f"  {each.where}: {count} ({offsets}){more}"


def outcome(found: Outcome) -> list[str]:
    lines = [*plan(found.plan, is_done=True), ""]
    lines += [_freed(each) for each in found.freed]
    if found.still_open:
        lines.append(f"The transaction is still open in {some(found.still_open)}.")
    if not found.freed:
        lines.append("It had written to no partition, so no last stable offset was held.")
    return lines


def _freed(each: Freed) -> str:
    if each.after is None:
        return f"{each.where}: does not answer any more"
    before, after, end = each.before.stable, each.after.stable, each.after.end
    if each.has_moved and after >= end:
        return f"{each.where}: the last stable offset moved from {before} to {after}, the end: readers are free"
    moved = f"moved from {before} to {after}" if each.has_moved else f"stays at {after}"
    if each.next_holder is not None:
        return f"{each.where}: the last stable offset {moved}; producer {each.next_holder.producer_id} holds it now"
    return f"{each.where}: the last stable offset {moved}; the partition ends at {end}"


# -- watch -------------------------------------------------------------------------------------------------------------


def change(found: Change) -> str:
    view = found.transaction
    time = words.instant(found.time_ms)[11:19]
    more = f"producer {view.producer_id}, epoch {view.epoch}"
    if found.event in (Event.BEGUN, Event.GREW):
        more += f", {some(view.partitions)}" if view.partitions else ""
    if found.duration_ms is not None:
        more += f", open for {found.duration_ms / 1000:.1f} s"
    return f"{time}  {found.event.value.ljust(10)}  {view.transactional_id}  ({more})"
