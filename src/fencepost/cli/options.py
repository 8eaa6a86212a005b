"""What the options of several commands have in common, and the check that their packages are installed."""

import importlib.util
from collections.abc import Mapping
from pathlib import Path

import click

DIRECTORY = click.Path(file_okay=False, path_type=Path)
EXISTING_DIRECTORY = click.Path(exists=True, file_okay=False, path_type=Path)


def check_cluster(bootstrap: str | None, kafka_lib: Path | None) -> None:
    if bootstrap and kafka_lib:
        raise click.UsageError("use either --bootstrap or --kafka-lib, not both")


def check_installed(packages: Mapping[str, str], extra: str) -> None:
    """`packages` are names on PyPI, by the module that is imported."""
    missing = [package for module, package in packages.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise click.ClickException(f"not installed: {', '.join(missing)}. Run: pip install 'fencepost[{extra}]'")
