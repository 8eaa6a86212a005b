"""The shop of the seeds: purchases become invoices and shipments, both or neither, each once.

`purchases` makes them, `writing` puts them into Kafka once, `pipeline` is the Spark job, `verify` looks at the result
from outside, `run` does one after the other and `display` shows it. Topics and fields have their names from here.
"""

PIPELINE = "shop"

PURCHASES = "purchases"
INVOICES = "invoices"
SHIPMENTS = "shipments"
DEAD_LETTERS = "purchases.dead"
CUSTOMERS = "customers"
PRODUCTS = "bestsellers"

TOPICS = (PURCHASES, INVOICES, SHIPMENTS, DEAD_LETTERS, CUSTOMERS, PRODUCTS)
