"""Records from 100 bytes to 10 MB in one pipeline: the memory of Spark and of its Python workers stays bounded."""

import json
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

import fencepost
from tests.conftest import ROOT
from tests.spark.checker import read_committed
from tests.spark.sink.growing_rows_job import BATCHES, RECORD_BYTES_MAX


@pytest.mark.skipif(
    pyspark.__version__.startswith("4.0."), reason="Spark 4.0 sends Python four times as much at a time"
)
@pytest.mark.parametrize(("columnar", "repeated"), [("auto", 0), ("off", 1)])
def test_everything_is_written_once_in_little_memory(tmp_path: Path, columnar: str, repeated: int) -> None:
    with fencepost.Broker() as broker:
        limits = {"max.message.bytes": str(RECORD_BYTES_MAX)}
        broker.create_topic("source", partitions=2, config=limits)
        broker.create_topic("target", partitions=2, config=limits)
        servers = broker.bootstrap_servers
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.spark.sink.growing_rows_job",
                servers,
                "source",
                "target",
                tmp_path,
                columnar,
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        assert done.stdout.count("a row is large: the batch is run again") == repeated, done.stdout
        numbers = [int(json.loads(text)["text"].partition(":")[0]) for text in read_committed(servers, "target")]
    assert sorted(numbers) == [*range(sum(count for count, _ in BATCHES))]
