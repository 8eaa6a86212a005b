"""`fencepost scenarios`: lists the failure scenarios, plays them and prints what happened."""

import json
import random
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fencepost.cli.groups import Group
from fencepost.cli.options import EXISTING_DIRECTORY, check_installed, check_target, cluster_options, secure_option
from fencepost.errors import FencepostError

if TYPE_CHECKING:
    from fencepost.lab.kit.target import Target
    from fencepost.lab.scenarios.scenario import Scenario
    from fencepost.lab.scenarios.story import Item, Listener, Result

NEEDED = {"confluent_kafka": "confluent-kafka", "pyarrow": "pyarrow", "rich": "rich"}
WIDTH = 100
ENDINGS = {"right": "✓", "wrong": "✗", "broken": "✗", "skipped": "–"}
STYLES = {"right": "green", "wrong": "bold red", "broken": "bold red", "skipped": "yellow"}


@click.group(cls=Group)
def scenarios() -> None:
    """Play failures that must do no harm, and show step by step what happens.

    \b
    Examples:
      fencepost scenarios ls
      fencepost scenarios run zombie
      fencepost scenarios run 5 --kafka-lib .cache/kafka/lib     number 5 on three Kafka nodes
      fencepost scenarios run --all --seed 7 --json
      fencepost scenarios run zombie --secure                    over TLS, with a login
      fencepost scenarios run --all --bootstrap localhost:9092   all that leave the broker alone
      fencepost scenarios run --all --bootstrap kafka.example.org:9093 --command-config client.properties
    """


@scenarios.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def ls(as_json: bool) -> None:
    """List the scenarios: number, name, what happens.

    \b
    Example:
      fencepost scenarios ls --json
    """
    from fencepost.lab.scenarios.catalogue import scenarios as known

    found = known()
    if as_json:
        for each in found:
            print(json.dumps({"number": each.number, "name": each.name, "line": each.line, "says": each.says}))
        return
    width = max(len(scenario.name) for scenario in found)
    for scenario in found:
        print(f"{scenario.number}  {scenario.name:<{width}}  {scenario.line}")


@scenarios.command()
@click.argument("names", nargs=-1, metavar="NAME...")
@click.option("--all", "play_all", is_flag=True, help="Play every scenario.")
@cluster_options("Use this cluster. Its brokers are not killed or paused.")
@click.option(
    "--kafka-lib",
    metavar="DIR",
    type=EXISTING_DIRECTORY,
    help="Start Apache Kafka from the jars in DIR, with three nodes for number 5.",
)
@secure_option
@click.option("--seed", type=click.IntRange(0), help="Seed of the random choices.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as one JSON object, in one line.")
def run(
    names: tuple[str, ...],
    play_all: bool,
    cluster: Mapping[str, str] | None,
    kafka_lib: Path | None,
    secure: bool,
    seed: int | None,
    as_json: bool,
) -> None:
    """Play scenarios by NAME or number. Exits with 1 if any of them failed.

    Without --bootstrap or --kafka-lib a fencepost broker is started, with temporary data.

    \b
    Examples:
      fencepost scenarios run zombie
      fencepost scenarios run --all --seed 7 --json
    """
    from fencepost.lab.kit.target import Target
    from fencepost.lab.scenarios.catalogue import choose
    from fencepost.lab.scenarios.catalogue import scenarios as known
    from fencepost.lab.scenarios.play import Player, Settings

    check_target(cluster, kafka_lib, secure=secure)
    if play_all == bool(names):
        raise click.UsageError("give the scenarios' names, or --all")
    check_installed(NEEDED, "shop")
    chosen_seed = seed if seed is not None else random.SystemRandom().randrange(2**31)
    display = _Silent() if as_json else _Display()
    before = {number: signal.signal(number, _stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        chosen = known() if play_all else choose(names)
        target = Target(cluster, kafka_lib, secure)
        results = Player(Settings(chosen_seed, target), display.start, display.end).play(chosen)
    except FencepostError as error:
        raise click.ClickException(str(error)) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if as_json:
        print(json.dumps({"seed": chosen_seed, "scenarios": [result.as_dict() for result in results]}))
    else:
        display.sum_up(results, chosen_seed, target)
    sys.exit(1 if any(result.failed for result in results) else 0)


def _stop(number: int, frame: object) -> None:
    """Exit as an exception, so that everything that was started is stopped first."""
    sys.exit(128 + number)


def _lines(text: str) -> list[str]:
    """Long facts are lists, so lines are broken between items."""
    lines: list[str] = []
    for part in text.split("; "):
        if lines and len(lines[-1]) + len(part) < WIDTH:
            lines[-1] += f"; {part}"
        else:
            lines.append(part)
    return lines


class _Silent:
    """For JSON, which is printed at the end."""

    def start(self, scenario: "Scenario") -> "Listener":
        return lambda item: None

    def end(self, result: "Result") -> None: ...

    def sum_up(self, results: "list[Result]", seed: int, target: "Target") -> None: ...


class _Display(_Silent):
    """Shows steps, facts and checks as they happen, in colour on a terminal."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(highlight=False, soft_wrap=True)

    def start(self, scenario: "Scenario") -> "Listener":
        self._print(f"{scenario.number}  {scenario.name}", "bold")
        self._print(f"   {scenario.line}.")
        self._print(f"   {scenario.says}", "dim")
        return self._item

    def _item(self, item: "Item") -> None:
        from fencepost.lab.scenarios.story import Fact, Step

        if isinstance(item, Step):
            self._print(f"{item.number:3}. {item.text}", "cyan")
        elif isinstance(item, Fact):
            for number, line in enumerate(_lines(item.text)):
                self._print(f"       {'' if number else item.kind.value:<8} {line}", "dim")
        elif item.holds:
            self._print(f"     ✓ {item.text}", "green")
        else:
            self._print(f"     ✗ {item.text}{': ' if item.seen else ''}{item.seen}", "bold red")

    def end(self, result: "Result") -> None:
        held = sum(check.holds for check in result.checks)
        words = {
            "right": f"{held} checks hold",
            "wrong": f"{len(result.checks) - held} of {len(result.checks)} checks failed",
            "broken": f"could not be played: {result.reason}",
            "skipped": f"skipped: {result.reason}",
        }[result.ending.value]
        mark, style = ENDINGS[result.ending.value], STYLES[result.ending.value]
        self._print(f" {mark} {result.name}: {words} ({result.seconds:.1f} s)\n", style)

    def sum_up(self, results: "list[Result]", seed: int, target: "Target") -> None:
        counts: dict[str, int] = {}
        for result in results:
            counts[result.ending.value] = counts.get(result.ending.value, 0) + 1
        self._print(", ".join(f"{count} {ending}" for ending, count in counts.items()) + f"; seed {seed}", "bold")
        for result in results:
            if result.failed:
                words = " ".join([result.name, f"--seed {seed}", *target.words])
                self._print(f" ✗ {result.name}  run it again: fencepost scenarios run {words}")

    def _print(self, text: str, style: Any = None) -> None:
        from rich.text import Text

        self._console.print(Text(text, style=style or ""))
