"""The tutorial is a program that runs, with Spark, from its first block to its last."""

import re
import shlex
from typing import Any

from pyspark.sql import SparkSession

from tests.commands import fencepost
from tests.conftest import ROOT
from tests.pages import blocks

PAGE = ROOT / "docs" / "tutorial.md"


def test_the_tutorial_from_top_to_bottom(spark: SparkSession) -> None:
    found: dict[str, Any] = {}
    try:
        for each in blocks(PAGE):
            assert each.name is not None, each.text
            if each.language == "python":
                exec(compile(each.text, f"{PAGE.name}: {each.name}", "exec"), found)
            elif each.name == "operate":
                for line in each.filled({"127.0.0.1:9092": found["servers"]}).splitlines():
                    said = fencepost(*shlex.split(line.removeprefix("$ "))[1:])
                    assert said.returncode == 0, said.stderr
                    assert re.search("bookkeeping|lag: 0 records|the amount is not positive", said.stdout), said.stdout
    finally:
        if "broker" in found:
            found["broker"].close()
    assert found["query"].exception() is None


def test_what_it_installs_and_starts_exists() -> None:
    """The shop itself is run by tests/shop."""
    texts = {each.name: each.text for each in blocks(PAGE)}
    assert texts["shop"] == "$ make shop\n" and "\nshop: setup" in (ROOT / "Makefile").read_text()
    (extra,) = re.findall(r"fencepost\[(\w+)\]", texts["install"])
    assert f"\n{extra} = [" in (ROOT / "pyproject.toml").read_text()
