"""Commands that look at a cluster: they get an open `Cluster`, and our errors become messages and exit codes.

A reader that goes away (`| head`) and Ctrl-C end a command without a word.
"""

import contextlib
import errno
import functools
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import click

from fencepost.cli.options import cluster_options
from fencepost.cli.tables import visible

Command = Callable[..., Any]
T = TypeVar("T")

FAILED, UNKNOWN, NOT_SO = 1, 3, 4
#: As shells have it: 128 and the number of SIGINT.
INTERRUPTED = 130
#: What writing to a disk fails with.
DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG})
#: Parameters that become bytes of records, or are compared with them. Headers are checked where they are taken apart.
MAY_BE_BYTES = frozenset({"key", "keys", "values", "headers", "key_delimiter", "delimiter", "template"})
#: How many there can be of something that the protocol counts in 32 bits.
COUNT = click.IntRange(1, 2**31 - 1)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Only show what would be done.")


def print_found(
    found: Sequence[T], as_json: bool, as_dict: Callable[[T], Any], table: Callable[[Sequence[T]], Any]
) -> None:
    """Print what was found: one object a line, or a table."""
    for line in (json.dumps(as_dict(each)) for each in found) if as_json else table(found):
        click.echo(visible(line))


def print_one(found: Mapping[str, Any], as_json: bool, text: str | Sequence[str]) -> None:
    """Print one object, or what people read of it."""
    lines = [json.dumps(found)] if as_json else [text] if isinstance(text, str) else text
    for line in lines:
        click.echo(visible(line))


def code_of(error: Exception) -> int:
    """The exit code of commands that name a topic or a group."""
    from fencepost.errors import TopicNotFound, UnknownGroup

    return UNKNOWN if isinstance(error, TopicNotFound | UnknownGroup) else FAILED


def _hint(cluster: Any, missing: str | None) -> str:
    """What to do about a topic that does not exist."""
    import difflib

    from fencepost.errors import FencepostError

    if missing is None:
        return ""
    with contextlib.suppress(FencepostError):
        near = difflib.get_close_matches(missing, [*cluster.refresh()], n=3)
        if near:
            return f"; did you mean {' or '.join(near)}?"
    return ". See: fencepost topic ls"


@contextlib.contextmanager
def quiet_end() -> Iterator[None]:
    """A reader that went away has had enough: that is no error. Ctrl-C leaves no traceback."""
    try:
        yield
    except BrokenPipeError:
        _forget_output()
        sys.exit(0)
    except OSError as error:
        if error.errno not in DISK_ERRORS:
            raise
        _forget_output()
        click.echo(f"Error: the output cannot be written: {error.strerror}", err=True)
        sys.exit(FAILED)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _forget_output() -> None:
    """Or Python complains when it flushes at exit."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def refuse_odd_names(given: Mapping[str, Any]) -> None:
    """A word whose bytes are not UTF-8 names nothing in Kafka. Keys, values and formats may be any bytes."""
    for name, value in given.items():
        for word in value if isinstance(value, tuple) else (value,):
            if name not in MAY_BE_BYTES and isinstance(word, str) and not is_utf8(word):
                raise click.UsageError(f"{os.fsencode(word)!r} is not UTF-8, so it names nothing in Kafka")


def is_utf8(word: str) -> bool:
    """Python keeps an argument's other bytes as halves of surrogate pairs."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def on_cluster(which: str, codes: Callable[[Exception], int] | None = None) -> Callable[[Command], Command]:
    """Adds the options that name the cluster; `which` describes it. The command gets it as `cluster`.

    The command returns its exit code, or nothing. `codes` gives that of an error, 1 by default. A wrong option is a
    usage error.
    """

    def decorate(command: Command) -> Command:
        @cluster_options(which, default="localhost:9092")
        @functools.wraps(command)
        def run(*arguments: Any, cluster: Mapping[str, str], **more: Any) -> None:
            from fencepost.client.cluster import Cluster
            from fencepost.errors import ConfigError, FencepostError, TopicNotFound

            refuse_odd_names(more)
            try:
                with quiet_end(), Cluster(cluster) as opened:
                    opened.refresh([])  # a wrong address fails at once
                    try:
                        code = command(*arguments, cluster=opened, **more)
                    except TopicNotFound as error:
                        raise TopicNotFound(f"{error}{_hint(opened, error.topic)}") from None
                    sys.exit(code or 0)
            except ConfigError as error:
                raise click.UsageError(str(error)) from None
            except FencepostError as error:
                click.echo(visible(f"Error: {error}"), err=True)
                sys.exit(FAILED if codes is None else codes(error))

        return run

    return decorate
