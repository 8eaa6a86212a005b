"""The fuzzer itself: it is repeatable, what it prints are programs, and it finds what is planted."""

import ast
import itertools
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fencepost.spark.sink import standing
from fencepost.spark.sink.decide import BatchDecision
from tests.conftest import ROOT
from tests.spark.queries.acts import Run
from tests.spark.queries.fuzz import Fuzz, kind_of
from tests.spark.queries.generate import LASTS, STATELESS, generate
from tests.spark.queries.script import script_of
from tests.spark.queries.shrink import candidates, shrink

SEEDS = range(200)
SHRINK_S = 90.0


def test_a_seed_gives_the_same_pipeline_always() -> None:
    assert all(generate(seed) == generate(seed) for seed in SEEDS)


def test_everything_is_generated_some_time() -> None:
    made = [generate(seed) for seed in SEEDS]
    assert {each.last for each in made} == set(LASTS)
    assert {step for each in made for step in each.steps} == set(STATELESS)


def test_every_pipeline_and_all_that_is_smaller_are_programs() -> None:
    for seed in SEEDS[:15]:
        made = generate(seed, with_connector=True)
        for each in (made, *candidates(made)):
            ast.parse(script_of(each))


def test_shrinking_takes_everything_away_that_is_not_needed() -> None:
    """Here a pipeline fails as long as it has a death."""

    def has_death(made: object) -> bool:
        return any(isinstance(act, Run) and act.death is not None for act in made.acts)  # type: ignore[attr-defined]

    for made in filter(has_death, map(generate, SEEDS[:60])):
        small = shrink(made, has_death, lambda: False)
        assert len(small.sources) == 1 or small.combine == "union"
        assert not small.steps
        assert sum(isinstance(act, Run) and act.death is not None for act in small.acts) == 1
        assert not any(wave for source in small.sources.values() for wave in source.waves)


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_what_is_planted_is_found(
    spark: SparkSession, bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sink that does a batch again that it has committed."""
    monkeypatch.setattr(standing, "decide", lambda *_: BatchDecision.RUN)
    fuzz = Fuzz(spark, bootstrap, tmp_path)
    plain = (made for made in map(generate, itertools.count()) if made.last in ("rows", "step") and not made.is_joined)
    found = ((made, failure) for made in plain if (failure := fuzz.failure(made)) is not None)
    made, failure = next(found)
    kind = kind_of(failure)
    until_s = time.monotonic() + SHRINK_S
    small = shrink(
        made, lambda each: kind_of(fuzz.failure(each) or "right") == kind, lambda: time.monotonic() > until_s
    )
    assert sum(len(wave) for source in small.sources.values() for wave in source.waves) < 20
    monkeypatch.undo()
    assert fuzz.failure(small) is None


@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_program_says_that_a_pipeline_is_right(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "program.py"
    path.write_text(script_of(generate(seed)))
    done = subprocess.run([sys.executable, str(path)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()[-1:]) == (0, ["right"]), done.stderr[-3000:]
