"""Lets systems race on one broker: empty outputs, one system at a time, its outputs checked, its rate told.

A run is one process from its start to the end of the input: its first two thirds warm it up. With several repetitions
the order turns, so that nobody always runs on the broker that somebody else has warmed.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.clients import streams
from bench.clients.perf import ToolFailed
from bench.harness import brokers, chart, java, memory
from bench.harness.brokers import Server
from bench.harness.report import Report, median, middle, ratio, spread
from bench.race import input as race_input
from bench.race.clock import Clock
from bench.race.contests import Contest
from bench.race.outputs import await_stable
from bench.race.systems import OURS, SPARKS, SparkJob, StreamsApplication, System
from bench.race.window import Window, window
from fencepost.child import Child
from fencepost.shop import PURCHASES

TIMEOUT_S = 900.0
#: A Kafka Streams application that writes nothing for so long, at commits every second, has come to the end. The wait
#: is not counted: the clock stops at the last record.
QUIET_S = 10.0
#: What the files of a run take of memory, and some more.
MEMORY_BYTES_PER_PURCHASE = 600
#: Counted batches of a system that commits in batches: a rate of fewer says little.
BATCHES_MIN = 3

COLUMNS = (
    *("broker", "system", "purchases/s", "ours is", "CPU s per million: JVM", "of that compilers", "Python", "broker "),
    *("all", "ours is ", "2nd half / 1st", "other cores"),
)


@dataclass(frozen=True, slots=True)
class Run:
    """How a system runs, the same for all."""

    batch: int
    cores: int
    partitions: int
    warm_up: float


def available(systems: dict[str, System], wanted: Sequence[str], report: Report) -> dict[str, System]:
    """Without what this machine does not have."""
    found = {name: systems[name] for name in wanted}
    if missing := java.connector_missing():
        left_out = [name for name, system in found.items() if isinstance(system, SparkJob) and system.system == SPARKS]
        found = {name: system for name, system in found.items() if name not in left_out}
        if left_out:
            report.notes.append(f"without Spark's own source and sink: {missing}")
    return found


def race(
    server: Server, contest: Contest, systems: dict[str, System], how: Run, repetitions: int
) -> dict[str, list[Window]]:
    found: dict[str, list[Window]] = {name: [] for name in systems}
    names = list(systems)
    for repetition in range(repetitions):
        turn = repetition % len(names)
        for name in names[turn:] + names[:turn]:
            print(f"{server.name}: {systems[name].title} …", file=sys.stderr, flush=True)
            found[name].append(run(server, contest, systems[name], how))
            print(f"  {found[name][-1].rate:,.0f} purchases/s", file=sys.stderr, flush=True)
    return found


def run(server: Server, contest: Contest, system: System, how: Run) -> Window:
    race_input.recreate(server, contest.topics, how.partitions, keep=(PURCHASES,))
    with memory.ready(round(MEMORY_BYTES_PER_PURCHASE * contest.work)):
        if isinstance(system, StreamsApplication):
            clock = _streams(server, contest, system, how)
        else:
            clock = _spark(server, contest, system, how)
    weights = contest.check(system.title, server)
    return window(clock.samples, weights, contest.work, how.warm_up)


def spark_command(job: str, server: Server, system: SparkJob, how: Run, words: Sequence[str]) -> list[str]:
    config = str(brokers.client_file(server, "spark"))
    return [
        *(sys.executable, "-m", "bench.clients.spark_job", job, "--system", system.system, "--config", config),
        *("--batch", str(how.batch), "--cores", str(how.cores), *system.words, *words),
    ]


def _spark(server: Server, contest: Contest, system: SparkJob, how: Run) -> Clock:
    said: list[str] = []
    with (
        tempfile.TemporaryDirectory(prefix="bench-race-") as home,
        Child(Path(home, "log"), system.title, on_line=said.append) as process,
    ):
        process.start(spark_command(contest.job, server, system, how, contest.job_words))
        with Clock(server, contest.topics, _roots(server, process)) as clock:
            clock.until(lambda: not process.is_running, TIMEOUT_S)
            await_stable(server, contest.topics)
            clock.until(lambda: True, TIMEOUT_S)
        if process.status != 0:
            raise ToolFailed(f"{system.title} on {server.name}:\n{''.join(said)[-1000:]}{process.said()}")
    return clock


def _streams(server: Server, contest: Contest, system: StreamsApplication, how: Run) -> Clock:
    with (
        streams.application(server, contest.program, contest.program_words, system.commit_ms, how.cores) as process,
        Clock(server, contest.topics, _roots(server, process)) as clock,
    ):
        clock.until(lambda: not process.is_running or clock.quiet_s >= QUIET_S, TIMEOUT_S)
    return clock


def _roots(server: Server, process: Child) -> dict[str, int]:
    return {"client": process.pid or 0, "broker": server.pid}


def rows(server: Server, systems: dict[str, System], found: dict[str, list[Window]]) -> list[list[Any]]:
    """Of the table with `COLUMNS`."""
    ours = found.get(OURS)
    made = []
    for name, windows in found.items():
        rates, all_cpu = [each.rate for each in windows], [each.all_cpu_s_per_million for each in windows]
        drifts = [each.drift for each in windows if each.drift is not None]
        made.append(
            [
                *(server.name, systems[name].title, spread(rates)),
                None if ours is None else ratio(median([each.rate for each in ours]), median(rates)),
                median([each.cpu_s_per_million("JVM") for each in windows]),
                median([each.compilers_s_per_million for each in windows]),
                *(median([each.cpu_s_per_million(kind) for each in windows]) for kind in ("Python", "broker")),
                spread(all_cpu),
                None if ours is None else ratio(median([each.all_cpu_s_per_million for each in ours]), median(all_cpu)),
                median(drifts) if drifts else None,
                median([each.others_cores for each in windows]),
            ]
        )
    return made


def plots(name: str, title: str, made: Sequence[Sequence[Any]]) -> dict[str, str]:
    """Rates and CPU of a table with `COLUMNS`, by broker."""
    rates: dict[str, dict[str, float]] = {}
    cpu: dict[str, dict[str, float]] = {}
    for row in made:
        where = f"on {'Apache Kafka' if row[0] == 'kafka' else 'our broker'}"
        rates.setdefault(where, {})[row[1]] = middle(row[2])
        cpu.setdefault(where, {})[row[1]] = middle(row[COLUMNS.index("all")])
    return {
        name: chart.bars(f"{title}: purchases a second", "more is better", rates),
        f"{name}-cpu": chart.bars(f"{title}: CPU seconds per million purchases", "less is better", cpu),
    }


def raw(server: Server, found: dict[str, list[Window]], **labels: Any) -> list[dict[str, Any]]:
    return [
        {
            **labels,
            "broker": server.name,
            "system": name,
            "records_per_s": each.rate,
            "seconds": each.seconds,
            "records": each.records,
            "cpu_s": dict(each.cpu_s),
            "compilers_s": each.compilers_s,
            "drift": each.drift,
            "others_cores": each.others_cores,
        }
        for name, windows in found.items()
        for each in windows
    ]


def add_options(parser: argparse.ArgumentParser, systems: dict[str, System]) -> None:
    parser.add_argument("--systems", nargs="+", choices=list(systems), default=list(systems))
    parser.add_argument("--warm-up", type=float, default=2 / 3, metavar="SHARE", help="not counted (default 2/3)")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--cores", type=int, default=2)


def check_options(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse what could not be measured."""
    counted = round(options.records * (1 - options.warm_up)) // options.batch
    if counted < BATCHES_MIN:
        least = round(BATCHES_MIN * options.batch / (1 - options.warm_up))
        parser.error(f"{counted} batches would be counted: with --batch {options.batch} take --records {least} or more")


def described(options: argparse.Namespace) -> str:
    return (
        f"{options.records:,} purchases in batches of {options.batch:,}, {options.partitions} partitions, "
        f"{options.cores} cores or threads; the first {options.warm_up:.0%} are not counted; "
        f"median of {options.repetitions}"
    )


def answer_of(server: Server, job: str, system: SparkJob, how: Run, *words: str) -> dict[str, Any]:
    """What a Spark job says itself when it has run to its end."""
    said: list[str] = []
    with (
        tempfile.TemporaryDirectory(prefix="bench-race-") as home,
        Child(Path(home, "log"), system.title, on_line=said.append) as process,
    ):
        process.start(spark_command(job, server, system, how, words))
        if process.wait(TIMEOUT_S) != 0:
            raise ToolFailed(f"{system.title} ({job}):\n{''.join(said)[-1000:]}{process.said()}")
    found: dict[str, Any] = json.loads(said[-1])
    return found
