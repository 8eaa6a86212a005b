"""The SQL of the shop says the same as its rules in Python. One Spark, one pass over every odd value."""

import json

from pyspark.sql import Row

from fencepost.shop import DEAD_LETTERS, INVOICES, SHIPMENTS
from fencepost.shop.expected import expected_invoice, expected_shipment, parse_purchase
from fencepost.shop.pipeline import check, records
from fencepost.spark.session import session
from tests.unit.shop.bad_purchases import BAD, ODD_BUT_GOOD

VALUES = [*ODD_BUT_GOOD, *BAD]
SCHEMA = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
#: Some purchases come with headers of their own, some with none.
OWN_HEADERS = [None, [], [("trace", b"7"), ("trace", b"8")]]


def headers_of(row: Row) -> dict[str, str]:
    return {header.key: bytes(header.value).decode() for header in row.headers}


def as_text(objects: list[dict[str, object]]) -> list[str]:
    return sorted(json.dumps(entry, sort_keys=True) for entry in objects)


def test_sql_and_rules_agree_on_every_odd_value():
    spark = session("tests", "local[2]")
    purchases = spark.createDataFrame(
        [(b"k", value, "purchases", 3, offset, OWN_HEADERS[offset % 3]) for offset, value in enumerate(VALUES)], SCHEMA
    )
    by_topic: dict[str, list[Row]] = {INVOICES: [], SHIPMENTS: [], DEAD_LETTERS: []}
    checked = check(purchases).persist()
    made = records(checked)
    for row in made.collect():
        by_topic[row.topic].append(row)
    # What is kept for both is used by both: a view that was made of it and dropped would have taken it along.
    for frame in (made, checked.where("reason IS NULL")):
        assert "InMemoryTableScan" in frame._jdf.queryExecution().executedPlan().toString()
    spark.stop()

    dead = {int(headers_of(row)["error.offset"]): row for row in by_topic[DEAD_LETTERS]}
    assert [VALUES[offset] for offset in sorted(dead)] == BAD
    for offset, row in dead.items():
        headers = headers_of(row)
        assert (bytes(row.key), row.value) == (b"k", VALUES[offset])
        assert (headers["error.topic"], headers["error.partition"]) == ("purchases", "3")
        assert headers["error.reason"]
        assert [(one.key, bytes(one.value)) for one in row.headers[:-4]] == (OWN_HEADERS[offset % 3] or [])

    good = [purchase for value in VALUES if (purchase := parse_purchase(value))]
    invoices = [json.loads(bytes(row.value)) for row in by_topic[INVOICES]]
    shipments = [json.loads(bytes(row.value)) for row in by_topic[SHIPMENTS]]
    assert as_text(invoices) == as_text([expected_invoice(purchase) for purchase in good])
    assert as_text(shipments) == as_text([expected_shipment(purchase) for purchase in good])
