"""`fencepost pipeline`: look at pipelines, and move or remove them. Only words and exit codes; `operate` does the work.

Invariant: nothing here imports Spark, numba or PyArrow: the base install is enough, and the commands start fast.
"""

import functools
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from fencepost.cli.options import EXISTING_DIRECTORY, cluster_options

FAILED, UNKNOWN, NOT_SO = 1, 3, 4
EXIT_CODES = """\b
Exit codes:
  0  done
  1  refused or failed; the message says why, and that nothing was changed
  2  wrong arguments
  3  there is no such pipeline
  4  lag: more than --max-records or --max-seconds; describe: the next start is refused"""

Command = Callable[..., Any]

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
name_argument = click.argument("name", metavar="NAME")


@click.group(epilog=EXIT_CODES)
def pipeline() -> None:
    """Look at pipelines, and move or remove them.

    A pipeline is a consumer group, an entry in the topic fencepost.ledger, a transactional id, and a changelog for each
    stateful step. All of them are in Kafka, so these commands need neither Spark nor the pipeline's code.
    """


def _on_a_cluster(command: Command) -> Command:
    """Gives the command an open `Cluster`, and turns our errors into messages and exit codes."""

    @cluster_options("The cluster that the pipeline writes to.", default="localhost:9092")
    @functools.wraps(command)
    def run(*arguments: Any, cluster: Mapping[str, str], **more: Any) -> None:
        from fencepost.client.cluster import Cluster
        from fencepost.errors import FencepostError, UnknownPipeline

        try:
            with Cluster(cluster) as opened:
                opened.refresh([])  # a wrong address fails at once
                sys.exit(command(*arguments, cluster=opened, **more) or 0)
        except FencepostError as error:
            click.echo(f"Error: {error}", err=True)
            sys.exit(UNKNOWN if isinstance(error, UnknownPipeline) else FAILED)

    return run


def _show(found: dict[str, Any], as_json: bool, text: Callable[[], list[str]]) -> None:
    for line in [json.dumps(found)] if as_json else text():
        click.echo(line)


@pipeline.command("ls", epilog=EXIT_CODES)
@json_option
@_on_a_cluster
def list_pipelines(cluster: Any, as_json: bool) -> None:
    """List all pipelines that have written to the cluster."""
    from fencepost.cli import pipeline_text as text
    from fencepost.operate import overview

    found = overview.all_of(cluster)
    if as_json:
        for each in found:
            click.echo(json.dumps(text.overview_as_dict(each)))
    else:
        for line in text.overview_table(found):
            click.echo(line)


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
