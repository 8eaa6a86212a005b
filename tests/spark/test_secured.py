"""A pipeline on a secured cluster: its source, its sink, and a login that has to be renewed on the way."""

import json
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import fencepost
from fencepost.spark import write, write_stream

COUNT = 200


@pytest.mark.parametrize("security", ["SASL_SSL", "SSL"])
def test_a_pipeline_runs_on_a_secured_cluster_and_no_secret_is_seen(
    spark: SparkSession, tmp_path: Path, security: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with fencepost.Broker(security=security, connections_max_reauth_ms=1000, num_partitions=2) as broker:
        broker.create_topic("in", 2)
        broker.create_topic("out", 2)
        options = broker.client_config("spark")
        numbers = spark.range(COUNT).selectExpr("CAST(id AS STRING) AS value")
        secured = {name: value for name, value in options.items() if name != "kafka.bootstrap.servers"}
        write(numbers, topic="in", bootstrap_servers=broker.bootstrap_servers, options=secured)
        rows = (
            spark.readStream.format("fencepost")
            .options(**options)
            .option("subscribe", "in")
            .option("pipeline", "secured")
            .option("maxOffsetsPerTrigger", COUNT // 4)
            .load()
        )
        checkpoint = tmp_path / "checkpoint"
        query = write_stream(
            rows.select("value"), topic="out", checkpoint=str(checkpoint), trigger={"availableNow": True}
        )
        query.awaitTermination()
        found = spark.read.format("fencepost").options(**options).option("subscribe", "out").load()
        plan = found._jdf.queryExecution().toString() + rows._jdf.queryExecution().toString()
        assert Counter(row.value for row in found.select("value").collect()) == Counter(
            str(number).encode() for number in range(COUNT)
        )
        password = json.loads((broker.directory / "security" / "user.json").read_text())["password"]
        key = (broker.directory / "security" / "client.pem").read_text()
        if security == "SSL":
            wrong, reason = {"kafka.ssl.keystore.key": key}, "would be shown in plans"
        else:
            jaas = options["kafka.sasl.jaas.config"]
            wrong, reason = {"kafka.sasl.jaas.config": jaas.replace(password, f"{password}x")}, "refused the SCRAM"
        with pytest.raises(Exception, match=reason) as refused:
            spark.read.format("fencepost").options(**{**options, **wrong}).option("subscribe", "out").load().count()
        query.explain(extended=True)
        shown = plan + str(query.recentProgress) + str(refused.value) + "".join(capfd.readouterr())
        for path in checkpoint.rglob("*"):
            shown += path.read_bytes().decode("latin-1") if path.is_file() else ""
        assert password not in shown
        assert key.splitlines()[1] not in shown
