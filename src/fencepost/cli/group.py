"""`fencepost group`: look at groups, move and delete them. `manage` does the work; here are words and codes."""

from typing import Any

import click

from fencepost.cli.groups import Group
from fencepost.cli.names import complete_topics, group_argument
from fencepost.cli.on_cluster import (
    FAILED,
    NOT_SO,
    code_of,
    dry_run_option,
    json_option,
    on_cluster,
    print_found,
    print_one,
)

EXIT_CODES = """\b
Exit codes:
  0  done
  1  refused or failed; the message says why, and that nothing was changed
  2  wrong arguments
  3  there is no such group, or no such topic
  4  describe: the lag is more than --max-records, or unknown"""

_on_a_cluster = on_cluster("The cluster.", code_of)


@click.group(cls=Group, epilog=EXIT_CODES)
def group() -> None:
    """Look at consumer groups with their true lag, move and delete them, on any Kafka.

    \b
    Examples:
      fencepost group ls -b kafka:9092
      fencepost group describe billing
      fencepost group seek billing -o @-1h --dry-run
    """


@group.command("ls", epilog=EXIT_CODES)
@json_option
@_on_a_cluster
def list_groups(cluster: Any, as_json: bool) -> None:
    """List groups with their state, their members and the topics that they have read.

    \b
    Example:
      fencepost group ls --json
    """
    from fencepost.cli import group_text as text
    from fencepost.observe.groups import survey_groups

    survey = survey_groups(cluster)
    print_found(survey.groups, as_json, text.listed_as_dict, text.listed)
    for each in survey.missing:
        click.echo(f"not read: {each}", err=True)


@group.command(epilog=EXIT_CODES)
@group_argument()
@click.option("--exact", is_flag=True, help="Count all records, however many bytes that takes.")
@click.option("--max-records", type=click.IntRange(0), help="Exit with 4 if more records are unread.")
@json_option
@_on_a_cluster
def describe(cluster: Any, group: str, exact: bool, max_records: int | None, as_json: bool) -> int:
    """Show a group: its members, its offsets, and how many records it will still get.

    LAG counts the records that a read_committed reader gets: neither markers nor aborted records. Counting means
    fetching, so it ends after 64 MiB; beyond that the offsets give an upper bound, marked with <=. HELD are offsets
    behind an open transaction: nobody knows yet whether they will be read. "fencepost tx why TOPIC" says whose it is.

    \b
    Examples:
      fencepost group describe billing
      fencepost group describe billing --max-records 1000 || echo "billing is late"
    """
    from fencepost.cli import group_text as text
    from fencepost.manage import groups
    from fencepost.observe.counting import BYTES_MAX

    found = groups.describe(cluster, group, None if exact else BYTES_MAX)
    print_one(text.described_as_dict(found), as_json, text.described(found))
    is_over = max_records is not None and (found.records is None or found.records > max_records)
    return NOT_SO if is_over else 0


@group.command(epilog=EXIT_CODES)
@group_argument()
@click.option(
    "-o",
    "--to",
    "target",
    required=True,
    metavar="TARGET",
    help="start, end, an offset, -10 (the last ten records), @2026-11-16T08:00 (UTC) or @-1h.",
)
@click.option(
    "-t",
    "--topic",
    "topics",
    metavar="TOPIC[:PARTITION]",
    multiple=True,
    shell_complete=complete_topics,
    help="Only there. Repeatable.  [default: all topics that the group has read]",
)
@dry_run_option
@json_option
@_on_a_cluster
def seek(cluster: Any, group: str, target: str, topics: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Set the offsets of a group. Refused while it has members.

    With --topic the group need not exist yet. A pipeline of fencepost has more than offsets: use fencepost pipeline
    reset.

    \b
    Examples:
      fencepost group seek billing -o start --dry-run
      fencepost group seek billing -o @-1h -t purchases
      fencepost group seek billing -o 4711 -t purchases:3
    """
    import time

    from fencepost.cli import group_text as text
    from fencepost.lines.targets import parse_target
    from fencepost.manage import groups

    place = parse_target(target, time.time_ns() // 1_000_000)
    moves = groups.plan_move(cluster, group, place, dict(_place(each) for each in topics))
    if not dry_run:
        groups.move(cluster, group, moves)
    print_found(moves, as_json, lambda each: text.move_as_dict(group, each, is_done=not dry_run), text.moves)
    if dry_run and not as_json:
        click.echo("nothing was changed (--dry-run)")


def _place(text: str) -> tuple[str, int | None]:
    topic, colon, partition = text.rpartition(":")
    if not colon:
        return text, None
    if not topic or not partition.isdecimal():
        raise click.UsageError(f"--topic takes TOPIC or TOPIC:PARTITION, not {text!r}")
    return topic, int(partition)


@group.command(epilog=EXIT_CODES)
@group_argument()
@click.option("--yes", is_flag=True, help="Do it. Without this, only show what would be deleted.")
@dry_run_option
@json_option
@_on_a_cluster
def delete(cluster: Any, group: str, yes: bool, dry_run: bool, as_json: bool) -> int:
    """Delete a group and its offsets. Refused while it has members.

    \b
    Examples:
      fencepost group delete billing --dry-run
      fencepost group delete billing --yes
    """
    from fencepost.manage import groups

    found = groups.plan_delete(cluster, group)
    is_done = yes and not dry_run
    if is_done:
        groups.delete(cluster, group)
    topics = sorted({where.topic for where in found.offsets})
    said = f"{group}: {'deleted' if is_done else 'would be deleted'}, with offsets of {', '.join(topics) or 'no topic'}"
    print_one({"group": group, "topics": topics, "deleted": is_done}, as_json, said)
    if not is_done and not dry_run:
        click.echo("nothing was deleted; add --yes to do it", err=True)
        return FAILED
    return 0
