"""Metrics in a program of Spark Connect: its pipelines run elsewhere, and it learns of them from Spark's progress."""

import pytest

from fencepost.spark import metrics
from tests.conftest import wait_until
from tests.metrics.support import Scrape
from tests.spark.connect.remote import Runner
from tests.spark.scene import MakeScene


@pytest.mark.thorough
def test_the_client_learns_what_its_pipeline_committed(there: Runner, make_scene: MakeScene) -> None:
    scene = make_scene(30)
    with metrics.serve("127.0.0.1:0", there.session) as serving:
        there.run(scene.plan)

        def found(name: str, **labels: str) -> float:
            return Scrape.of(serving.url).value(name, pipeline=scene.plan.pipeline, **labels)

        def is_told() -> bool:
            samples = Scrape.of(serving.url).samples("fencepost_pipeline_commit_seconds_count")
            return any(labels["pipeline"] == scene.plan.pipeline for labels, _ in samples)

        wait_until(is_told, "Spark's progress")
        batches = found("fencepost_pipeline_batches_total", outcome="committed")
        assert batches >= 1
        assert found("fencepost_pipeline_records_total") >= 30
        assert 1 <= found("fencepost_pipeline_commit_seconds_count") <= batches
        assert found("fencepost_query_input_rows_total") == 30
