"""`fencepost chaos`: its options, its progress display and its result."""

import json
import random
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fencepost.cli.options import (
    DIRECTORY,
    EXISTING_DIRECTORY,
    check_installed,
    check_target,
    cluster_options,
    secure_option,
)
from fencepost.errors import FencepostError

if TYPE_CHECKING:
    from fencepost.lab.chaos.plan import Family
    from fencepost.lab.chaos.run import Progress

#: Without a terminal, progress is a line at this interval.
LINE_INTERVAL_S = 10.0
NEEDED = {"confluent_kafka": "confluent-kafka", "kafka": "kafka-python"}


@click.command()
@click.option("--seconds", default=60.0, show_default=True, type=click.FloatRange(1), help="How long to inject faults.")
@click.option("--seed", type=click.IntRange(0), help="Repeat the workload and the faults of an earlier run.")
@cluster_options("Use this cluster, with client and network faults only.")
@click.option(
    "--kafka-lib",
    metavar="DIR",
    type=EXISTING_DIRECTORY,
    help="Start Apache Kafka from the jars in DIR, and kill and pause its broker too.",
)
@secure_option
@click.option("--faults", default="kill,pause,net", show_default=True, help="Kinds of faults, or none.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object, in one line.")
@click.option(
    "--history",
    metavar="DIR",
    type=DIRECTORY,
    help="Keep the history in DIR. Without it, the history is kept only if an anomaly was found.",
)
@click.option("--check", metavar="DIR", type=EXISTING_DIRECTORY, help="Only check the history in DIR.")
def chaos(
    seconds: float,
    seed: int | None,
    cluster: Mapping[str, str] | None,
    kafka_lib: Path | None,
    secure: bool,
    faults: str,
    as_json: bool,
    history: Path | None,
    check: Path | None,
) -> None:
    """Run producers, loops and readers under random faults, then check Kafka's guarantees.

    Without --bootstrap or --kafka-lib a fencepost broker is started, with temporary data.
    Exits with 1 if an anomaly was found. Then the history is kept, and the seed is printed.

    \b
    Examples:
      fencepost chaos --seconds 600
      fencepost chaos --faults net,pause --seed 42
      fencepost chaos --secure --seconds 600
      fencepost chaos --bootstrap localhost:9092
      fencepost chaos --bootstrap kafka.example.org:9093 --command-config client.properties
      fencepost chaos --kafka-lib .cache/kafka/lib --seconds 300
    """
    from fencepost.lab.chaos.run import Run, Settings, check_only
    from fencepost.lab.kit.target import Target

    check_target(cluster, kafka_lib, secure=secure)
    try:
        if check is not None:
            result = check_only(check)
        else:
            check_installed(NEEDED, "chaos")
            chosen = seed if seed is not None else random.SystemRandom().randrange(2**31)
            click.echo(f"seed {chosen}", err=True)
            settings = Settings(seconds, chosen, _families(faults), history, Target(cluster, kafka_lib, secure))
            display = _Display()
            try:
                result = Run(settings, display.show).execute()
            finally:
                display.close()
    except FencepostError as error:
        raise click.ClickException(str(error)) from None
    if as_json:
        print(json.dumps(result.as_dict()))
    else:
        print("\n".join(result.lines()))
    sys.exit(1 if result.anomalies else 0)


def _families(words: str) -> "frozenset[Family]":
    from fencepost.lab.chaos.plan import Family

    if words.strip() == "none":
        return frozenset()
    try:
        return frozenset(Family(word.strip()) for word in words.split(","))
    except ValueError as error:
        raise click.UsageError(f"--faults: {error}; choose from {', '.join(Family)}") from None


class _Display:
    """One line that is redrawn; without a terminal, a new line at an interval."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._told_s = float("-inf")

    def show(self, progress: "Progress") -> None:
        now_s = time.monotonic()
        if not self._is_terminal and now_s - self._told_s < LINE_INTERVAL_S:
            return
        self._told_s = now_s
        line = (
            f"{progress.elapsed_s:5.0f} s  {progress.ops:,} ops ({progress.ops_per_s:.0f}/s)  transactions: "
            f"{progress.committed:,} committed, {progress.aborted:,} aborted, {progress.unknown:,} unknown  "
            f"fault: {progress.phase}"
        )
        if self._is_terminal:
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)

    def close(self) -> None:
        if self._is_terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
