"""The page on scenarios: what it shows is what is printed, and a scenario is written like that."""

import ast
from typing import Any

import pytest

from fencepost.lab.kit.raw import RawProducer
from fencepost.lab.scenarios.audit import Shop, check_exactly_once
from fencepost.lab.scenarios.scenario import Needs, scenario
from fencepost.lab.scenarios.stage import Stage
from tests.conftest import ROOT
from tests.pages import Reader, block

PAGE = ROOT / "docs" / "scenarios.md"


@pytest.mark.thorough
def test_a_scenario_prints_what_the_page_shows() -> None:
    Reader(PAGE, {}).shown("shown")


def test_a_scenario_is_written_as_on_the_page() -> None:
    """By its names: `...` on the page stands for what the scenario does."""
    text = block("written", PAGE).text
    found: dict[str, Any] = {"scenario": scenario, "Needs": Needs, "Stage": Stage}
    exec(text, found)
    assert found["lost_offset"].number == 4
    known: dict[str, object] = {"stage": Stage, "Shop": Shop, "producer": RawProducer}
    asked = [each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.Attribute)]
    asked = [each for each in asked if ast.unparse(each.value) in known]
    assert len(asked) > 8
    for each in asked:
        assert hasattr(known[ast.unparse(each.value)], each.attr), ast.unparse(each)
    assert f"{check_exactly_once.__name__}(stage, shop)" in text
