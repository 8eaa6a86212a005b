"""`fencepost console`: a page in the browser that shows a cluster while it works."""

import os
from collections.abc import Mapping
from pathlib import Path

import click

from fencepost.cli.options import EXISTING_FILE, check_installed, cluster_options

PACKAGES = {"starlette": "starlette", "uvicorn": "uvicorn"}
TOKEN_VARIABLE = "FENCEPOST_CONSOLE_TOKEN"


@click.command()
@cluster_options("The cluster to look at.", default="localhost:9092")
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default="127.0.0.1:9094",
    show_default=True,
    help="Where the page is. Port 0 for a free one.",
)
@click.option(
    "--token-file",
    type=EXISTING_FILE,
    help="A file with the token that a visitor needs. Beyond this machine there is always one: "
    f"this file's, that of {TOKEN_VARIABLE}, or a new one, which is printed.",
)
@click.option("--allow-changes", is_flag=True, help="The page may abort transactions. Otherwise it only looks.")
@click.option(
    "--allow-host", "names", metavar="NAME", multiple=True, help="Another name of this machine in the address bar."
)
@click.option("--beside-a-broker", is_flag=True, hidden=True, help="Started by `fencepost up --console`.")
def console(
    cluster: Mapping[str, str],
    listen: str,
    token_file: Path | None,
    allow_changes: bool,
    names: tuple[str, ...],
    beside_a_broker: bool,
) -> None:
    """Open a live page about a cluster: transactions, logs, records, groups, pipelines, topics.

    Works on any Kafka. The first line on standard output is "console on URL".

    \b
    Examples:
      fencepost console                                  the broker on this machine
      fencepost console -b kafka:9092 --allow-changes
      fencepost console -b kafka:9093 --command-config client.properties
      fencepost console --listen 0.0.0.0:9094 --token-file token.txt
    """
    check_installed(PACKAGES, "console")
    from fencepost.console.access import Changes
    from fencepost.console.server import Options, parse_listen, serve, with_token
    from fencepost.errors import ConfigError, FencepostError

    metrics_url = None
    if beside_a_broker:
        from fencepost.cli.beside import cluster_of_broker, end_with_broker, metrics_of_broker

        cluster, metrics_url = cluster_of_broker(), metrics_of_broker()
        end_with_broker()
    try:
        where = parse_listen(listen, "--listen")
        given = read_token(token_file)
        changes = Changes.ALLOWED if allow_changes else Changes.REFUSED
        options = with_token(Options(cluster, where, given, changes, names, metrics_url))
    except ConfigError as error:
        raise click.UsageError(str(error)) from None

    def started(url: str) -> None:
        click.echo(f"console on {url}")
        if options.token is not None and given is None:
            click.echo(f"token: {options.token}")

    try:
        serve(options, started)
    except OSError as error:
        raise click.ClickException(f"cannot listen on {where}: {error.strerror or error}") from None
    except FencepostError as error:
        raise click.ClickException(str(error)) from None
    except KeyboardInterrupt:  # uvicorn raises the signal again that stopped it
        pass


def read_token(path: Path | None) -> str | None:
    """None if no token was set. Raises ConfigError for one that is easily guessed."""
    from fencepost.errors import ConfigError

    try:
        given = path.read_text().strip() if path is not None else os.environ.get(TOKEN_VARIABLE)
    except (OSError, UnicodeDecodeError):
        raise ConfigError(f"--token-file {path} cannot be read as text") from None
    if given is not None and len(given) < 8:
        raise ConfigError("the console's token needs at least 8 characters")
    return given
