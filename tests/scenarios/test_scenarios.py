"""The scenarios that take seconds, played on our broker as `fencepost scenarios run` plays them.

Those on Spark are played by tests/spark. Pauses are played by the command alone.
"""

import json

import pytest
from click.testing import CliRunner

from fencepost.cli.main import main
from fencepost.embedded import Broker
from fencepost.lab.scenarios.catalogue import choose
from fencepost.lab.scenarios.scenario import Scenario
from fencepost.lab.scenarios.stage import NotYet, Stage
from fencepost.lab.scenarios.story import Ending, Kind
from tests.scenarios.playing import assert_right, play, told

QUICK = [
    "lost-answer",
    "retry-after-restart",
    "restart-idempotence-alone",
    "restart-transactions",
    "failed-send",
    "zombie",
    "loop-dies",
    "downstream-dies",
    pytest.param("coordinator-dies", marks=pytest.mark.timeout(300)),  # starts the broker 36 times
    "two-consumers",
    "group-coordinator-dies",
    "leader-dies",
    "left-open",
]


@pytest.mark.parametrize("name", QUICK)
def test_the_failure_does_no_harm(name: str):
    assert_right(name)


def _promise(stage: Stage) -> None:
    stage.tell("Something is promised.")
    stage.check(False, "it is kept", "it is not")


def _fail(stage: Stage) -> None:
    raise NotYet("something did not come about")


def test_a_check_that_does_not_hold_and_a_scenario_that_raises_have_failed():
    broken_promise, raising = play(
        Scenario("promise", 1, "line", "says", _promise), Scenario("fail", 1, "line", "says", _fail)
    )
    assert broken_promise.ending is Ending.WRONG
    assert broken_promise.failed
    assert raising.ending is Ending.BROKEN
    assert raising.reason == "something did not come about"


def test_somebody_elses_broker_is_not_harmed_and_names_are_of_this_run_only():
    with Broker(security="SASL_SSL") as broker:
        cluster = broker.client_config("java")
        first, second, skipped = play(*choose(["zombie", "downstream-dies", "leader-dies"]), cluster=cluster)
        assert broker.running
        (again,) = play(*choose(["zombie"]), cluster=cluster)
    assert [first.ending, second.ending, again.ending] == [Ending.RIGHT] * 3, told(first) + told(again)
    assert skipped.ending is Ending.SKIPPED
    assert "not ours to harm" in skipped.reason


def test_the_story_has_epochs_the_coordinators_log_the_lso_and_both_readers():
    done = CliRunner().invoke(main, ["scenarios", "run", "zombie", "--secure", "--seed", "7", "--json"])
    assert done.exit_code == 0, done.output
    (story,) = json.loads(done.output)["scenarios"]
    assert (story["name"], story["seed"], story["ending"]) == ("zombie", 7, "right")
    facts = {item["fact"] for item in story["story"] if "fact" in item}
    assert facts >= {kind.value for kind in (Kind.EPOCHS, Kind.LOG, Kind.LSO, Kind.READERS, Kind.OFFSETS, Kind.ANSWER)}
    logs = [item["data"]["records"] for item in story["story"] if item.get("fact") == "log"]
    assert {"Empty", "Ongoing", "PrepareAbort", "CompleteAbort"} <= {record["state"] for log in logs for record in log}


def test_text_is_told_step_by_step():
    done = CliRunner().invoke(main, ["scenarios", "run", "lost-answer", "--seed", "7"])
    assert done.exit_code == 0, done.output
    assert "  1. An idempotent producer gets an id" in done.output
    assert "✓ lost-answer: 7 checks hold" in done.output
    assert "seed 7" in done.output
