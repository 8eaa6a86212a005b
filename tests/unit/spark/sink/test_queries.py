"""What is known of a query of Spark Connect."""

import uuid
from pathlib import Path
from types import SimpleNamespace

import pytest

from fencepost.spark import checkpoint
from fencepost.spark.sink.queries import Noted, _ConnectQuery


@pytest.mark.parametrize(
    ("noted", "has_state", "found"),
    [
        (True, False, True),
        (False, False, False),
        (False, True, True),  # the text of the plan was cut
        (None, False, None),
        (None, True, True),
    ],
)
def test_a_query_keeps_state_if_its_plan_or_its_checkpoint_says_so(
    tmp_path: Path, noted: bool | None, has_state: bool, found: bool | None
) -> None:
    if has_state:
        (tmp_path / "state").mkdir()
    started = SimpleNamespace(id=uuid.uuid4(), runId=uuid.uuid4())
    query = _ConnectQuery(started, Noted(str(tmp_path), noted), checkpoint.local(tmp_path))
    assert query.keeps_state() is found
