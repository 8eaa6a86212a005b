"""What was observed, in words that somebody on call understands at once. Pure; for the command line and the console."""

from collections.abc import Sequence
from datetime import UTC, datetime

from fencepost.observe.groups import Member, Place
from fencepost.observe.holding import Cause, Hold
from fencepost.observe.why import Explanation, Reader, Trouble, Verdict
from fencepost.wire.terms import TopicPartition
from fencepost.wording import at_most, plural

#: Partitions, groups and clients that are named before "and N more".
NAMED_MAX = 5
NO_OFFSET = "no committed offset here: it begins where auto.offset.reset says, by default at the end"


def age(milliseconds: int) -> str:
    seconds = max(0, milliseconds) / 1000
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def instant(time_ms: int) -> str:
    """In UTC, as ISO 8601, to the second."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def since(time_ms: int, now_ms: int) -> str:
    return f"{instant(time_ms)} ({age(now_ms - time_ms)} ago)"


def some(names: Sequence[object]) -> str:
    """The first few, and how many more there are."""
    shown = ", ".join(map(str, names[:NAMED_MAX]))
    return shown if len(names) <= NAMED_MAX else f"{shown} and {len(names) - NAMED_MAX:,} more"


# -- why ---------------------------------------------------------------------------------------------------------------


def asked(found: Explanation) -> str:
    if found.topic is None:
        return "any topic"
    return found.topic if found.partition is None else str(TopicPartition(found.topic, found.partition))


def headline(found: Explanation) -> str:
    """The answer in one sentence."""
    match found.verdict:
        case Verdict.NO_TOPIC:
            return _no_topic(found)
        case Verdict.HELD:
            held = [each.bounds for hold in found.holds for each in hold.partitions]
            waiting = sum(hold.waiting for hold in found.holds)
            is_exact = all(hold.is_exact for hold in found.holds)
            records = at_most(waiting, "committed record", is_exact=is_exact)
            behind = f"{records} behind it" if waiting else "with no committed record behind it so far"
            if len(held) == 1:
                return f"{held[0].where} is HELD: read_committed readers stop at offset {held[0].stable}, {behind}"
            where = "" if found.topic is None else f" of {found.topic}"
            which = f"{len(held):,} of {found.partitions:,} partitions{where}"
            return f"{which} are HELD: read_committed readers stop there, {behind}"
        case Verdict.UNAVAILABLE:
            silent = [each for each in found.stopped if each.trouble is not Trouble.TOO_FEW_IN_SYNC]
            which = some([each.where for each in silent])
            reason = _why_silent(silent[0].trouble)
            return f"{which} cannot be read or written: {reason}. No transaction holds {_it(found)}"
        case Verdict.READ_ONLY:
            which = some([each.where for each in found.stopped])
            return f"{which} takes no writes with acks=all: too few in-sync replicas. No transaction holds {_it(found)}"
    lost = [each for each in found.readers if each.lost]
    if lost:
        names = some([each.group.group_id for each in lost])
        return f"nothing holds {asked(found)}, but the committed offset of {names} is out of range"
    return f"nothing holds {asked(found)}: read_committed readers get everything that was written"


def _it(found: Explanation) -> str:
    return "the others" if found.partitions > len(found.stopped) else "it"


def _no_topic(found: Explanation) -> str:
    if found.topic in found.similar:
        return f"topic {found.topic!r} has no partition {found.partition}"
    hint = f"; did you mean {some(found.similar)}?" if found.similar else ""
    return f"topic {found.topic!r} does not exist on this cluster{hint}"


def _why_silent(trouble: Trouble) -> str:
    return "no leader" if trouble is Trouble.NO_LEADER else "the leader does not answer"


def what(hold: Hold) -> str:
    """What holds the offset."""
    name = "" if hold.transaction is None else f" of transactional id {hold.transaction.transactional_id!r}"
    match hold.cause:
        case Cause.OPEN:
            return f"an OPEN transaction{name}: its producer has neither committed nor aborted it"
        case Cause.OVERDUE:
            return f"an OVERDUE transaction{name}: its timeout is over, and its coordinator has not aborted it"
        case Cause.COMMITTING:
            return f"a COMMITTED transaction{name} whose marker is missing here: its coordinator has not written it yet"
        case Cause.ABORTING:
            return f"an ABORTED transaction{name} whose marker is missing here: its coordinator has not written it yet"
        case Cause.HIDDEN:
            return "an open transaction whose owner cannot be seen: it may be alive or hanging"
        case Cause.SETTLING:
            return "a transaction that has ended: its marker waits for the in-sync replicas"
    if hold.transaction is None:
        return "a HANGING transaction: no transactional id has this producer, so nobody will ever end it"
    return (
        f"a HANGING transaction: {hold.transaction.transactional_id!r} had this producer, but its coordinator does not "
        f"have this partition (state {hold.transaction.state}), so nobody will ever end it"
    )


def ends(hold: Hold, now_ms: int) -> str:
    """When it ends without help."""
    match hold.cause:
        case Cause.HANGING:
            return "never by itself"
        case Cause.HIDDEN:
            return "unknown, as long as its coordinator does not answer or may not show it to you"
        case Cause.SETTLING | Cause.COMMITTING | Cause.ABORTING:
            return "by itself, as soon as its partitions and their replicas are reachable"
    if hold.ends_ms is None or hold.transaction is None:
        return "unknown"
    timeout = f"timeout {age(hold.transaction.timeout_ms)}"
    if hold.ends_ms <= now_ms:
        return f"it should have been aborted {age(now_ms - hold.ends_ms)} ago ({timeout})"
    return f"its coordinator aborts it in {age(hold.ends_ms - now_ms)} ({timeout}), unless its producer ends it before"


def client(hold: Hold) -> str | None:
    """Whose process it probably is. Kafka does not tell the clients of producers, but those of groups."""
    if hold.transaction is not None and hold.transaction.client is not None:
        return hold.transaction.client
    named = [f"group {each.group_id}" + _clients(each.members) for each in hold.owners]
    return f"probably {some(named)}: offsets of it are in the transaction" if named else None


def _clients(members: Sequence[Member] | None) -> str:
    shown = [f"{each.client_id} at {each.host}" for each in members or ()]
    return f" ({some(shown)})" if shown else ""


def reader_place(reader: Reader) -> str:
    """Where a group stands, in the asked partitions."""
    if reader.lost:
        worst = reader.lost[0]
        if worst.place is Place.DELETED:
            return f"offset {worst.committed} of {worst.where} was deleted before it was read: it starts over or fails"
        return (
            f"offset {worst.committed} of {worst.where} is beyond its end: records were lost, or the topic was replaced"
        )
    if not reader.lags:
        return NO_OFFSET
    problems = [each.problem for each in reader.lags if each.problem]
    if problems:
        return problems[0]
    held = [each for each in reader.lags if each.held]
    if held and reader.is_waiting:
        stuck = [each for each in held if each.place is Place.AT_STABLE]
        if len(stuck) == 1:
            return f"waits at offset {stuck[0].committed} of {stuck[0].where}"
        return f"waits in {plural(len(held), 'partition')}" if stuck else "will stop there, too"
    if held:
        return "reads uncommitted records: not held"
    if reader.lag == 0:
        return "at the end: it has read everything"
    return "behind: it can read on" if reader.group.is_active else "behind, and nobody reads for it"
