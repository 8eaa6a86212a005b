"""The `fencepost` command. Until the arguments are read, it imports only what reading them takes."""

import contextlib
import difflib
import functools
import importlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from fencepost import __version__
from fencepost.cli.groups import Group
from fencepost.cli.options import parse_assignments

LOG_LEVELS = ("debug", "info", "warning", "error")
#: Commands in modules of their own, `fencepost.cli.NAME`, which are imported on use; and their line in `-h`.
LATE = {
    "completion": "Print the script that completes commands and names in bash, zsh or fish.",
    "consume": "Read records: format strings, offsets and times, filters, aborted and open transactions.",
    "doctor": "Check this machine, and whether a cluster is fit for exactly-once.",
    "group": "Look at consumer groups with their true lag, move and delete them.",
    "log": "Look into a broker's files: records, indexes, producers, internal topics.",
    "produce": "Write records from lines or JSON, also in one transaction.",
    "topic": "Look at topics, create, change and delete them.",
    "chaos": "Run clients under random faults, then check Kafka's guarantees.",
    "console": "Open a live page about a cluster: transactions, logs, records, groups, pipelines.",
    "dead-letters": "Look at records that a pipeline could not write, and write them again.",
    "pipeline": "Look at pipelines, move or delete them: last batch, lag, state, reset.",
    "scenarios": "Play failures that must do no harm, and show what happens.",
    "shop": "Turn purchases into invoices and shipments on Spark, exactly once, in one command.",
    "tx": "Look at transactions, and end those that hold up readers: ls, why, hanging, abort, watch.",
    "verify": "Check the shop's result from outside.",
}


class _Group(Group):
    """Lists the late commands without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *LATE})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in LATE:
            return super().get_command(ctx, cmd_name)

        name = cmd_name.replace("-", "_")
        command = getattr(importlib.import_module(f"fencepost.cli.{name}"), name)
        return command if isinstance(command, click.Command) else None

    def main(self, *arguments: Any, **more: Any) -> Any:
        if "_FENCEPOST_COMPLETE" in os.environ:
            from fencepost.cli.completion import prepare

            prepare()
        return super().main(*arguments, **more)

    def line_of(self, ctx: click.Context, name: str) -> str:
        return LATE[name] if name in LATE else super().line_of(ctx, name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            near = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1)  # click knows no late ones
            if not near:
                raise
            raise click.UsageError(f"No such command {args[0]!r}. Did you mean {near[0]!r}?", ctx) from None


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="fencepost")
def main() -> None:
    """Exactly-once stream processing: a transactional Kafka in one process, and pipelines on Spark.

    \b
    Examples:
      fencepost up ./data                               a broker on localhost:9092
      fencepost topic ls -b kafka:9092                  look at any Kafka
      fencepost consume invoices -o -10 -e -b kafka:9092
      fencepost tx why invoices -b kafka:9092           why a reader stands still
    """


@main.command()
@click.argument("directory", metavar="[DIR]", required=False, type=click.Path(file_okay=False, path_type=Path))
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0 for all.")
@click.option(
    "--port", default=9092, show_default=True, type=click.IntRange(0, 65535), help="The port; 0 for a free one."
)
@click.option(
    "--set", "assignments", metavar="NAME=VALUE", multiple=True, help="A broker setting, by Kafka's name. Repeatable."
)
@click.option(
    "--log-level", default="info", show_default=True, type=click.Choice(LOG_LEVELS), help="Log level on stderr."
)
@click.option(
    "--secure",
    is_flag=True,
    help="TLS and a login (SASL_SSL, SCRAM): makes certificates and a user in DIR/security, and prints the settings "
    "that clients need.",
)
@click.option("--security", hidden=True, help="--secure with another protocol.")
@click.option(
    "--add-user",
    "added",
    metavar="NAME=PASSWORD",
    multiple=True,
    help="A user of SCRAM, or a new password. Repeatable.",
)
@click.option(
    "--metrics",
    metavar="[HOST:]PORT",
    help="Serve Prometheus metrics at http://HOST:PORT/metrics, without a login; 127.0.0.1 unless told otherwise.",
)
@click.option(
    "--console",
    metavar="[HOST:PORT]",
    is_flag=False,
    flag_value="127.0.0.1:9094",
    help="Also serve a live page about this broker (fencepost console).  [default: 127.0.0.1:9094]",
)
@click.option("--owner", type=int, hidden=True, help="The parent's process id: stop when it is gone.")
@click.option("--temporary", is_flag=True, hidden=True, help="Remove DIR when the owner is gone.")
def up(
    directory: Path | None,
    host: str,
    port: int,
    assignments: tuple[str, ...],
    log_level: str,
    secure: bool,
    security: str | None,
    added: tuple[str, ...],
    metrics: str | None,
    console: str | None,
    owner: int | None,
    temporary: bool,
) -> None:
    """Run a broker until SIGTERM or Ctrl-C.

    Data is kept in DIR, which is created if needed. Without DIR, data is temporary and removed at exit.
    Once connections are accepted, the first line on standard output is "listening on HOST:PORT".

    \b
    Examples:
      fencepost up                                  temporary data, port 9092
      fencepost up ./data                           keep the data
      fencepost up --port 0                         a free port, for tests
      fencepost up ./data --metrics 9464            with metrics at http://127.0.0.1:9464/metrics
      fencepost up ./data --secure                  TLS and a login, with all that clients need
      fencepost up ./data --console                 with a live page on http://127.0.0.1:9094
      fencepost up ./data --set num.partitions=4 --set log.retention.hours=24
      fencepost up ./data --set log.flush.interval.messages=9223372036854775807
                                                    faster; data survives kill -9, but not a power failure
    """
    from fencepost.broker.settings import Settings
    from fencepost.cli.greeting import greet, greet_secured, with_console
    from fencepost.cli.serve import Owner, serve
    from fencepost.embedded import SETTINGS_VARIABLE
    from fencepost.errors import ConfigError
    from fencepost.metrics.address import parse_metrics_address
    from fencepost.security.names import Protocol
    from fencepost.security.quick import prepare

    given = json.loads(os.environ.get(SETTINGS_VARIABLE, "{}")) if owner is not None else {}
    given |= parse_assignments(assignments)
    users = parse_assignments(added, "--add-user", are_secret=True)
    owned_by = Owner(owner, takes_data_along=temporary) if owner is not None else None
    with _data_directory(directory) as path:
        greeting: Callable[[Any], str] = greet
        quick = None
        try:
            if secure or security:
                quick = prepare(path / "security", Protocol.parse(security or "SASL_SSL", "--security"), host)
                given = quick.broker_settings(host, port) | given
                users = {quick.user: quick.password, **users}
                greeting = functools.partial(greet_secured, quick) if secure else greet
            settings = Settings.parse(given)
            address = None if metrics is None else parse_metrics_address(metrics, "--metrics")
            if console is not None:
                greeting = with_console(greeting, console, quick)
        except ConfigError as error:
            raise click.UsageError(str(error)) from None
        problem = serve(
            *(path, settings, host, port),
            log_level=log_level,
            owner=owned_by,
            users=users,
            metrics=address,
            greeting=greeting,
        )
    if problem is not None:
        raise click.ClickException(problem)


@contextlib.contextmanager
def _data_directory(directory: Path | None) -> Iterator[Path]:
    if directory is not None:
        yield directory.absolute()
        return
    import shutil
    import tempfile

    temporary = Path(tempfile.mkdtemp(prefix="fencepost-"))
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
