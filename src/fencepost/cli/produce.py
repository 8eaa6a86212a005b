"""`fencepost produce`: records from standard input. Only words and exit codes; `lines` does the work."""

import os
import sys
from typing import Any

import click

from fencepost.cli.names import topic_argument
from fencepost.cli.on_cluster import FAILED, code_of, json_option, on_cluster, print_found
from fencepost.cli.tables import visible

EXIT_CODES = """\b
Exit codes:
  0  everything was written
  1  failed; the message says why and what was written: with --transaction nothing, unless it says otherwise
  2  wrong arguments
  3  there is no such topic"""
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


@click.command(epilog=EXIT_CODES)
@topic_argument(required=False)
@click.option(
    "--format",
    "shape",
    type=click.Choice(["lines", "json"]),
    default="lines",
    show_default=True,
    help="json: what fencepost consume --json prints; TOPIC may be left out then.",
)
@click.option("-k", "--key", help="The key of all records.")
@click.option("-K", "--key-delimiter", metavar="DELIM", help="What separates key and value in a line.")
@click.option("-D", "--delimiter", metavar="DELIM", default=r"\n", help=r"What ends a record.  [default: \n]")
@click.option("-Z", "--empty-is-null", is_flag=True, help="Empty keys and values are null: a tombstone.")
@click.option("-H", "--header", "headers", metavar="NAME=VALUE", multiple=True, help="A header of all records.")
@click.option(
    "-p",
    "--partition",
    metavar="N|key",
    help="The partition of all records, or key: by key.  [default: that of a JSON line, else by key]",
)
@click.option("-z", "--compression", type=click.Choice(COMPRESSIONS), default="none", show_default=True)
@click.option(
    "--acks",
    type=click.Choice(["all", "1"]),
    default="all",
    show_default=True,
    help="Who has a record before it counts as written: all replicas in sync, or the leader.",
)
@click.option("--transaction", is_flag=True, help="All in one transaction: all of it becomes visible, or nothing.")
@click.option("--transactional-id", metavar="ID", help="… with this id. It is taken from whoever has it.")
@click.option(
    "--transaction-timeout",
    metavar="SECONDS",
    type=click.IntRange(1, (2**31 - 1) // 1000),
    default=60,
    show_default=True,
    help="How long the transaction may be open before the cluster aborts it.",
)
@json_option
@on_cluster("The cluster.", code_of)
def produce(
    cluster: Any,
    topic: str | None,
    shape: str,
    key: str | None,
    key_delimiter: str | None,
    delimiter: str,
    empty_is_null: bool,
    headers: tuple[str, ...],
    as_json: bool,
    **more: Any,
) -> int:
    """Write records from standard input, each once: the producer is idempotent.

    A line is a value, or with -K a key and a value.

    \b
    Examples:
      echo hello | fencepost produce greetings
      fencepost produce prices -K : < prices.txt
      fencepost consume invoices -e --json | fencepost produce copy --format json
      fencepost produce --format json --transaction < records.jsonl     several topics, all or nothing
    """
    from fencepost.errors import ConfigError
    from fencepost.lines.parsing import JsonLines, TextLines, parse_delimiter, parse_headers
    from fencepost.lines.producing import Producing

    if topic is None and shape == "lines":
        raise ConfigError("name a TOPIC: only lines of JSON name their own")
    if shape == "json" and (key is not None or key_delimiter is not None or empty_is_null):
        raise ConfigError("-k, -K and -Z are for lines of text: a line of JSON has its key and value")
    if key is not None and key_delimiter is not None:
        raise ConfigError("use either -k or -K, not both")
    split_at = None if key_delimiter is None else parse_delimiter(key_delimiter, "-K")
    fixed = parse_headers(headers)
    reader = (
        JsonLines(fixed)
        if shape == "json"
        else TextLines(split_at, None if key is None else os.fsencode(key), fixed, empty_is_null)
    )
    if topic is not None:
        cluster.refresh([topic])  # a wrong name fails before anything is read
    producing = Producing(cluster, _order(topic, **more))
    code = _run(producing, reader, parse_delimiter(delimiter, "-D"))
    if code == 0:
        print_found(sorted(producing.written.items()), as_json, _written_as_dict, _written)
    return code


def _order(
    topic: str | None,
    partition: str | None,
    compression: str,
    acks: str,
    transaction: bool,
    transactional_id: str | None,
    transaction_timeout: int,
) -> Any:
    import uuid

    from fencepost.client.identity import MADE_UP_IDS
    from fencepost.client.produce_parts import ACKS_ALL, ACKS_LEADER
    from fencepost.errors import ConfigError
    from fencepost.lines.producing import Order, Placing
    from fencepost.wire.compression import Compression

    placing: Placing | int = Placing.OWN
    if partition == "key":
        placing = Placing.BY_KEY
    elif partition is not None:
        if not partition.isdecimal():
            raise ConfigError(f"-p takes a number, or key, not {partition!r}")
        placing = int(partition)
    if transaction and transactional_id is None:
        transactional_id = f"{MADE_UP_IDS}{uuid.uuid4()}"
    return Order(
        topic,
        placing,
        Compression[compression.upper()],
        ACKS_ALL if acks == "all" else ACKS_LEADER,
        transactional_id,
        transaction_timeout * 1000,
    )


def _run(producing: Any, reader: Any, delimiter: bytes) -> int:
    """The exit code. An error in the input says in which line, and what was written before it."""
    from fencepost.errors import ConfigError, FencepostError, TopicNotFound
    from fencepost.lines.parsing import Pause, split
    from fencepost.wording import plural

    number = 0
    try:
        for each in split(sys.stdin.buffer, delimiter):
            if isinstance(each, Pause):
                producing.flush()
                continue
            number = each.number
            producing.add(reader.draft(each.line))
        producing.finish()
    except (ConfigError, TopicNotFound) as error:
        producing.give_up()
        click.echo(visible(f"Error: line {number}: {error}. {_fate(producing)}"), err=True)
        return FAILED if isinstance(error, ConfigError) else code_of(error)
    except FencepostError as error:
        producing.give_up()
        count = _count(producing)
        if producing.is_transactional or not count:
            raise
        were = "was" if count == 1 else "were"
        click.echo(visible(f"Error: {plural(count, 'record')} {were} written, then: {error}"), err=True)
        return code_of(error)
    except BaseException:
        producing.give_up()
        raise
    return 0


def _fate(producing: Any) -> str:
    from fencepost.wording import plural

    if producing.is_transactional:
        return "Nothing was written: the transaction was aborted"
    count = _count(producing)
    return f"Written before it: {plural(count, 'record')}" if count else "Nothing was written"


def _count(producing: Any) -> int:
    return sum(each.records for each in producing.written.values())


def _written(found: Any) -> list[str]:
    from fencepost.wording import plural

    if not found:
        return ["no records"]
    return [
        f"{where.topic} partition {where.partition}: {plural(each.records, 'record')} at "
        + (f"offset {first}" if first == (last := each.last_offset) else f"offsets {first} to {last}")
        for where, each in found
        for first in (each.first_offset,)
    ]


def _written_as_dict(found: Any) -> dict[str, Any]:
    where, each = found
    return {
        "topic": where.topic,
        "partition": where.partition,
        "records": each.records,
        "first_offset": each.first_offset,
        "last_offset": each.last_offset,
    }
