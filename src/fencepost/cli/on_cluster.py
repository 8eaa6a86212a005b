"""Commands that look at a cluster: they get an open `Cluster`, and our errors become messages and exit codes."""

import functools
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from fencepost.cli.options import cluster_options

Command = Callable[..., Any]
T = TypeVar("T")

FAILED = 1
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")


def print_found(
    found: Sequence[T], as_json: bool, as_dict: Callable[[T], Any], table: Callable[[Sequence[T]], Any]
) -> None:
    """Print what was found: one object a line, or a table."""
    for line in (json.dumps(as_dict(each)) for each in found) if as_json else table(found):
        click.echo(line)


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
            from fencepost.errors import ConfigError, FencepostError

            try:
                with Cluster(cluster) as opened:
                    opened.refresh([])  # a wrong address fails at once
                    sys.exit(command(*arguments, cluster=opened, **more) or 0)
            except ConfigError as error:
                raise click.UsageError(str(error)) from None
            except FencepostError as error:
                click.echo(f"Error: {error}", err=True)
                sys.exit(FAILED if codes is None else codes(error))

        return run

    return decorate
