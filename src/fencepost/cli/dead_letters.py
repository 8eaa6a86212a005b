"""`fencepost dead-letters`: look at records that a pipeline could not write, and write them again.

Only words and exit codes; `fencepost.dead_letters` does the work. Invariant: nothing here imports Spark, numba or
PyArrow.
"""

import json
from typing import Any

import click

from fencepost.cli.groups import Group
from fencepost.cli.on_cluster import json_option, on_cluster, print_found
from fencepost.cli.tables import visible

LEFT = 4
EXIT_CODES = """\b
Exit codes:
  0  done
  1  failed; the message says why
  2  wrong arguments
  4  replay: some letters cannot be written again; the others were"""
SHOWN = 10

topic_argument = click.argument("topic", metavar="TOPIC")
where_option = click.option(
    "--where",
    metavar="NAME=VALUE",
    multiple=True,
    help="Only letters with this reason, topic, pipeline, batch or source (its topic). Repeatable: all must hold.",
)


@click.group("dead-letters", cls=Group, epilog=EXIT_CODES)
def dead_letters() -> None:
    """Look at records that a pipeline could not write, and write them again.

    TOPIC is what the option deadLetters of the pipeline names.

    \b
    Examples:
      fencepost dead-letters ls purchases.dead
      fencepost dead-letters show purchases.dead
    """


_on_a_cluster = on_cluster("The cluster that has the topic.")


@dead_letters.command("ls", epilog=EXIT_CODES)
@topic_argument
@where_option
@json_option
@_on_a_cluster
def list_letters(cluster: Any, topic: str, where: tuple[str, ...], as_json: bool) -> None:
    """Count the letters by reason, topic and pipeline, with the times of the first and the last.

    \b
    Example:
      fencepost dead-letters ls purchases.dead
    """
    from fencepost.cli import dead_letters_text as text
    from fencepost.dead_letters import reading

    found = reading.count(reading.letters(cluster, topic, reading.Selection.parse(where)))
    print_found(found, as_json, text.group_as_dict, text.groups)


@dead_letters.command(epilog=EXIT_CODES)
@topic_argument
@click.option("--partition", type=click.IntRange(0), help="Only letters of this partition.")
@click.option("--offset", type=click.IntRange(0), help="Only the letter at this offset; needs --partition.")
@click.option("--last", "count", type=click.IntRange(1), help=f"So many of the newest.  [default: {SHOWN}]")
@click.option("--full", is_flag=True, help="Show long keys and values to their end. --json always does.")
@json_option
@_on_a_cluster
def show(
    cluster: Any, topic: str, partition: int | None, offset: int | None, count: int | None, full: bool, as_json: bool
) -> None:
    """Show letters: what is wrong, where they are from, key, value and headers.

    \b
    Examples:
      fencepost dead-letters show purchases.dead --last 3
      fencepost dead-letters show purchases.dead --partition 0 --offset 17 --full
    """
    from fencepost.cli import dead_letters_text as text
    from fencepost.dead_letters import reading
    from fencepost.errors import OffsetsOutOfRange
    from fencepost.wire.terms import TopicPartition

    if offset is not None and partition is None:
        raise click.UsageError("--offset needs --partition")
    if offset is not None and count is not None:
        raise click.UsageError("use either --offset or --last, not both")
    if offset is not None:
        where = TopicPartition(topic, partition or 0)
        begin, end = reading.ranges(cluster, topic).get(where, (0, 0))
        found = list(reading.between(cluster, where, offset, offset + 1)) if begin <= offset < end else []
        if not found:
            raise OffsetsOutOfRange(f"{where} has no letter at offset {offset}; it holds offsets {begin} to {end - 1}")
    else:
        found = reading.last(cluster, topic, count or SHOWN, partition)
    for letter in found:
        lines = [json.dumps(text.letter_as_dict(letter))] if as_json else text.letter(letter, is_full=full)
        for line in lines:
            click.echo(visible(line))


@dead_letters.command(epilog=EXIT_CODES)
@topic_argument
@click.option("--to", metavar="TOPIC", help="Write all of them to this topic, instead of the one each was for.")
@where_option
@click.option("--dry-run", is_flag=True, help="Say what would be written, and write nothing.")
@click.option("--again", is_flag=True, help="Also letters that were replayed before.")
@json_option
@_on_a_cluster
def replay(
    cluster: Any, topic: str, to: str | None, where: tuple[str, ...], dry_run: bool, again: bool, as_json: bool
) -> int:
    """Write letters again, each once, as the records that they were.

    Letters are written in transactions, which also note in the topic fencepost.replayed what was replayed. So a second
    replay writes nothing, and one that was killed continues. The letters stay in their topic.

    \b
    Examples:
      fencepost dead-letters replay purchases.dead --dry-run
      fencepost dead-letters replay purchases.dead --where reason=too-large
      fencepost dead-letters replay purchases.dead --where reason=query --to purchases
    """
    from fencepost.cli import dead_letters_text as text
    from fencepost.dead_letters import replay as replaying
    from fencepost.dead_letters.reading import Selection

    order = replaying.Order(topic, to, Selection.parse(where), again)
    outcome = replaying.preview(cluster, order) if dry_run else replaying.replay(cluster, order)
    if as_json:
        click.echo(json.dumps(text.outcome_as_dict(outcome)))
    else:
        for line in text.outcome(outcome, is_done=not dry_run):
            click.echo(line)
    return LEFT if outcome.left else 0
