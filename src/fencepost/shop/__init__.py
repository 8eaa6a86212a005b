"""The example shop: every purchase becomes one invoice and one shipment, both or neither.

`purchases` generates purchases, `writing` writes them to Kafka once, `pipeline` is the Spark job, `verify` checks the
result from outside, `run` does all of that and `display` shows it. The names of the topics are here.
"""

PIPELINE = "shop"

PURCHASES = "purchases"
INVOICES = "invoices"
SHIPMENTS = "shipments"
DEAD_LETTERS = "purchases.dead"
CUSTOMERS = "customers"
PRODUCTS = "bestsellers"

TOPICS = (PURCHASES, INVOICES, SHIPMENTS, DEAD_LETTERS, CUSTOMERS, PRODUCTS)
