"""`fencepost consume`: records of topics on standard output. Only words and exit codes; `lines` does the work."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import IO, Any

import click

from fencepost.cli.names import complete_groups, topic_argument
from fencepost.cli.on_cluster import NOT_SO, code_of, json_option, on_cluster
from fencepost.cli.tables import shell_word

EXIT_CODES = """\b
Exit codes:
  0  done; also if whoever read the output has gone, or Ctrl-C ended a reader that follows
  1  failed; the message says why
  2  wrong arguments
  3  there is no such topic
  4  the end came before as many records as -n asks for"""
FORMAT = r"%s\n"
RAW_FORMAT = r"%t %p %o %x %k %s\n"


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    options = [
        click.option(
            "-o",
            "--offset",
            metavar="TARGET",
            help="Where to begin: start, end, an offset, -10 (the last ten records of each partition), "
            "@2026-11-16T08:00 (UTC) or @-1h.  [default: start; with -g where the group stands]",
        ),
        click.option("-p", "--partition", "partitions", type=click.IntRange(0), multiple=True, help="Only this one."),
        click.option("-n", "--count", type=click.IntRange(1), help="End after so many records."),
        click.option("-e", "--exit", "at_end", is_flag=True, help="End when everything has been read."),
        click.option(
            "-f",
            "--format",
            "template",
            metavar="FORMAT",
            help=r"How to print a record: %t topic, %p partition, %o offset, %k key, %s value, %h headers, "
            r"%T timestamp, %K and %S lengths, %x its transaction's outcome (raw).  [default: '%s\n']",
        ),
        click.option(
            "--isolation",
            type=click.Choice(["committed", "uncommitted", "raw"]),
            default="committed",
            show_default=True,
            help="raw shows markers and aborted records, too, and the outcome of each transaction.",
        ),
        click.option("--key", "keys", metavar="PATTERN", multiple=True, help="Only keys with this text, or /regex/."),
        click.option("--value", "values", metavar="PATTERN", multiple=True, help="Only values with it."),
        click.option("--header", "headers", metavar="NAME[=PATTERN]", multiple=True, help="Only with this header."),
        click.option(
            "-g",
            "--group",
            metavar="GROUP",
            shell_complete=complete_groups,
            help="Begin where this group stands. It is not joined, and must have no members to --commit.",
        ),
        click.option("--commit", is_flag=True, help="Commit what was printed to the group."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.command(epilog=EXIT_CODES)
@topic_argument(many=True)
@_options
@json_option
@on_cluster("The cluster.", code_of)
def consume(
    cluster: Any,
    topics: tuple[str, ...],
    template: str | None,
    isolation: str,
    keys: tuple[str, ...],
    values: tuple[str, ...],
    headers: tuple[str, ...],
    count: int | None,
    at_end: bool,
    group: str | None,
    commit: bool,
    as_json: bool,
    **place: Any,
) -> int:
    """Print records of topics, and wait for more unless -e or -n end it.

    With --json every line has all of a record, and `fencepost produce --format json` takes it back byte for byte.

    \b
    Examples:
      fencepost consume invoices -e
      fencepost consume invoices -o -10 -f '%p %o %k %s\\n' -e
      fencepost consume invoices -o @-1h --key /^user-7/ --json
      fencepost consume invoices --isolation raw -e             markers, aborted and open transactions, too
      fencepost consume invoices -e --json | fencepost produce copy --format json --transaction
    """
    from fencepost.errors import ConfigError
    from fencepost.lines.filters import Filter
    from fencepost.lines.formatting import compile_format
    from fencepost.lines.json_lines import to_line
    from fencepost.lines.reading import Follower, View
    from fencepost.manage.groups import refuse_members

    if commit and group is None:
        raise ConfigError("--commit needs -g GROUP")
    if as_json and template is not None:
        raise ConfigError("use either --json or -f, not both")
    view, chosen = View(isolation), Filter.parse(keys, values, headers)
    is_raw = view is View.RAW
    plain = compile_format(template or (RAW_FORMAT if is_raw else FORMAT), has_outcomes=is_raw)
    render = (lambda seen: to_line(seen) + b"\n") if as_json else plain
    if commit and group is not None:
        refuse_members(cluster, group)
    follower = Follower(cluster, _positions(cluster, topics, view, group, **place), view)
    out = sys.stdout.buffer
    printed = 0
    save = _saver(cluster, group, follower) if commit and group is not None else lambda: None
    with _saved(out, save):
        try:
            for seen in follower.to_the_end() if at_end else follower.for_ever():
                if seen is None:
                    out.flush()
                    save()
                elif chosen.takes(seen.record) or (seen.marker is not None and chosen.is_empty):
                    out.write(render(seen))
                    printed += 1
                    if printed == count:
                        break
        except KeyboardInterrupt:
            if at_end or count is not None:
                raise
    if at_end and view is View.COMMITTED and printed != count:
        _tell_of_held(cluster, follower.positions)
    return NOT_SO if count is not None and printed < count else 0


def _tell_of_held(cluster: Any, positions: dict[Any, int]) -> None:
    """A reader that gets less than was written should know it."""
    from fencepost.client.offsets import latest
    from fencepost.wire.terms import Isolation
    from fencepost.wording import plural

    # In this order: what is written in between is in neither.
    ends = latest(cluster, positions, Isolation.READ_UNCOMMITTED)
    stable = latest(cluster, positions, Isolation.READ_COMMITTED)
    held = {where: ends[where] - stable[where] for where in sorted(positions) if ends[where] > stable[where]}
    for where, offsets in [*held.items()][:1]:
        others = f" (and {plural(len(held) - 1, 'other partition')})" if len(held) > 1 else ""
        text = f"note: {where} goes on for {plural(offsets, 'offset')} behind an open transaction{others}"
        click.echo(f"{text}. See: fencepost tx why {shell_word(where.topic)}", err=True)


@contextlib.contextmanager
def _saved(out: IO[bytes], save: Callable[[], None]) -> Iterator[None]:
    """What was printed is committed, whatever ends it; what the reader has not got is not."""
    try:
        yield
    finally:
        out.flush()
        save()


def _saver(cluster: Any, group: str, follower: Any) -> Callable[[], None]:
    """Partitions that were not reached are committed, too: else their records would be missing in the group's lag."""
    from fencepost.client.groups import commit_offsets
    from fencepost.errors import ConfigError, GroupInUse

    saved: dict[Any, int] = {}

    def save() -> None:
        changed = {where: at for where, at in follower.positions.items() if saved.get(where) != at}
        if not changed:
            return
        try:
            commit_offsets(cluster, group, changed)
        except ConfigError as error:  # somebody has joined since
            raise GroupInUse(f"{error}. What was printed is not committed") from None
        saved.update(changed)

    return save


def _positions(
    cluster: Any,
    topics: tuple[str, ...],
    view: Any,
    group: str | None,
    partitions: tuple[int, ...],
    offset: str | None,
) -> dict[Any, int]:
    import time

    from fencepost.client.groups import committed_offsets
    from fencepost.client.offsets import partitions_of
    from fencepost.client.rights import Operation, wanted
    from fencepost.errors import TopicNotFound
    from fencepost.lines.targets import ToOffset, parse_target, resolve

    target = parse_target(offset or "start", time.time_ns() // 1_000_000)
    with wanted(Operation.READ):
        known = partitions_of(cluster, topics)
    chosen = [where for where in known if not partitions or where.partition in partitions]
    missing = set(partitions) - {where.partition for where in known}
    if missing:
        last = max(where.partition for where in known)
        raise TopicNotFound(f"topic {topics[0]!r} has no partition {min(missing)}; it has 0 to {last}")
    stands = {} if group is None or offset else committed_offsets(cluster, group, chosen)
    found = {where: each.offset for where, each in stands.items()}
    named = found if found or not isinstance(target, ToOffset) else dict.fromkeys(chosen, target.offset)
    _check_places(cluster, named, view, group if found else None)
    return found | resolve(cluster, target, [where for where in chosen if where not in found], view)


def _check_places(cluster: Any, places: dict[Any, int], view: Any, group: str | None) -> None:
    """Offsets that somebody has named may be gone (an error), or not there yet (a note). `group` stands at them."""
    from fencepost.errors import OffsetsOutOfRange
    from fencepost.lines.reading import bounds
    from fencepost.wording import plural

    known = bounds(cluster, places, view) if places else {}
    for where, at in places.items():
        if at < known[where].begin:
            place = f"{where.topic}:{where.partition}"
            remedy = (
                "begin with -o start"
                if group is None
                else f"fencepost group seek {shell_word(group)} -o start -t {place}"
            )
            raise OffsetsOutOfRange(
                f"{where}: records from offset {at} on are gone; the partition now holds offsets {known[where].begin} "
                f"to {known[where].end}. Read those: {remedy}"
            )
    beyond = [where for where, at in places.items() if at > known[where].end]
    for where in beyond[:1]:
        others = f" (nor in {plural(len(beyond) - 1, 'other partition')})" if len(beyond) > 1 else ""
        text = f"note: {where} can be read up to offset {known[where].end}: there is nothing at {places[where]} yet"
        click.echo(text + others, err=True)
