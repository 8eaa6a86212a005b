"""The shop's rules in SQL over typed purchases: the source reads the JSON, the sink writes it.

Owns the schema of a purchase, and what a purchase becomes. A row of the result holds several records, each in a column
of its own. Invariant: a row only depends on its purchase, so a batch that runs again gives the same records.
"""

from typing import TYPE_CHECKING

from fencepost.shop import DEAD_LETTERS, INVOICES, SHIPMENTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Options of the source. A purchase that is not JSON of this schema has the reason in `_corrupt_record`; `raw` and the
#: headers are for dead letters.
SOURCE = {
    "valueFormat": "strict-json",
    "valueSchema": "purchaseId BIGINT, userId BIGINT, userFullName STRING, productId BIGINT, quantity INT, "
    "totalPrice DOUBLE",
    "mode": "PERMISSIVE",
    "includeRaw": "true",
    "includeHeaders": "true",
    "columns": "topic, partition, offset, value, headers, raw, _corrupt_record",
}

REASON = """
CASE
  WHEN _corrupt_record IS NOT NULL              THEN _corrupt_record.reason
  WHEN value IS NULL                            THEN 'the value is null'
  WHEN ifnull(value.purchaseId, -1) < 0         THEN 'purchaseId is missing or below 0'
  WHEN ifnull(value.userId, -1) < 0             THEN 'userId is missing or below 0'
  WHEN value.userFullName IS NULL               THEN 'userFullName is missing'
  WHEN ifnull(value.productId, -1) < 0          THEN 'productId is missing or below 0'
  WHEN ifnull(value.quantity, 0) < 1            THEN 'quantity is missing or below 1'
  WHEN NOT ifnull(value.totalPrice BETWEEN 0 AND 1000000000, false)
                                                THEN 'totalPrice is missing or not from 0 to a billion'
END AS reason
"""

INVOICE = f"""
CASE WHEN reason IS NULL THEN struct(
  '{INVOICES}' AS topic,
  CAST(value.purchaseId AS STRING) AS key,
  struct(value.purchaseId, value.userId, value.productId, value.quantity, value.totalPrice) AS value
) END AS invoice
"""

SHIPMENT = f"""
CASE WHEN reason IS NULL THEN struct(
  '{SHIPMENTS}' AS topic,
  CAST(value.purchaseId AS STRING) AS key,
  struct(
    concat('S-', value.purchaseId) AS shipmentId,
    value.purchaseId, value.productId, value.userFullName,
    concat('SomeStreet ', value.userId % 97 + 1, '/', value.userId % 18 + 1, ', 00-',
           lpad(value.userId % 1000, 3, '0'), ' Warsaw') AS address,
    value.quantity
  ) AS value
) END AS shipment
"""

DEAD_LETTER = f"""
CASE WHEN reason IS NOT NULL THEN struct(
  '{DEAD_LETTERS}' AS topic,
  raw.key AS key,
  raw.value AS value,
  concat(ifnull(headers, array()), array(
    struct('error.reason' AS key,    CAST(reason AS BINARY) AS value),
    struct('error.topic' AS key,     CAST(topic AS BINARY) AS value),
    struct('error.partition' AS key, CAST(CAST(partition AS STRING) AS BINARY) AS value),
    struct('error.offset' AS key,    CAST(CAST(offset AS STRING) AS BINARY) AS value))) AS headers
) END AS dead_letter
"""


def check(purchases: "DataFrame") -> "DataFrame":
    """Purchases as `SOURCE` gives them, with the `reason` if they are bad."""
    return purchases.selectExpr("*", REASON)


def records(checked: "DataFrame") -> "DataFrame":
    return checked.selectExpr(INVOICE, SHIPMENT, DEAD_LETTER)


def shop(purchases: "DataFrame") -> "DataFrame":
    """From typed purchases to records of `invoices`, `shipments` and `purchases.dead`."""
    return records(check(purchases))
