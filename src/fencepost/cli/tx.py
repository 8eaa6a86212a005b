"""`fencepost tx`: look at transactions, and end those that hold up readers. Only words and exit codes; `observe` works.

Invariant: nothing here imports Spark, numba or PyArrow: the base install is enough, and the commands start fast.
"""

import json
import re
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from fencepost.cli.groups import Group
from fencepost.cli.names import complete_groups, complete_ids, complete_topics
from fencepost.cli.on_cluster import FAILED, json_option, on_cluster
from fencepost.cli.tables import visible

if TYPE_CHECKING:
    from fencepost.observe.watching import Change

UNKNOWN, FOUND = 3, 4
EXIT_CODES = """\b
Exit codes:
  0  done; why: nothing holds readers; hanging: nothing hangs
  1  refused or failed; the message says why
  2  wrong arguments
  3  there is no such topic, partition, transactional id or open transaction
  4  why: something holds readers, or stops the partition; hanging: something hangs"""

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def _duration(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """Such as 90s, 15m or 2h; as milliseconds."""
    if value is None:
        return None
    match = re.fullmatch(r"(\d+)\s*([a-z]*)", value.strip())
    if match is None or (match[2] or "s") not in _UNITS_MS:
        raise click.BadParameter(f"{value!r} is not a duration such as 90s, 15m or 2h", ctx, param)
    return int(match[1]) * _UNITS_MS[match[2] or "s"]


def _where(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, int | None] | None:
    """TOPIC or TOPIC:PARTITION, as a pair. Kafka's topics have no colon in their names."""
    if value is None:
        return None
    topic, colon, partition = value.partition(":")
    if not topic or (colon and not partition.isdecimal()):
        raise click.BadParameter(f"{value!r} is not TOPIC or TOPIC:PARTITION", ctx, param)
    return topic, int(partition) if colon else None


@click.group(cls=Group, epilog=EXIT_CODES)
def tx() -> None:
    """Look at transactions, and end those that hold up readers.

    Works on any Kafka since 3.0, secured or not. Only abort changes something.

    \b
    Examples, when a read_committed reader stands still:
      fencepost tx why orders            what holds it, since when, who waits, what to do
      fencepost tx hanging               transactions that nobody will ever end, on every broker
      fencepost tx abort orders:0        end what holds a partition: says first what that undoes
    """


def _code(error: Exception) -> int:
    from fencepost.errors import TopicNotFound, TransactionNotFound

    return UNKNOWN if isinstance(error, TopicNotFound | TransactionNotFound) else FAILED


_on_a_cluster = on_cluster("The cluster to look at.", _code)
older_than_option = click.option(
    "--older-than",
    metavar="DURATION",
    callback=_duration,
    help="Only those that last for longer, for instance 90s, 15m or 2h.",
)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _show(as_json: bool, objects: Iterable[dict[str, Any]], text: Callable[[], Iterable[str]]) -> None:
    for line in map(json.dumps, objects) if as_json else text():
        click.echo(visible(line))


def _warn(missing: Any) -> None:
    from fencepost.cli import tx_text

    for line in tx_text.warnings(missing):
        click.echo(visible(line), err=True)


@tx.command("ls", epilog=EXIT_CODES)
@click.option("--open", "only_open", is_flag=True, help="Only open ones, and those that are ending.")
@click.option("--state", "states", multiple=True, help="Only in this state, by Kafka's name. Repeatable.")
@click.option("--producer", "producer_ids", type=int, multiple=True, help="Only of this producer id. Repeatable.")
@click.option("--match", "pattern", metavar="REGEX", help="Only ids that match as a whole.")
@older_than_option
@json_option
@_on_a_cluster
def list_transactions(
    cluster: Any,
    only_open: bool,
    states: tuple[str, ...],
    producer_ids: tuple[int, ...],
    pattern: str | None,
    older_than: int | None,
    as_json: bool,
) -> None:
    """List the transactions of all brokers, open ones first, the oldest at the top.

    \b
    Examples:
      fencepost tx ls --open
      fencepost tx ls --older-than 15m --json
      fencepost tx ls --match 'fencepost-.*'
    """
    from fencepost.cli import tx_json, tx_text
    from fencepost.observe.transactions import OPEN, survey

    wanted = (*states, *sorted(OPEN)) if only_open else states
    found = survey(cluster, states=wanted, producer_ids=producer_ids, min_age_ms=older_than, pattern=pattern)
    _warn(found.missing)
    _show(
        as_json,
        map(tx_json.transaction, found.transactions),
        lambda: tx_text.transactions(found.transactions, _now_ms()),
    )


@tx.command(epilog=EXIT_CODES)
@click.argument("transactional_id", metavar="ID", shell_complete=complete_ids)
@json_option
@_on_a_cluster
def describe(cluster: Any, transactional_id: str, as_json: bool) -> None:
    """Show a transactional id: its state, producer, timeout and partitions.

    \b
    Example:
      fencepost tx describe fencepost-shop
    """
    from fencepost.cli import tx_json, tx_text
    from fencepost.errors import TransactionNotFound
    from fencepost.observe.transactions import describe as described

    found = described(cluster, transactional_id)
    if found is None:
        raise TransactionNotFound(f"no broker knows the transactional id {transactional_id!r} (any more)")
    _show(as_json, [tx_json.transaction(found)], lambda: tx_text.description(found, _now_ms()))


@tx.command(epilog=EXIT_CODES)
@click.argument("where", metavar="TOPIC[:PARTITION]", callback=_where, shell_complete=complete_topics)
@click.option("--open", "only_open", is_flag=True, help="Only those with an open transaction.")
@json_option
@_on_a_cluster
def producers(cluster: Any, where: tuple[str, int | None], only_open: bool, as_json: bool) -> None:
    """Show the producers that partitions remember, and where their open transactions begin.

    \b
    Examples:
      fencepost tx producers orders
      fencepost tx producers orders:0 --open
    """
    from fencepost.cli import tx_json, tx_text
    from fencepost.errors import TopicNotFound
    from fencepost.observe.asking import Answers
    from fencepost.observe.hanging import every_partition
    from fencepost.observe.producers import producers_of
    from fencepost.observe.transactions import Missing

    topic, partition = where
    asked = [each for each in every_partition(cluster, topic) if partition is None or each.partition == partition]
    if not asked:
        raise TopicNotFound(f"topic {topic!r} has no partition {partition}; fencepost topic describe shows what it has")
    found = producers_of(cluster, asked)
    if only_open:
        found = Answers(
            {at: tuple(each for each in all_ if each.is_open) for at, all_ in found.found.items()}, found.failed
        )
    _warn([Missing(str(at), str(failure)) for at, failure in sorted(found.failed.items())])
    shown = (tx_json.producer(each) for at in sorted(found.found) for each in found.found[at])
    _show(as_json, shown, lambda: tx_text.producers(found, _now_ms()))


@tx.command(epilog=EXIT_CODES)
@click.argument("topic", required=False, shell_complete=complete_topics)
@older_than_option
@json_option
@_on_a_cluster
def hanging(cluster: Any, topic: str | None, older_than: int | None, as_json: bool) -> int:
    """Find transactions that nobody will ever end, in TOPIC or on every broker.

    A transaction hangs if it is open in a partition, and no coordinator has it open with that partition. Both are asked
    twice, so a young transaction is judged as safely as an old one. `kafka-transactions find-hanging` judges by age: it
    shows what --older-than 15m shows.

    \b
    Examples:
      fencepost tx hanging
      fencepost tx hanging orders --older-than 15m --json
    """
    from fencepost.cli import tx_json, tx_text
    from fencepost.observe.hanging import find_hanging

    found = find_hanging(cluster, topic=topic, older_than_ms=older_than or 0)
    _warn(found.missing)
    _show(as_json, map(tx_json.hanging, found.hanging), lambda: tx_text.hanging(found, cluster.settings))
    return FOUND if found.hanging else 0


@tx.command(epilog=EXIT_CODES)
@click.argument("where", metavar="[TOPIC[:PARTITION]]", required=False, callback=_where, shell_complete=complete_topics)
@click.option(
    "--group",
    metavar="GROUP",
    shell_complete=complete_groups,
    help="Only this reader, also if it has no committed offset.",
)
@json_option
@_on_a_cluster
def why(cluster: Any, where: tuple[str, int | None] | None, group: str | None, as_json: bool) -> int:
    """Say why read_committed readers stand still: of a topic, a partition, or anywhere.

    Names the transaction that holds the last stable offset, whose it is, since when, and when it will end; the groups
    that wait behind it, and how many records they miss; and the command that frees them. If nothing holds it, says what
    else it is: no leader, too few in-sync replicas, the reader's own position.

    \b
    Examples:
      fencepost tx why orders
      fencepost tx why orders:0 --group billing
      fencepost tx why || page-somebody
    """
    from fencepost.cli import tx_json, tx_text
    from fencepost.observe.why import Verdict
    from fencepost.observe.why import why as explain

    topic, partition = where or (None, None)
    found = explain(cluster, topic, partition, group=group)
    _warn(found.missing)
    _show(as_json, [tx_json.explanation(found)], lambda: tx_text.explanation(found, cluster.settings))
    if found.verdict is Verdict.NO_TOPIC:
        return UNKNOWN
    return 0 if found.verdict is Verdict.CLEAR else FOUND


@tx.command(epilog=EXIT_CODES)
@click.argument("where", metavar="[TOPIC[:PARTITION]]", required=False, callback=_where, shell_complete=complete_topics)
@click.option(
    "--id",
    "transactional_id",
    metavar="ID",
    shell_complete=complete_ids,
    help="The open transaction of this id, in all its partitions.",
)
@click.option(
    "--start-offset", type=click.IntRange(0), help="The one that begins there, not the one that holds readers."
)
@click.option("--hanging", "all_hanging", is_flag=True, help="All that hang, in TOPIC or on every broker.")
@click.option("--force", is_flag=True, help="Also if it is alive. Its producer is fenced: its next request fails.")
@click.option("--yes", is_flag=True, help="Do it. Without this, only say what would be undone.")
@json_option
@_on_a_cluster
def abort(
    cluster: Any,
    where: tuple[str, int | None] | None,
    transactional_id: str | None,
    start_offset: int | None,
    all_hanging: bool,
    force: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """End a transaction that its owner does not end, and prove that readers are free.

    Says first what that undoes. A hanging transaction gets an abort marker in its partition. A live one is refused
    without --force; then its coordinator aborts all of it, and its producer is fenced. One whose end is decided is
    never touched.

    \b
    Examples:
      fencepost tx abort orders:0                        what would be undone
      fencepost tx abort orders:0 --yes
      fencepost tx abort --hanging --yes
      fencepost tx abort --id fencepost-shop --force --yes
    """
    from fencepost.observe import aborting

    plans = _plans(cluster, where, transactional_id, start_offset, all_hanging)
    if not plans:
        _show(as_json, [], lambda: ["no transaction hangs: nothing to end"])
        return 0
    is_proven = True
    for index, plan in enumerate(plans):
        if index and not as_json:
            click.echo()
        refusal = plan.refusal(even_if_live=force)
        if not yes or refusal is not None:
            _show_plan(plan, as_json, refusal)
            is_proven = False
            continue
        outcome = aborting.abort(cluster, plan, even_if_live=force)
        is_proven = is_proven and outcome.is_proven
        _show_outcome(outcome, as_json)
    return 0 if is_proven else FAILED


def _plans(
    cluster: Any,
    where: tuple[str, int | None] | None,
    transactional_id: str | None,
    start_offset: int | None,
    all_hanging: bool,
) -> list[Any]:
    from fencepost.observe import aborting
    from fencepost.wire.terms import TopicPartition

    if transactional_id is not None:
        if where is not None or all_hanging or start_offset is not None:
            raise click.UsageError("--id ends a transaction in all its partitions: give nothing beside it")
        return [aborting.plan_id(cluster, transactional_id)]
    if all_hanging:
        if start_offset is not None or (where is not None and where[1] is not None):
            raise click.UsageError("--hanging takes a TOPIC, or nothing")
        return list(aborting.plan_hanging(cluster, None if where is None else where[0]))
    if where is None or where[1] is None:
        raise click.UsageError("which one? Give TOPIC:PARTITION, --id ID or --hanging; fencepost tx why names it")
    return [aborting.plan_partition(cluster, TopicPartition(where[0], where[1]), start_offset=start_offset)]


def _show_plan(plan: Any, as_json: bool, refusal: str | None) -> None:
    from fencepost.cli import tx_json, tx_text
    from fencepost.observe.holding import Cause

    _show(
        as_json, [{**tx_json.plan(plan, is_done=False), "refused": refusal}], lambda: tx_text.plan(plan, is_done=False)
    )
    if refusal is None:
        click.echo("Nothing was changed: add --yes.", err=True)
    else:
        can_be_forced = plan.cause in (Cause.OPEN, Cause.OVERDUE)
        click.echo(f"Error: {refusal}. Nothing was changed" + (": add --force" if can_be_forced else ""), err=True)


def _show_outcome(outcome: Any, as_json: bool) -> None:
    from fencepost.cli import tx_json, tx_text

    _show(as_json, [tx_json.outcome(outcome)], lambda: tx_text.outcome(outcome))
    if not outcome.is_proven:
        click.echo("Error: the last stable offset has not moved. See fencepost tx why", err=True)


@tx.command(epilog=EXIT_CODES)
@click.option(
    "--interval", default=1.0, show_default=True, type=click.FloatRange(0.05), help="Seconds between two looks."
)
@click.option("--seconds", type=click.FloatRange(0), help="End after this time, not with Ctrl-C.")
@click.option("--match", "pattern", metavar="REGEX", help="Only ids that match as a whole.")
@json_option
@_on_a_cluster
def watch(cluster: Any, interval: float, seconds: float | None, pattern: str | None, as_json: bool) -> int:
    """Print transactions as they begin, commit, abort and expire, until Ctrl-C.

    Kafka tells states, not events: what begins and ends between two looks shows only by its end.

    \b
    Examples:
      fencepost tx watch
      fencepost tx watch --match 'fencepost-.*' --interval 0.2 --json
    """
    try:
        _watch(cluster, interval, seconds, pattern, as_json)
    except KeyboardInterrupt:
        pass
    return 0


def _watch(cluster: Any, interval: float, seconds: float | None, pattern: str | None, as_json: bool) -> None:
    from fencepost.observe.transactions import survey
    from fencepost.observe.watching import Seen

    deadline_s = None if seconds is None else time.monotonic() + seconds
    first = survey(cluster, pattern=pattern)
    _warn(first.missing)
    opened = [each for each in first.transactions if each.is_open]
    if not as_json:
        open_now = f"{len(opened)} of {len(first.transactions)} transactional ids have an open transaction"
        click.echo(f"watching every {interval:g} s; {open_now}. Ctrl-C ends.")
    seen, missing = Seen(first), first.missing
    _print(seen.opened(_now_ms()), as_json)
    while deadline_s is None or time.monotonic() < deadline_s:
        time.sleep(interval if deadline_s is None else min(interval, max(0.0, deadline_s - time.monotonic())))
        found = survey(cluster, pattern=pattern)
        if found.missing != missing:
            _warn(found.missing)
            missing = found.missing
        _print(seen.next(found, _now_ms()), as_json)


def _print(news: "Sequence[Change]", as_json: bool) -> None:
    from fencepost.cli import tx_json, tx_text

    _show(as_json, map(tx_json.change, news), lambda: map(tx_text.change, news))
