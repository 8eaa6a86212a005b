"""The list of scenarios."""

import json

import pytest
from click.testing import CliRunner

from fencepost.cli.main import main
from fencepost.coordinator.txn.steps import Step
from fencepost.errors import ConfigError
from fencepost.lab.scenarios import catalogue, orders, spark_failures
from fencepost.lab.scenarios.coordinators import STEPS
from fencepost.spark.sink import steps as sink_steps


def test_every_kind_of_failure_has_a_scenario_and_names_are_unique():
    known = catalogue.scenarios()
    assert {scenario.number for scenario in known} == set(range(1, 9))
    assert len({scenario.name for scenario in known}) == len(known)
    assert all(scenario.line and scenario.says for scenario in known)


def test_number_5_has_a_version_for_a_cluster_of_three():
    assert all(s.on_kafka_cluster is not None for s in catalogue.scenarios() if s.number == 5)


def test_scenarios_are_chosen_by_name_or_by_number_and_once():
    chosen = [scenario.name for scenario in catalogue.choose(["zombie", "3"])]
    assert chosen == ["zombie", "failed-send"]
    with pytest.raises(ConfigError, match="no scenario 'nothing'"):
        catalogue.choose(["nothing"])


def test_the_broker_is_killed_at_every_step_that_it_has():
    assert list(STEPS) == [step.name for step in Step]


def test_drivers_are_killed_at_steps_that_they_have():
    known = {step.name for step in sink_steps.BatchStep} | {orders.ENCODING, orders.WRITTEN_SOME, orders.ENDTXN_SENT}
    assert {death.point for death in spark_failures.DEATHS} <= known


def test_ls_lists_number_name_and_line():
    text = CliRunner().invoke(main, ["scenarios", "ls"])
    assert text.exit_code == 0
    assert len(text.output.splitlines()) == len(catalogue.scenarios())
    assert any(line.startswith("3  zombie") for line in text.output.splitlines())
    listed = [*map(json.loads, CliRunner().invoke(main, ["scenarios", "ls", "--json"]).output.splitlines())]
    assert [entry["name"] for entry in listed] == [scenario.name for scenario in catalogue.scenarios()]


@pytest.mark.parametrize(
    "arguments", [[], ["--all", "zombie"], ["zombie", "--bootstrap", "x:1", "--kafka-lib", "."], ["nothing"]]
)
def test_what_cannot_be_played_is_said_before_anything_starts(arguments: list[str]):
    done = CliRunner().invoke(main, ["scenarios", "run", *arguments])
    assert done.exit_code != 0
    assert "Error" in done.output
