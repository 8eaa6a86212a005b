"""The shop's stateful steps: what each customer has bought so far, and how often each product was sold.

Two steps over the same purchases, in the same transaction as invoices and shipments. Money is kept in cents, so sums
are exact. The functions show how to write a step: by the column, one call for all keys of a batch.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from fencepost.shop import CUSTOMERS, PRODUCTS
from fencepost.spark.state import Keyed, StatefulStep, Updated

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from fencepost.spark.state import State


def _sum(given: Keyed, name: str, column: str | None = None) -> Any:
    """For every key: the old state `name` plus the sum of `column` over the new rows, or their number."""
    weights = None if column is None else given.rows.column(column).to_numpy()
    new = np.bincount(given.index, weights=weights, minlength=len(given.keys))
    # bincount sums in doubles, which are exact up to 90 trillion dollars in cents.
    return given.old.column(name).fill_null(0).to_numpy() + new.astype(np.int64)


def add_to_customers(given: Keyed) -> Updated:
    purchases, cents = _sum(given, "purchases"), _sum(given, "cents", "cents")
    state = pa.table({"purchases": purchases, "cents": cents})
    users = given.keys.column("userId")
    return Updated(state, pa.table({"userId": users, "purchases": purchases, "amount": cents / 100}))


def add_to_products(given: Keyed) -> Updated:
    sold, cents = _sum(given, "sold", "quantity"), _sum(given, "cents", "cents")
    state = pa.table({"sold": sold, "cents": cents})
    products = given.keys.column("productId")
    return Updated(state, pa.table({"productId": products, "sold": sold, "revenue": cents / 100}))


CUSTOMER_TOTALS = StatefulStep(
    name="customers",
    keys=("userId",),
    state="purchases long, cents long",
    update=add_to_customers,
    output="userId long, purchases long, amount double",
    topic=CUSTOMERS,
)
PRODUCT_TOTALS = StatefulStep(
    name="products",
    keys=("productId",),
    state="sold long, cents long",
    update=add_to_products,
    output="productId long, sold long, revenue double",
    topic=PRODUCTS,
)


def totals(purchases: "DataFrame", state: "State") -> "DataFrame":
    """The records that both steps make of valid purchases (userId, productId, quantity, totalPrice)."""
    rows = purchases.selectExpr(
        "userId", "productId", "CAST(quantity AS LONG) AS quantity", "CAST(round(totalPrice * 100) AS LONG) AS cents"
    )
    customers = state.update(rows.select("userId", "cents"), CUSTOMER_TOTALS)
    products = state.update(rows.select("productId", "quantity", "cents"), PRODUCT_TOTALS)
    return customers.unionByName(products)
