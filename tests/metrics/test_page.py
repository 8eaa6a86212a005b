"""The page on metrics, the dashboard and the alerts: they name metrics that exist, and what they show runs."""

import json
import os
import re
import shlex
import shutil
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

import fencepost
from fencepost.child import Child
from fencepost.lab.kit.servers import free_ports
from fencepost.spark.metrics.text import render
from tests.commands import command
from tests.conftest import ROOT
from tests.metrics.support import Scrape
from tests.pages import Block, blocks

PAGE = ROOT / "docs" / "metrics.md"
HERE = ROOT / "docs" / "metrics"
ALERTS, DASHBOARD = HERE / "alerts.yml", json.loads((HERE / "dashboard.json").read_text())
NAMES = re.compile(r"\b(?:fencepost|process)_\w+")
#: Variables of Grafana's in expressions, with what it may put there.
GRAFANA = {"$__rate_interval": "5m", "$instance": ".*"}
#: Run where Spark is, in tests/spark/test_metrics.py.
ON_SPARK = {"pipeline", "otel"}


def block(name: str) -> Block:
    (found,) = [each for each in blocks(PAGE) if each.name == name]
    return found


def panels() -> list[dict[str, Any]]:
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def expressions() -> list[str]:
    return [target["expr"] for panel in panels() for target in panel["targets"]]


@pytest.fixture(scope="module")
def names(measured: fencepost.Broker) -> set[str]:
    """Of all metrics there are."""
    return Scrape.of(measured.metrics_url).names | Scrape.of_text(render()).names


def test_every_block_has_a_name_and_runs() -> None:
    run = {"up", "curl", "embedded", "prometheus", "promtool"} | ON_SPARK
    assert {each.name for each in blocks(PAGE)} == run


def test_the_dashboard_shows_metrics_that_exist(names: set[str]) -> None:
    used = {name for expression in expressions() for name in NAMES.findall(expression)}
    assert len(used) > 25
    assert used <= names


def test_panels_of_the_dashboard_have_a_place_of_their_own() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken and max(x for x, _ in cells) < 24, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_alerts_are_about_metrics_that_exist_and_are_explained_and_tested(names: set[str]) -> None:
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]
    tested = yaml.safe_load((HERE / "alerts_test.yml").read_text())["tests"]
    fired = {each["alertname"] for test in tested for each in test["alert_rule_test"] if each.get("exp_alerts")}
    assert {rule["alert"] for rule in group["rules"]} == fired
    assert len(group["rules"]) == 6
    for rule in group["rules"]:
        assert set(NAMES.findall(rule["expr"])) <= names
        assert f"| `{rule['alert']}` |" in PAGE.read_text()


def test_the_page_lists_every_metric_and_no_other(names: set[str]) -> None:
    parts = {name.removesuffix(end) for name in names for end in ("_bucket", "_sum", "_count") if name.endswith(end)}
    whole = {name for name in names if not name.endswith(("_bucket", "_sum", "_count"))} | parts
    listed = set(re.findall(r"^\| `(\w+)` \| (?:counter|gauge|histogram) \|", PAGE.read_text(), re.MULTILINE))
    assert {name for name in listed if not name.startswith("fencepost_console_")} == whole  # see tests/console


def test_the_broker_serves_metrics_where_it_is_told(tmp_path: Path) -> None:
    shown = block("up").text.splitlines()
    port, metrics = free_ports(2)
    places = {"9464": str(metrics), "./data": str(tmp_path / "data"), "9092": str(port)}

    def filled(line: str) -> str:
        for written, meant in places.items():
            line = line.replace(written, meant)
        return line

    words = shlex.split(filled(shown[0].removeprefix("$ ")))
    assert words[:2] == ["fencepost", "up"]
    with Child(tmp_path / "log").start(command(*words[1:], "--port", port)) as broker:
        assert [broker.first_line(60), broker.first_line(60)] == [f"{filled(line)}\n" for line in shown[1:]]
        asked, *expected = block("curl").text.splitlines()
        curl = shlex.split(filled(asked.removeprefix("$ ")))
        if shutil.which(curl[0]) is None:
            pytest.skip("needs curl")
        said = subprocess.run(curl, capture_output=True, text=True, check=True).stdout
    assert "\n".join(line for line in expected if line != "…") in said


def test_a_broker_in_a_program_is_scraped() -> None:
    found: dict[str, Any] = {}
    exec(block("embedded").text, found)
    assert Scrape.of_text(found["text"]).value("fencepost_connections") == 0


@pytest.fixture
def promtool() -> str:
    found = os.environ.get("PROMTOOL") or shutil.which("promtool")
    if found is None:
        pytest.skip("needs promtool, which comes with Prometheus (PROMTOOL=/path/to/promtool)")
    return found


def test_promtool_runs_the_commands_of_the_page(promtool: str) -> None:
    for line in block("promtool").text.splitlines():
        words = shlex.split(line.removeprefix("$ "))
        done = subprocess.run([promtool, *words[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "SUCCESS" in done.stdout


def test_promtool_takes_the_configuration_and_the_expressions_of_the_dashboard(promtool: str, tmp_path: Path) -> None:
    shutil.copy(ALERTS, tmp_path)
    (tmp_path / "prometheus.yml").write_text(block("prometheus").text)
    rules = []
    for number, expression in enumerate(expressions()):
        for variable, meant in GRAFANA.items():
            expression = expression.replace(variable, meant)
        rules.append({"record": f"panel_{number}", "expr": expression})
    (tmp_path / "panels.yml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    for words in (["check", "config", "prometheus.yml"], ["check", "rules", "panels.yml"]):
        done = subprocess.run([promtool, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_finds_nothing_to_mend_in_our_names(promtool: str, measured: fencepost.Broker) -> None:
    text = urllib.request.urlopen(measured.metrics_url).read() + render().encode()
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
