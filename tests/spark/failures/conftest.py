import os

import pytest

from fencepost.lab.scenarios import spark_stage


@pytest.fixture
def quick_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forked Python processes (`tests.quick_python`). They are no children of their JVM, which some failures need."""
    monkeypatch.setattr(spark_stage, "PYTHON", os.environ["PYSPARK_PYTHON"])
