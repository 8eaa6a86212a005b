"""`fencepost log`: look into a broker's files. Only words and exit codes; `dump` does the work."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from fencepost.cli.groups import Group
from fencepost.cli.on_cluster import FAILED, NOT_SO, json_option, quiet_end
from fencepost.cli.options import EXISTING_FILE

EXIT_CODES = """\b
Exit codes:
  0  done
  1  a file cannot be read
  2  wrong arguments
  4  a file is damaged: a wrong checksum, a batch that is cut off, an index that does not fit its log"""


@click.group(cls=Group, epilog=EXIT_CODES)
def log() -> None:
    """Look into a broker's files, of fencepost or Apache Kafka. No broker is needed, and nothing is changed.

    \b
    Example:
      fencepost log dump --records data/invoices-0/00000000000000000000.log
    """


@log.command(epilog=EXIT_CODES)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=EXISTING_FILE)
@click.option("-r", "--records", is_flag=True, help="Every record, too. Internal topics are decoded.")
@click.option("--topic", help="Whose log it is, if the directory's name (TOPIC-PARTITION) does not tell.")
@json_option
def dump(files: tuple[Path, ...], records: bool, topic: str | None, as_json: bool) -> None:
    """Print what is in files of partitions: batches, records and markers, indexes, producers, leader epochs.

    FILE is a .log, .index, .timeindex, .txnindex or .snapshot file, a leader-epoch-checkpoint or a partition.metadata.
    With --records the records of __transaction_state, __consumer_offsets and fencepost.ledger are decoded.

    \b
    Examples:
      fencepost log dump data/invoices-0/00000000000000000000.log
      fencepost log dump --records data/__transaction_state-*/*.log
      fencepost log dump --json data/invoices-0/*.txnindex
    """
    import sys

    from fencepost.errors import ConfigError, FencepostError

    is_damaged = False
    with quiet_end():
        for path in files:
            if len(files) > 1 and not as_json:
                click.echo(f"== {path}")
            try:
                for line, is_good in _lines(path, topic or _topic_of(path), records, as_json):
                    click.echo(line)
                    is_damaged = is_damaged or not is_good
            except ConfigError as error:
                raise click.UsageError(f"{path}: {error}") from None
            except FencepostError as error:
                click.echo(f"Error: {path}: {error}", err=True)
                is_damaged = True
            except OSError as error:
                if error.filename is None:  # it is about the output
                    raise
                click.echo(f"Error: {path}: {error.strerror}", err=True)
                sys.exit(FAILED)
    sys.exit(NOT_SO if is_damaged else 0)


def _topic_of(path: Path) -> str:
    return path.absolute().parent.name.rpartition("-")[0]


def _lines(path: Path, topic: str, records: bool, as_json: bool) -> Iterator[tuple[str, bool]]:
    from fencepost.cli import log_text as text
    from fencepost.dump.segments import read_batches

    if path.suffix == ".log":
        for found in read_batches(path, records=records):
            shown, is_good = text.batch_as_dict(found, topic), text.is_good(found)
            lines = [json.dumps({"file": str(path), **shown})] if as_json else text.batch(shown)
            for line in lines:
                yield line, is_good
        return
    for entry in _entries(path):
        shown = text.entry_as_dict(entry)
        yield json.dumps({"file": str(path), **shown}) if as_json else text.entry(shown), not shown.get("problem")


def _entries(path: Path) -> Iterator[Any]:
    from fencepost.dump import small_files as files
    from fencepost.errors import ConfigError

    readers: dict[str, Callable[[Path], Iterator[Any]]] = {
        ".index": files.read_index,
        ".timeindex": files.read_time_index,
        ".txnindex": files.read_txn_index,
        ".snapshot": files.read_snapshot,
    }
    named: dict[str, Callable[[Path], Iterator[Any]]] = {
        "leader-epoch-checkpoint": files.read_epochs,
        "partition.metadata": files.read_topic_id,
    }
    reader = named.get(path.name) or readers.get(path.suffix)
    if reader is None:
        raise ConfigError(f"it is none of {', '.join(['.log', *readers, *named])}")
    return reader(path)
