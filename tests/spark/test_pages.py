"""Blocks of the pages on source, sink, state and shop, with what the pages leave to the reader filled in."""

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import fencepost
from fencepost.shop import TOPICS
from fencepost.shop.purchases import purchase_rows
from fencepost.shop.totals import totals
from fencepost.shop.typed_sql import DEAD_LETTER, INVOICE, REASON, SHIPMENT, SOURCE
from fencepost.spark import batch_writer, write, write_stream
from fencepost.wire.terms import TopicPartition
from tests import commands
from tests.conftest import ROOT
from tests.pages import block
from tests.spark.checker import read_committed

DOCS = ROOT / "docs"
SOURCE_PAGE, SPARK_PAGE, STATE_PAGE, SHOP_PAGE = (DOCS / f"{name}.md" for name in ("source", "spark", "state", "shop"))
COUNT = 20
TIMEOUT_S = 120

Names = dict[str, Any]


@pytest.fixture(scope="module")
def servers(spark: SparkSession) -> Iterator[str]:
    """Of a broker that has the topics of the pages, and purchases."""
    with fencepost.Broker() as broker:
        for topic in {*TOPICS, "purchases", "invoices", "shipments", "customers", "orders-1"}:
            broker.create_topic(topic)
        rows = spark.createDataFrame(
            [(str(each["key"]), str(each["value"])) for each in purchase_rows(1, 1, COUNT).to_pylist()],
            "key STRING, value STRING",
        )
        for topic in ("purchases", "orders-1"):
            write(rows, bootstrap_servers=broker.bootstrap_servers, topic=topic)
        yield broker.bootstrap_servers


@pytest.fixture
def read(spark: SparkSession, servers: str, tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., Names]:
    """`read(page, "totals", source=…)` runs a block with these names, and gives all names that there are then."""

    def run(page: Path, name: str, **given: object) -> Names:
        text = block(name, page).text.replace("localhost:9092", servers)
        text = text.replace('"shop"', f'"{request.node.name}-{name}"').replace("/data/checkpoint", "checkpoint")
        text = text.replace('"checkpoint"', repr(str(tmp_path / name)))
        found: Names = {"spark": spark, "servers": servers, **given}
        exec(compile(text, f"{page.name}: {name}", "exec"), found)
        return found

    return run


@pytest.fixture
def grown(servers: str) -> Callable[[str], int]:
    """How many committed records a topic got since the test began."""
    before = {topic: len(read_committed(servers, topic)) for topic in ("invoices", "shipments", "customers")}
    return lambda topic: len(read_committed(servers, topic)) - before[topic]


def end(query: Any) -> None:
    """After it has processed what there is."""
    try:
        query.processAllAvailable()
    finally:
        query.stop()


def ended(rows: DataFrame, checkpoint: Path) -> Any:
    """A query that has read all of them."""
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(TIMEOUT_S)
    return query


def test_streams_and_batches_and_lag(read: Callable[..., Names], spark: SparkSession, tmp_path: Path) -> None:
    query = ended(read(SOURCE_PAGE, "stream")["purchases"], tmp_path / "stream")
    assert query.lastProgress["numInputRows"] == COUNT
    found = read(SOURCE_PAGE, "lag", query=query)["found"]
    assert found.partitions == {TopicPartition("purchases", 0): 0} and found.max_offsets == 0
    assert read(SOURCE_PAGE, "batch")["yesterday"].count() == 0, "they were bought today"


def test_typed_values_and_columns(
    read: Callable[..., Names], spark: SparkSession, servers: str, grown: Callable[[str], int], tmp_path: Path
) -> None:
    invoices = read(SOURCE_PAGE, "typed")["invoices"]
    checkpoint = str(tmp_path / "typed")
    assert write_stream(invoices, checkpoint=checkpoint, trigger={"availableNow": True}).awaitTermination(TIMEOUT_S)
    assert grown("invoices") == COUNT

    reader = eval(block("columns", SOURCE_PAGE).text, {"spark": spark})
    reader = reader.option("kafka.bootstrap.servers", servers).option("subscribe", "purchases")
    rows = reader.option("startingOffsets", "earliest").load()
    assert rows.columns == ["purchaseId", "totalPrice", "offset"]
    assert ended(rows, tmp_path / "columns").lastProgress["numInputRows"] == COUNT


def test_state_and_several_writes_in_one_batch(read: Callable[..., Names], grown: Callable[[str], int]) -> None:
    source = read(SOURCE_PAGE, "stream")["purchases"]
    parsed = "from_json(CAST(value AS STRING), 'userId LONG, totalPrice DOUBLE') AS p"
    found = read(
        STATE_PAGE,
        "totals",
        source=source,
        parse=lambda batch: batch.selectExpr("key", parsed).selectExpr("CAST(key AS STRING) AS key", "p.*"),
        invoices_and_shipments=lambda rows: rows.selectExpr(
            "'invoices' AS topic", "key", "CAST(userId AS STRING) AS value"
        ),
    )
    end(found["query"])
    assert grown("invoices") == COUNT and 0 < grown("customers") <= COUNT

    given = {
        "batch_writer": batch_writer,
        "invoices": lambda batch: batch.select("key", "value"),
        "shipments": lambda batch: batch.select("key", "value"),
        "purchases": lambda batch: batch.selectExpr(parsed).select("p.*"),
        "TOTALS": found["TOTALS"],
        "df": source,
    }
    read(SPARK_PAGE, "several", **given)
    (query,) = source.sparkSession.streams.active
    end(query)
    assert grown("shipments") == COUNT and grown("invoices") == 2 * COUNT


@pytest.mark.parametrize(
    ("name", "columns", "written"),
    [
        ("typed", "7L AS customerId, id AS purchaseId, 2.5D AS price, 2 AS quantity", {"invoices": 4}),
        (
            "several-records",
            "CAST(id AS STRING) AS key, id AS purchaseId, 5.0D AS total, id % 2 AS weight, 'here' AS address",
            {"invoices": 4, "shipments": 2},
        ),
    ],
)
def test_typed_records_in_sql(
    spark: SparkSession, servers: str, grown: Callable[[str], int], name: str, columns: str, written: dict[str, int]
) -> None:
    spark.range(4).selectExpr(*columns.split(", ")).createOrReplaceTempView("purchases")
    write(spark.sql(block(name, SPARK_PAGE).text), bootstrap_servers=servers)
    assert {topic: grown(topic) for topic in written} == written


def test_arrow_tables(read: Callable[..., Names], grown: Callable[[str], int]) -> None:
    end(read(SPARK_PAGE, "arrow")["query"])
    assert grown("invoices") == COUNT


def test_the_pipeline_of_the_shop(read: Callable[..., Names], grown: Callable[[str], int]) -> None:
    rules = {"SOURCE": SOURCE, "REASON": REASON, "INVOICE": INVOICE, "SHIPMENT": SHIPMENT, "DEAD_LETTER": DEAD_LETTER}
    found = read(SHOP_PAGE, "pipeline", totals=totals, **rules)
    end(found["query"])
    assert (grown("invoices"), grown("shipments")) == (COUNT, COUNT)
    assert 0 < grown("customers") <= COUNT


def test_dead_letters_are_shown_and_replayed(spark: SparkSession) -> None:
    found: Names = {}
    exec(block("dead-letters", SPARK_PAGE).text, found)
    with found["broker"]:
        for line in block("letters", SPARK_PAGE).text.splitlines():
            words = shlex.split(line.removeprefix("$ "), comments=True)
            said = commands.fencepost(*words[1:], "--bootstrap", found["servers"])
            assert said.returncode == 0, f"{line}\n{said.stdout}{said.stderr}"
        assert len(read_committed(found["servers"], "purchases")) == 3 + 2, "both letters were written again"
