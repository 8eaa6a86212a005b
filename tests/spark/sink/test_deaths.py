"""A pipeline that dies at each step, with both transaction protocols, and every second time loses its checkpoint.

Once its batches are written by the driver, as small ones are, once by tasks.

These deaths are played in one process, which makes them cheap. `tests/spark/failures` kills real ones.
"""

import pytest

from tests.spark.scene import Scene
from tests.spark.sink.deaths import die_at_every_step
from tests.spark.sink.inprocess import InProcess


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("protocol", "first", "small"),
    [("1", "checkpoint kept", "1000"), ("2", "checkpoint deleted", "0")],
    ids=["v1, by the driver", "v2, by tasks"],
)
def test_every_record_is_in_effect_once(here: InProcess, scene: Scene, protocol: str, first: str, small: str) -> None:
    die_at_every_step(here, scene, protocol, small, deletes_first=first == "checkpoint deleted")
