"""`fencepost pipeline`: look at pipelines, and move or remove them. Only words and exit codes; `operate` does the work.

Invariant: nothing here imports Spark, numba or PyArrow: the base install is enough, and the commands start fast.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from fencepost.cli.groups import Group
from fencepost.cli.names import complete_pipelines
from fencepost.cli.on_cluster import FAILED, json_option, on_cluster, print_found
from fencepost.cli.options import EXISTING_DIRECTORY
from fencepost.cli.tables import visible

UNKNOWN, NOT_SO = 3, 4
EXIT_CODES = """\b
Exit codes:
  0  done
  1  refused or failed; the message says why, and that nothing was changed
  2  wrong arguments
  3  there is no such pipeline
  4  lag: more than --max-records or --max-seconds; describe: the next start is refused"""

name_argument = click.argument("name", metavar="NAME", shell_complete=complete_pipelines)


@click.group(cls=Group, epilog=EXIT_CODES)
def pipeline() -> None:
    """Look at pipelines, and move or remove them.

    A pipeline is a consumer group, an entry in the topic fencepost.ledger, a transactional id, and a changelog for each
    stateful step. All of them are in Kafka, so these commands need neither Spark nor the pipeline's code.

    \b
    Examples:
      fencepost pipeline ls -b kafka:9092
      fencepost pipeline describe shop
    """


def _code(error: Exception) -> int:
    from fencepost.errors import UnknownPipeline

    return UNKNOWN if isinstance(error, UnknownPipeline) else FAILED


_on_a_cluster = on_cluster("The cluster that the pipeline writes to.", _code)


def _show(found: dict[str, Any], as_json: bool, text: Callable[[], list[str]]) -> None:
    for line in [json.dumps(found)] if as_json else text():
        click.echo(visible(line))


@pipeline.command("ls", epilog=EXIT_CODES)
@json_option
@_on_a_cluster
def list_pipelines(cluster: Any, as_json: bool) -> None:
    """List all pipelines that have written to the cluster.

    \b
    Example:
      fencepost pipeline ls --json
    """
    from fencepost.cli import pipeline_text as text
    from fencepost.operate import overview

    found = overview.all_of(cluster)
    print_found(found, as_json, text.overview_as_dict, text.overview_table)


@pipeline.command(epilog=EXIT_CODES)
@name_argument
@click.option(
    "--checkpoint",
    metavar="DIR",
    type=EXISTING_DIRECTORY,
    help="Say what a start with this checkpoint would do: run, skip or refuse its next batch.",
)
@click.option("--history", is_flag=True, help="List the batches that the ledger still has, newest first.")
@click.option("--exact", is_flag=True, help="Count all records and keys, however many bytes that takes.")
@json_option
@_on_a_cluster
def describe(cluster: Any, name: str, checkpoint: Path | None, history: bool, exact: bool, as_json: bool) -> int:
    """Show a pipeline: its last batch, who runs it, its lag, its state.

    \b
    Examples:
      fencepost pipeline describe shop
      fencepost pipeline describe shop --checkpoint /data/checkpoint
    """
    from fencepost.cli import pipeline_text as text
    from fencepost.operate import overview
    from fencepost.operate.next_start import Outcome

    found = overview.of(cluster, name, checkpoint=checkpoint, exact=exact, history=history)
    _show(text.description_as_dict(found), as_json, lambda: text.description(found))
    return NOT_SO if found.next_start is not None and found.next_start.outcome is Outcome.REFUSE else 0


@pipeline.command(epilog=EXIT_CODES)
@name_argument
@click.option("--exact", is_flag=True, help="Count all records, however many bytes that takes.")
@click.option("--max-records", type=click.IntRange(0), help="Exit with 4 if more records are unread.")
@click.option("--max-seconds", type=click.FloatRange(0), help="Exit with 4 if the oldest unread record is older.")
@json_option
@_on_a_cluster
def lag(cluster: Any, name: str, exact: bool, max_records: int | None, max_seconds: float | None, as_json: bool) -> int:
    """Show the records that a pipeline has not read, and how old the first of them is.

    Markers and aborted records are not counted. Records are counted as far as fetching them takes 64 MiB; beyond that
    the offsets give an upper bound, marked with <=. An unknown lag exceeds every maximum.

    \b
    Examples:
      fencepost pipeline lag shop
      fencepost pipeline lag shop --max-seconds 60 || echo "shop is late"
    """
    from fencepost.cli import pipeline_text as text
    from fencepost.operate import lag as lags
    from fencepost.operate import standing

    found = lags.measure(cluster, standing.read(cluster, name), None if exact else lags.BYTES_MAX)
    _show({"pipeline": name, **text.lag_as_dict(found)}, as_json, lambda: text.lag_table(found))
    is_over = max_records is not None and (found.records is None or found.records > max_records)
    is_late = max_seconds is not None and (found.seconds is None or found.seconds > max_seconds)
    return NOT_SO if is_over or is_late else 0


@pipeline.command(epilog=EXIT_CODES)
@name_argument
@click.option(
    "--to",
    required=True,
    metavar="TARGET",
    help="earliest, latest, a time (2026-11-16T08:00 in UTC, or 24h for so long ago), batch:12 (where the pipeline "
    'stood after that batch), or offsets: {"topic": {"0": 120}} or a file with them. Partitions not named stay.',
)
@click.option(
    "--state",
    type=click.Choice(["keep", "drop", "restore"]),
    help="What becomes of the state of stateful steps: drop empties it; restore sets it back to what it was after the "
    "batch that ended there; keep is only possible if no partition moves back, and is then the default.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--force", is_flag=True, help="Also if the pipeline seems to run. It is fenced: its query fails.")
@json_option
@_on_a_cluster
def reset(cluster: Any, name: str, to: str, state: str | None, dry_run: bool, force: bool, as_json: bool) -> None:
    """Move a pipeline: its offsets, ledger entry and state, in one transaction.

    Takes the pipeline's transactional id first, so a live one cannot write any more. What was written to output topics
    stays there: records that are processed again are written again. The next start needs an empty checkpoint directory.

    \b
    Examples:
      fencepost pipeline reset shop --to 24h --dry-run
      fencepost pipeline reset shop --to '{"purchases": {"0": 121}}'
      fencepost pipeline reset shop --to batch:12 --state restore
    """
    import time

    from fencepost.cli import pipeline_text as text
    from fencepost.errors import ConfigError
    from fencepost.operate import reset as resets
    from fencepost.operate.standing import read
    from fencepost.operate.target import parse_target
    from fencepost.wire.terms import Isolation

    try:
        target = parse_target(to, time.time_ns() // 1_000_000)
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    choice = None if state is None else resets.StateChoice(state)
    if dry_run:
        plan = resets.make_plan(cluster, read(cluster, name), to, target, choice)
        plan = resets.with_changes(cluster, plan, Isolation.READ_COMMITTED)
    else:
        plan = resets.reset(cluster, name, to, target, choice, even_if_alive=force)
    _show(text.reset_as_dict(plan, is_done=not dry_run), as_json, lambda: text.reset_text(plan, is_done=not dry_run))


@pipeline.command(epilog=EXIT_CODES)
@name_argument
@click.option("--yes", is_flag=True, help="Do it. Without this, only show what would be deleted.")
@click.option("--force", is_flag=True, help="Also if the pipeline seems to run. It is fenced: its query fails.")
@json_option
@_on_a_cluster
def delete(cluster: Any, name: str, yes: bool, force: bool, as_json: bool) -> int:
    """Delete a pipeline: its changelogs (its state), its consumer group and its ledger entry.

    Input and output topics stay. The transactional id cannot be deleted; the cluster forgets it after
    transactional.id.expiration.ms, a week by default.

    \b
    Examples:
      fencepost pipeline delete shop                 what would be deleted
      fencepost pipeline delete shop --yes
    """
    from fencepost.cli import pipeline_text as text
    from fencepost.operate import delete as deletion

    found = deletion.delete(cluster, name, even_if_alive=force) if yes else deletion.find(cluster, name)
    _show(text.remains_as_dict(found, is_done=yes), as_json, lambda: text.remains_text(found, is_done=yes))
    return 0 if yes else FAILED
