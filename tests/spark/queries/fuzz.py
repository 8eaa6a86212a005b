"""Random pipelines with random deaths against the same query as a batch, for a while.

    python -m tests.spark.queries.fuzz --seconds 600 [--seed S] [--on-kafka HOST:PORT]
    python -m tests.spark.queries.fuzz --only SEED

The first pipeline that is wrong is made smaller and printed as a program that shows the failure on its own, with the
command that plays the original again.
"""

import argparse
import contextlib
import itertools
import random
import re
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import fencepost
from fencepost.lab.kit.servers import SHORT_CYCLES
from tests import quick_spark
from tests.spark.queries.acts import Death, How, Run
from tests.spark.queries.generate import Made, as_case, generate
from tests.spark.queries.play import Play
from tests.spark.queries.script import script_of
from tests.spark.queries.shrink import shrink
from tests.spark.queries.spark_kafka import missing_connector

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHRINK_S = 240.0
#: Of so many pipelines one has a driver of its own that is really killed.
REAL_DEATH_EVERY = 12
#: By these a failure is told from another.
KINDS = (
    r"fencepost\.errors\.\w+", r"\[[A-Z_.]{8,}\]", "are missing", "too often", "not the batch query's", "another order",
    "ends with", "has a value twice", "it was to be refused", "something changed", "does not stand at the end",
    "does not end", "files and topics differ",
)  # fmt: skip


@dataclass
class Fuzz:
    spark: "SparkSession"
    bootstrap: str
    home: Path
    deaths: int = 0  #: that were reached
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def failure(self, made: Made) -> str | None:
        """What is wrong with a pipeline, if something is."""
        home = self.home / str(next(self._numbers))
        play = Play(self.spark, self.bootstrap, as_case(made), home, must_die=False)
        try:
            play.play()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # also pytest's own, of a condition that never comes
            traceback.print_exception(error)
            return f"{type(error).__name__}: {error}"
        finally:
            self.deaths += play.deaths
            shutil.rmtree(home, ignore_errors=True)
        return None


def kind_of(failure: str) -> str:
    return next((found[0] for kind in KINDS if (found := re.search(kind, failure))), failure.split(":", 1)[0])


def seeds(seed: int) -> Iterator[int]:
    rng = random.Random(seed)
    while True:
        yield rng.getrandbits(32)


def with_real_death(made: Made) -> Made:
    """Its first death is that of a process."""
    for index, act in enumerate(made.acts):
        if isinstance(act, Run) and act.death is not None:
            death = Death(act.death.point, act.death.passes, How.KILLED)
            return replace(made, acts=(*made.acts[:index], Run(death), *made.acts[index + 1 :]))
    return made


def explain(fuzz: Fuzz, made: Made, failure: str) -> None:
    print(f"\nWRONG: {failure}\n\nmaking it smaller, for at most {SHRINK_S:.0f} s", flush=True)
    kind, until_s = kind_of(failure), time.monotonic() + SHRINK_S
    tries = itertools.count(1)

    def fails(smaller: Made) -> bool:
        found = fuzz.failure(smaller)
        print(f"  try {next(tries)}: {'still ' + kind if found and kind_of(found) == kind else 'no'}", flush=True)
        return found is not None and kind_of(found) == kind

    smallest = shrink(made, fails, lambda: time.monotonic() > until_s)
    again = f"python -m tests.spark.queries.fuzz --only {made.seed}"
    path = Path(tempfile.gettempdir()) / f"query-{made.seed}.py"
    path.write_text(script_of(smallest, replay=f"Made smaller from what this plays again: {again}"))
    print(f"\n{path.read_text()}\n\nTo be run in the repository: {path}\nThe original: {again}", flush=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=None, help="the same pipelines in the same order")
    parser.add_argument("--only", type=int, metavar="SEED", help="this one pipeline")
    parser.add_argument("--on-kafka", metavar="HOST:PORT", help="a cluster that runs already, not a new broker")
    given = parser.parse_args(arguments)
    seed = random.SystemRandom().getrandbits(32) if given.seed is None else given.seed
    with opened(given.on_kafka) as fuzz:
        if given.only is not None:
            return one(fuzz, given.only)
        print(f"seed {seed}", flush=True)
        return many(fuzz, seed, given.seconds)


def one(fuzz: Fuzz, seed: int) -> int:
    made = generate(seed, with_connector=not missing_connector())
    print(made, flush=True)
    failure = fuzz.failure(made)
    if failure is None:
        print("right")
        return 0
    explain(fuzz, made, failure)
    return 1


def many(fuzz: Fuzz, seed: int, seconds: float) -> int:
    began_s = time.monotonic()
    done = 0
    for number, each in enumerate(seeds(seed)):
        elapsed_s = time.monotonic() - began_s
        if elapsed_s > seconds:
            break
        made = generate(each, with_connector=not missing_connector())
        if number % REAL_DEATH_EVERY == REAL_DEATH_EVERY - 1:
            made = with_real_death(made)
        rate = f"{60 * done / elapsed_s:.1f} a minute" if done else ""
        print(f"{elapsed_s:5.0f} s {done:4} right {fuzz.deaths:4} deaths {rate:14} now {made.seed}: {made}", flush=True)
        if (failure := fuzz.failure(made)) is not None:
            explain(fuzz, made, failure)
            return 1
        done += 1
    took_s = time.monotonic() - began_s
    print(f"{done} pipelines were right, over {fuzz.deaths} deaths, in {took_s:.0f} s (seed {seed})")
    return 0


@contextlib.contextmanager
def opened(bootstrap: str | None) -> Iterator[Fuzz]:
    """A Spark, and a broker unless there is one."""
    with contextlib.ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="query-fuzz-")))
        if bootstrap is None:
            broker = stack.enter_context(fencepost.Broker(settings=dict(SHORT_CYCLES)))
            bootstrap = broker.bootstrap_servers
        spark = quick_spark.start("fuzz", home, log_file=home / "spark.log")
        stack.callback(spark.stop)
        yield Fuzz(spark, bootstrap, home)


if __name__ == "__main__":
    sys.exit(main())
