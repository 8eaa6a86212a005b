"""What must come of an input, byte by byte: a third account of the shop's rules, by the column. Pure.

Valid purchases of the input have one spelling (`PURCHASE`), so their outputs are cut and joined as text, without a JSON
library that could agree with somebody's. The others are bad, and few: they are judged one by one.
"""

import json
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from fencepost.shop import DEAD_LETTERS, INVOICES, SHIPMENTS

PURCHASE = (
    r'^\{"purchaseId":(?P<purchase>\d+),"userId":(?P<user>\d+),"userFullName":"(?P<name>[^"\\]+)",'
    r'"productId":(?P<product>\d+),"quantity":(?P<quantity>[1-9]\d*),"totalPrice":(?P<price>\d+\.\d\d)\}$'
)
LONG_MAX, INT_MAX, PRICE_MAX = (1 << 63) - 1, (1 << 31) - 1, 1_000_000_000
#: The header that says why. Everybody says so in words of their own, as their JSON library does.
REASON = "error.reason"
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
#: What each field must be, in the order in which they are looked at: of two faults the first is told.
CHECKS = (
    ("purchaseId", "purchaseId is missing or not a whole number from 0 on"),
    ("userId", "userId is missing or not a whole number from 0 on"),
    ("userFullName", "userFullName is missing or not text"),
    ("productId", "productId is missing or not a whole number from 0 on"),
    ("quantity", "quantity is missing or not a whole number from 1 on"),
    ("totalPrice", "totalPrice is missing or not a number from 0 to a billion"),
)


def shop_outputs(purchases: Any) -> dict[str, Any]:
    """Tables of `key`, `value` (and `headers`) by topic, for a table of purchases as they were read."""
    fields = pc.extract_regex(purchases.column("value"), PURCHASE)
    valid = fields.filter(fields.is_valid())
    part = {name: pc.struct_field(valid, name) for name in ("purchase", "user", "name", "product", "quantity", "price")}
    # As Java and JSON write a double: one digit after the point at least, and no zero at the end.
    price = pc.replace_substring_regex(part["price"], rb"(\.\d)0$", rb"\1")
    invoices = _joined(
        '{"purchaseId":', part["purchase"], ',"userId":', part["user"], ',"productId":', part["product"],
        ',"quantity":', part["quantity"], ',"totalPrice":', price, "}",
    )  # fmt: skip
    shipments = _joined(
        '{"shipmentId":"S-', part["purchase"], '","purchaseId":', part["purchase"], ',"productId":', part["product"],
        ',"userFullName":"', part["name"], '","address":"', _addresses(part["user"]), '","quantity":',
        part["quantity"], "}",
    )  # fmt: skip
    bad = purchases.filter(fields.is_null())
    return {
        INVOICES: pa.table({"key": part["purchase"], "value": invoices}),
        SHIPMENTS: pa.table({"key": part["purchase"], "value": shipments}),
        DEAD_LETTERS: pa.table(
            {
                "key": bad.column("key"),
                "value": bad.column("value"),
                "headers": pa.array([_headers(row) for row in _rows(bad)], HEADERS),
            }
        ),
    }


def totals(purchases: Any, keys: int) -> dict[bytes, bytes]:
    """The last record of each key.

    A purchase counts if it is one JSON object, and has a purchaseId and a totalPrice that are in order.
    """
    fields = pc.extract_regex(purchases.column("value"), PURCHASE)
    valid = fields.filter(fields.is_valid())
    ids = pc.struct_field(valid, "purchase").cast(pa.string()).cast(pa.int64()).to_pylist()
    prices = pc.struct_field(valid, "price").cast(pa.string()).to_pylist()
    counted = list(zip(ids, prices, strict=True))
    for row in _rows(purchases.filter(fields.is_null())):
        found = _object(row["value"])
        if found is not None and not any(_is_wrong(name, found) for name in ("purchaseId", "totalPrice")):
            counted.append((found["purchaseId"], f"{found['totalPrice']:.2f}"))
    bought: dict[int, int] = {}
    spent: dict[int, int] = {}
    for purchase, price in counted:
        user = purchase % keys
        bought[user] = bought.get(user, 0) + 1
        spent[user] = spent.get(user, 0) + int(price.replace(".", ""))
    return {
        b"%d" % user: b'{"user":"%d","purchases":%d,"cents":%d}' % (user, count, spent[user])
        for user, count in bought.items()
    }


def reason(value: bytes | None) -> str | None:
    """Why a purchase is bad; None for a good one."""
    if value is None:
        return "the value is null"
    fields = _object(value)
    if fields is None:
        return "the value is not a JSON object"
    return next((said for name, said in CHECKS if _is_wrong(name, fields)), None)


def _is_wrong(name: str, fields: dict[str, Any]) -> bool:
    value = fields.get(name)
    if name == "userFullName":
        return not isinstance(value, str)
    if isinstance(value, bool):
        return True
    if name == "totalPrice":
        return not isinstance(value, int | float) or not 0 <= value <= PRICE_MAX
    lowest, highest = (1, INT_MAX) if name == "quantity" else (0, LONG_MAX)
    return not isinstance(value, int) or not lowest <= value <= highest


def _object(value: bytes | None) -> dict[str, Any] | None:
    try:
        found = None if value is None else json.loads(value)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _headers(row: dict[str, Any]) -> list[dict[str, Any]]:
    said = {
        REASON: reason(row["value"]),
        "error.topic": row["topic"],
        "error.partition": row["partition"],
        "error.offset": row["offset"],
    }
    return [{"key": name, "value": str(what).encode()} for name, what in said.items()]


def _addresses(users: Any) -> Any:
    text = {}
    numbers = users.cast(pa.string()).cast(pa.int64())
    distinct = pc.unique(numbers)
    for user in distinct.to_pylist():
        text[user] = f"SomeStreet {user % 97 + 1}/{user % 18 + 1}, 00-{user % 1000:03} Warsaw".encode()
    places = pc.index_in(numbers, value_set=distinct)
    return pa.array([text[user] for user in distinct.to_pylist()], pa.binary()).take(places)


def _joined(*parts: Any) -> Any:
    cells = [pa.scalar(part.encode(), pa.binary()) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*cells, pa.scalar(b"", pa.binary()))


def _rows(table: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.to_pylist()
    return found
