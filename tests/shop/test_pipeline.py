"""The three ways to write the shop say the same as its rules in Python: every odd value, through real topics."""

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from fencepost.client import Cluster
from fencepost.shop import DEAD_LETTERS, INVOICES, PURCHASES, SHIPMENTS, arrow_tables, sql_over_bytes, typed_sql
from fencepost.shop.expected import expected_invoice, expected_shipment, parse_purchase
from fencepost.spark import read_tables, write_stream
from fencepost.spark.sessions import tells_limits
from tests.spark.checker import read_records
from tests.unit.shop.bad_purchases import BAD, ODD_BUT_GOOD

#: Before Spark 4.2 its JSON takes half of a surrogate pair for text. The rules refuse it, as later versions do.
REFUSED = [value for value in BAD if value is None or tells_limits() or b"half of a pair" not in value]
VALUES = [*ODD_BUT_GOOD, *REFUSED]
#: Some purchases come with headers of their own, some with none.
OWN_HEADERS: list[list[tuple[str, bytes]] | None] = [None, [], [("trace", b"7"), ("trace", b"8")]]


@pytest.fixture
def purchases(bootstrap: str, cluster: Cluster) -> str:
    """A broker with the shop's topics and every odd purchase."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number, value in enumerate(VALUES):
        producer.produce(PURCHASES, value=value, key=b"k", partition=1, headers=OWN_HEADERS[number % 3])
    assert producer.flush(20) == 0
    return bootstrap


def read(spark: SparkSession, bootstrap: str, pipeline: str, **options: str) -> DataFrame:
    return spark.readStream.format("fencepost").options(**options_of(bootstrap, pipeline, **options)).load()


def options_of(bootstrap: str, pipeline: str, **options: str) -> dict[str, str]:
    given = {"subscribe": PURCHASES, "startingOffsets": "earliest", "pipeline": pipeline}
    return {"kafka.bootstrap.servers": bootstrap, **given, **options}


def in_sql(spark: SparkSession, bootstrap: str, pipeline: str = "shop") -> tuple[DataFrame, dict[str, Any]]:
    return sql_over_bytes.shop(read(spark, bootstrap, pipeline, includeHeaders="true")), {}


def in_typed_sql(spark: SparkSession, bootstrap: str, pipeline: str = "shop") -> tuple[DataFrame, dict[str, Any]]:
    return typed_sql.shop(read(spark, bootstrap, pipeline, **typed_sql.SOURCE)), {}


def in_arrow(spark: SparkSession, bootstrap: str, pipeline: str = "shop") -> tuple[DataFrame, dict[str, Any]]:
    options = options_of(bootstrap, pipeline, **typed_sql.SOURCE)
    return read_tables(spark, options), {"transform_arrow": arrow_tables.shop}


def in_arrow_of_rows(spark: SparkSession, bootstrap: str, pipeline: str = "shop") -> tuple[DataFrame, dict[str, Any]]:
    return read(spark, bootstrap, pipeline, **typed_sql.SOURCE), {"transform_arrow": arrow_tables.shop}


def as_text(objects: list[dict[str, object]]) -> list[str]:
    return sorted(json.dumps(entry, sort_keys=True) for entry in objects)


@pytest.mark.parametrize("way", [in_sql, in_typed_sql, in_arrow, in_arrow_of_rows])
def test_a_way_to_write_the_shop_agrees_with_its_rules(spark: SparkSession, purchases: str, way: Any, tmp_path: Path):
    records, more = way(spark, purchases)
    write_stream(records, checkpoint=str(tmp_path), trigger={"availableNow": True}, **more).awaitTermination()
    found = {topic: read_records(purchases, topic) for topic in (INVOICES, SHIPMENTS, DEAD_LETTERS)}

    dead = {}
    for letter in found[DEAD_LETTERS]:
        headers = letter.headers() or []
        about = {name: value.decode() for name, value in headers[-4:]}
        offset = int(about["error.offset"])
        dead[offset] = letter.value()
        assert letter.key() == b"k"
        assert (about["error.topic"], about["error.partition"]) == (PURCHASES, "1")
        assert about["error.reason"]
        assert headers[:-4] == (OWN_HEADERS[offset % 3] or [])
    assert [dead[offset] for offset in sorted(dead)] == REFUSED

    good = [purchase for value in VALUES if (purchase := parse_purchase(value))]
    invoices, shipments = ([json.loads(each.value()) for each in found[topic]] for topic in (INVOICES, SHIPMENTS))
    assert as_text(invoices) == as_text([expected_invoice(purchase) for purchase in good])
    assert as_text(shipments) == as_text([expected_shipment(purchase) for purchase in good])
    assert {each.key().decode() for each in found[INVOICES]} == {str(purchase.purchase_id) for purchase in good}


def test_every_way_writes_the_same_bytes(spark: SparkSession, purchases: str, tmp_path: Path):
    """Into the same topics, one after the other: each record three times."""
    for number, way in enumerate((in_sql, in_typed_sql, in_arrow)):
        records, more = way(spark, purchases, f"shop-{number}")
        checkpoint = str(tmp_path / str(number))
        write_stream(records, checkpoint=checkpoint, trigger={"availableNow": True}, **more).awaitTermination()
    for topic in (INVOICES, SHIPMENTS):
        values = sorted(each.value() for each in read_records(purchases, topic))
        assert values[::3] == values[1::3] == values[2::3]
