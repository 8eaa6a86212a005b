"""What the options of several commands have in common, and the check that their packages are installed.

Owns how a command is told about a cluster. Invariant: what a command gets has been checked, files included, and no
error repeats a value that may be a password.
"""

import difflib
import functools
import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

DIRECTORY = click.Path(file_okay=False, path_type=Path)
EXISTING_DIRECTORY = click.Path(exists=True, file_okay=False, path_type=Path)
EXISTING_FILE = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)
BOOTSTRAP, PROTOCOL = "bootstrap.servers", "security.protocol"

Command = Callable[..., Any]


def cluster_options(bootstrap: str, default: str | None = None) -> Callable[[Command], Command]:
    """`--bootstrap`, `--command-config` and `-X`, as one argument `cluster`: Kafka's settings, or None without any.

    `bootstrap` is the help of `--bootstrap`, `default` the address if nothing names one.
    """

    def decorate(command: Command) -> Command:
        @click.option(
            "-b", "--bootstrap", metavar="HOST:PORT", help=bootstrap + (f"  [default: {default}]" if default else "")
        )
        @click.option(
            "--command-config",
            metavar="FILE",
            type=EXISTING_FILE,
            help="How to connect to that cluster: a properties file, as Kafka's own tools take it "
            "(security.protocol, sasl.*, ssl.*).",
        )
        @click.option(
            "-X",
            "assignments",
            metavar="NAME=VALUE",
            multiple=True,
            help="One such setting, over the file's. Repeatable. Others on this machine can see it, so write a "
            "password as ${env:NAME} or ${file:PATH:KEY}.",
        )
        @functools.wraps(command)
        def checked(
            *arguments: Any,
            bootstrap: str | None,
            command_config: Path | None,
            assignments: tuple[str, ...],
            **more: Any,
        ) -> Any:
            return command(
                *arguments, cluster=connection_settings(bootstrap, command_config, assignments, default), **more
            )

        return checked

    return decorate


#: For commands that start ours or Apache Kafka.
secure_option = click.option(
    "--secure",
    is_flag=True,
    help="Start brokers with TLS and a login (SASL_SSL with SCRAM), and with Apache Kafka's authorizer.",
)


def connection_settings(
    bootstrap: str | None, command_config: Path | None, assignments: tuple[str, ...], default: str | None
) -> dict[str, str] | None:
    """Kafka's settings of a client, `bootstrap.servers` among them. Those that no client here reads are left out."""
    from fencepost.client.settings import NAMES, ClientSettings
    from fencepost.errors import ConfigError

    given = _read(command_config) if command_config is not None else {}
    given |= parse_assignments(assignments, "-X", are_secret=True)
    if bootstrap is not None:
        given[BOOTSTRAP] = bootstrap
    if not given.get(BOOTSTRAP, "").strip():
        if given and default is None:
            raise click.UsageError(f"{', '.join(given)}: which cluster is that for? Give --bootstrap HOST:PORT as well")
        if default is None:
            return None
        given[BOOTSTRAP] = default
    try:
        security = ClientSettings.parse(given).security
        _refuse_slips(given)
        security.check()
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    return {name: given[name] for name in NAMES if name in given} | dict(security.given)


def _read(path: Path) -> dict[str, str]:
    import javaproperties

    try:
        with path.open(encoding="utf-8") as file:
            return javaproperties.load(file)
    except ValueError:  # its text may quote the file
        raise click.UsageError(f"--command-config: {path} is not a properties file in UTF-8") from None
    except OSError as error:
        raise click.UsageError(f"--command-config: {path}: {error.strerror}") from None


def _refuse_slips(given: Mapping[str, str]) -> None:
    """What would connect without security although it was asked for, or with less of it."""
    from fencepost.errors import ConfigError
    from fencepost.security import names

    for name in given:
        near = difflib.get_close_matches(name, names.ROWS, n=1, cutoff=0.85)
        if near and not names.is_security(name):
            raise ConfigError(f"Kafka has no setting {name}; did you mean {near[0]}?")
    without = [name for name in given if names.is_security(name)]
    if without and PROTOCOL not in given:
        raise ConfigError(
            f"{PROTOCOL} is missing: without it {without[0]} has no effect. Set it to {', '.join(names.PROTOCOLS[1:])}"
        )


def parse_assignments(
    assignments: tuple[str, ...], option: str = "--set", *, are_secret: bool = False
) -> dict[str, str]:
    given: dict[str, str] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name.strip():
            raise click.UsageError(f"{option} takes NAME=VALUE" + ("" if are_secret else f", not {assignment!r}"))
        given[name.strip()] = value.strip()
    return given


def check_target(cluster: Mapping[str, str] | None, kafka_lib: Path | None, *, secure: bool) -> None:
    """A command of the lab uses one cluster that runs, or starts brokers."""
    if cluster is not None and kafka_lib is not None:
        raise click.UsageError("use either --bootstrap or --kafka-lib, not both")
    check_secure(cluster, secure=secure)


def check_secure(cluster: Mapping[str, str] | None, *, secure: bool) -> None:
    if not secure:
        return
    if cluster is not None:
        raise click.UsageError(
            "--secure is for a broker that this command starts; describe your cluster with --command-config or -X"
        )
    check_installed({"cryptography": "cryptography"}, "security")


def check_installed(packages: Mapping[str, str], extra: str) -> None:
    """`packages` are names on PyPI, by the module that is imported."""
    missing = [package for module, package in packages.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise click.ClickException(f"not installed: {', '.join(missing)}. Run: pip install 'fencepost[{extra}]'")
