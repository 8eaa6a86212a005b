"""The shop's rules as a function on Arrow tables, for `write_stream(read_tables(…), transform_arrow=shop)`.

Says the same as `typed_sql`, with the same source, a column at a time in the process that encodes the records.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from fencepost.shop import DEAD_LETTERS, INVOICES, SHIPMENTS
from fencepost.shop.expected import PRICE_MAX

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
MISSING = {
    "purchaseId": "purchaseId is missing or below 0",
    "userId": "userId is missing or below 0",
    "userFullName": "userFullName is missing",
    "productId": "productId is missing or below 0",
    "quantity": "quantity is missing or below 1",
    "totalPrice": "totalPrice is missing or not from 0 to a billion",
}
INVOICE = ("purchaseId", "userId", "productId", "quantity", "totalPrice")


def shop(purchases: Any) -> Iterator[Any]:
    """From a table of purchases as `typed_sql.SOURCE` reads them, to tables of invoices, shipments and dead letters."""
    table = purchases.combine_chunks()
    fields = dict(zip(MISSING, table.column("value").chunk(0).flatten(), strict=True))
    rules = {name: _holds(name, column) for name, column in fields.items()}
    is_good = np.logical_and.reduce(list(rules.values()))
    if not is_good.all():
        yield _dead_letters(table, rules, is_good)
        fields = {name: column.filter(pa.array(is_good)) for name, column in fields.items()}
    key = fields["purchaseId"].cast(pa.string())
    yield _records(INVOICES, key, {name: fields[name] for name in INVOICE})
    shipment = {
        "shipmentId": _joined("S-", key),
        "purchaseId": fields["purchaseId"],
        "productId": fields["productId"],
        "userFullName": fields["userFullName"],
        "address": _address(fields["userId"].to_numpy()),
        "quantity": fields["quantity"],
    }
    yield _records(SHIPMENTS, key, shipment)


def _holds(name: str, column: Any) -> Any:
    """Where a field keeps its rule. All fields are null where the purchase could not be read."""
    if name == "userFullName":
        found = column.is_valid()
    elif name == "totalPrice":
        found = pc.and_(pc.greater_equal(column, 0), pc.less_equal(column, PRICE_MAX)).fill_null(False)
    else:
        found = pc.greater_equal(column, 1 if name == "quantity" else 0).fill_null(False)
    return found.to_numpy(zero_copy_only=False)


def _records(topic: str, key: Any, value: dict[str, Any]) -> Any:
    structs = pa.StructArray.from_arrays(list(value.values()), names=list(value))
    return pa.table({"topic": pa.repeat(pa.scalar(topic), len(key)), "key": key, "value": structs})


def _address(users: Any) -> Any:
    street, flat, post = (
        pa.array(numbers).cast(pa.string()) for numbers in (users % 97 + 1, users % 18 + 1, users % 1000)
    )
    return _joined("SomeStreet ", street, "/", flat, ", 00-", pc.utf8_lpad(post, 3, "0"), " Warsaw")


def _joined(*parts: Any) -> Any:
    return pc.binary_join_element_wise(*parts, "")


def _dead_letters(table: Any, rules: dict[str, Any], is_good: Any) -> Any:
    """These are few: one by one."""
    letters = []
    for row in np.flatnonzero(~is_good).tolist():
        found = {name: table.column(name)[row].as_py() for name in table.schema.names if name != "value"}
        reason = (found["_corrupt_record"] or {}).get("reason")
        if reason is None and not table.column("value")[row].is_valid:
            reason = "the value is null"
        reason = reason or next(text for name, text in MISSING.items() if not rules[name][row])
        about = {"reason": reason, "topic": found["topic"], "partition": found["partition"], "offset": found["offset"]}
        added = [{"key": f"error.{name}", "value": str(text).encode()} for name, text in about.items()]
        letters.append({**found["raw"], "topic": DEAD_LETTERS, "headers": [*(found["headers"] or []), *added]})
    schema = pa.schema([("topic", pa.string()), ("key", pa.binary()), ("value", pa.binary()), ("headers", HEADERS)])
    return pa.Table.from_pylist(letters, schema)
