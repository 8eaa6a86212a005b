"""The shop's rules in SQL over the bytes of purchases, as one writes them for any Kafka source and sink.

Owns the rules for what a purchase becomes, like `typed_sql` and `arrow_tables`, which say the same in less time;
`expected` repeats them for the verification. The output has the sink's columns: topic, key, value, headers. Invariant:
a row only depends on its purchase, so a batch that runs again gives the same records.
"""

from typing import TYPE_CHECKING

from fencepost.shop import DEAD_LETTERS, INVOICES, SHIPMENTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Spark's parser stops at the end of the first JSON value and ignores what follows. So the purchase is parsed as the
#: first of two items in a list: trailing text breaks the list. The name is parsed as VARIANT to tell numbers from text.
CHECKED = """
WITH items AS (
  SELECT *, from_json(
    concat('[', try_validate_utf8(CAST(value AS STRING)), ',null]'),
    'ARRAY<STRUCT<purchaseId BIGINT, userId BIGINT, userFullName VARIANT, productId BIGINT, quantity INT,
                  totalPrice DOUBLE>>',
    map('allowSingleQuotes', 'false', 'allowNonNumericNumbers', 'false')
  ) AS items
  FROM {purchases}
),
parsed AS (
  SELECT *, if(size(items) = 2, items[0], NULL) AS purchase FROM items
)
SELECT key, value, headers, topic, partition, offset,
  purchase.purchaseId, purchase.userId, CAST(purchase.userFullName AS STRING) AS userFullName,
  purchase.productId, purchase.quantity, purchase.totalPrice,
  CASE
    WHEN value IS NULL                            THEN 'the value is null'
    WHEN purchase IS NULL                         THEN 'the value is not a JSON object'
    WHEN ifnull(purchase.purchaseId, -1) < 0      THEN 'purchaseId is missing or not a whole number from 0 on'
    WHEN ifnull(purchase.userId, -1) < 0          THEN 'userId is missing or not a whole number from 0 on'
    WHEN ifnull(schema_of_variant(purchase.userFullName), '') != 'STRING'
                                                  THEN 'userFullName is missing or not text'
    WHEN ifnull(purchase.productId, -1) < 0       THEN 'productId is missing or not a whole number from 0 on'
    WHEN ifnull(purchase.quantity, 0) < 1         THEN 'quantity is missing or not a whole number from 1 on'
    WHEN NOT ifnull(purchase.totalPrice BETWEEN 0 AND 1000000000, false)
                                                  THEN 'totalPrice is missing or not a number from 0 to a billion'
  END AS reason
FROM parsed
"""

RECORDS = f"""
inline(
  CASE WHEN reason IS NULL THEN array(
    named_struct(
      'topic',   '{INVOICES}',
      'key',     CAST(CAST(purchaseId AS STRING) AS BINARY),
      'value',   CAST(to_json(struct(purchaseId, userId, productId, quantity, totalPrice)) AS BINARY),
      'headers', CAST(NULL AS ARRAY<STRUCT<key STRING, value BINARY>>)),
    named_struct(
      'topic',   '{SHIPMENTS}',
      'key',     CAST(CAST(purchaseId AS STRING) AS BINARY),
      'value',   CAST(to_json(struct(
                   concat('S-', purchaseId) AS shipmentId, purchaseId, productId, userFullName,
                   concat('SomeStreet ', userId % 97 + 1, '/', userId % 18 + 1, ', 00-',
                          lpad(userId % 1000, 3, '0'), ' Warsaw') AS address,
                   quantity)) AS BINARY),
      'headers', NULL)
  )
  ELSE array(
    named_struct(
      'topic',   '{DEAD_LETTERS}',
      'key',     key,
      'value',   value,
      'headers', concat(ifnull(headers, array()), array(
        struct('error.reason' AS key,    CAST(reason AS BINARY) AS value),
        struct('error.topic' AS key,     CAST(topic AS BINARY) AS value),
        struct('error.partition' AS key, CAST(CAST(partition AS STRING) AS BINARY) AS value),
        struct('error.offset' AS key,    CAST(CAST(offset AS STRING) AS BINARY) AS value))))
  ) END
)
"""


def check(purchases: "DataFrame") -> "DataFrame":
    """Records of `purchases` with their parsed fields, and with the `reason` if they are bad."""
    if "headers" not in purchases.columns:
        purchases = purchases.selectExpr("*", "CAST(NULL AS ARRAY<STRUCT<key STRING, value BINARY>>) AS headers")
    return purchases.sparkSession.sql(CHECKED, purchases=purchases)


def shop(purchases: "DataFrame") -> "DataFrame":
    """From records of `purchases` to records of `invoices`, `shipments` and `purchases.dead`."""
    return records(check(purchases))


def records(checked: "DataFrame") -> "DataFrame":
    return checked.selectExpr(RECORDS)
