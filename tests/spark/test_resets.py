"""A pipeline with state on Spark, moved by `fencepost pipeline reset`: what it counts stays exact."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tests.operate.pipelines import asked, run
from tests.spark.state.test_stateful_step import Till


def totals(till: Till) -> dict[str, int]:
    return {key: value["purchases"] for key, value in till.last().items()}


def test_state_and_offsets_move_together_and_the_old_checkpoint_is_refused(
    spark: SparkSession, bootstrap: str, topic: Callable[..., str], tmp_path: Path
) -> None:
    till = Till(spark, bootstrap, topic, tmp_path)
    users = [f"user-{number % 7}" for number in range(60)]
    till.buy(users)
    till.run(till.step(), maxOffsetsPerTrigger="30")
    described = asked(bootstrap, "describe", till.pipeline, "--checkpoint", till.checkpoint)
    foreseen = described["next_start"]
    assert (foreseen["outcome"], foreseen["batch"]) == ("run", described["last"]["batch"] + 1)
    assert (described["lag"]["records"], described["state"][0]["keys"]) == (0, 7)

    refused = run(bootstrap, "reset", till.pipeline, "--to", "earliest", "--force")
    assert refused.exit_code == 1
    assert "would count them twice" in refused.stderr
    assert run(bootstrap, "reset", till.pipeline, "--to", "earliest", "--state", "drop", "--force").exit_code == 0

    foreseen = asked(bootstrap, "describe", till.pipeline, "--checkpoint", till.checkpoint, exit_code=4)["next_start"]
    till.buy(["user-0"])
    with pytest.raises(StreamingQueryException, match="the pipeline was reset") as raised:
        till.run(till.step())
    assert foreseen["why"].partition(" comes from the checkpoint")[0] in str(raised.value).replace("\n", " ")

    till.checkpoint += "-2"
    till.run(till.step(), maxOffsetsPerTrigger="30")  # with the cache from before
    assert totals(till) == Counter([*users, "user-0"])

    till.buy(["user-1", "new"])
    till.run(till.step())
    history = asked(bootstrap, "describe", till.pipeline, "--history")["history"]
    till.buy(["user-2"])
    till.run(till.step())
    words = ("reset", till.pipeline, "--to", f"batch:{history[1]['batch']}", "--state", "restore", "--force")
    assert run(bootstrap, *words).exit_code == 0
    till.checkpoint += "-3"
    till.run(till.step())
    assert totals(till) == Counter([*users, "user-0", "user-1", "new", "user-2"])
