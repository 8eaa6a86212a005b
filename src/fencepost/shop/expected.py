"""What a purchase must look like, and what must come of it: the shop's rules a second time, in plain Python.

`pipeline` has the same rules in SQL. This module checks its work, so the two share no code, only the rules in this
table. Invariant: no Spark, none of our clients.

    purchaseId, userId, productId   whole numbers from 0 to 2^63 - 1
    quantity                        a whole number from 1 to 2^31 - 1
    totalPrice                      a finite number, 0 or more
    userFullName                    text, without half surrogate pairs

A value that is not a JSON object with these fields is a bad purchase. More fields do no harm.
"""

import json
from typing import Any, NamedTuple, NoReturn

LONG_MAX = (1 << 63) - 1
INT_MAX = (1 << 31) - 1

#: The bounds of a whole number, by field.
WHOLE = {
    "purchaseId": (0, LONG_MAX),
    "userId": (0, LONG_MAX),
    "productId": (0, LONG_MAX),
    "quantity": (1, INT_MAX),
}
#: So that sums of cents stay whole numbers.
PRICE_MAX = 1_000_000_000


class Purchase(NamedTuple):
    purchase_id: int
    user_id: int
    user_full_name: str
    product_id: int
    quantity: int
    total_price: float


def parse_purchase(value: bytes | None) -> Purchase | None:
    """None for a bad one."""
    fields = _parse(value)
    if fields is None:
        return None
    name, price = fields.get("userFullName"), fields.get("totalPrice")
    if not isinstance(name, str) or not _is_text(name) or isinstance(price, bool) or not isinstance(price, int | float):
        return None
    for field, (lowest, highest) in WHOLE.items():
        number = fields.get(field)
        if isinstance(number, bool) or not isinstance(number, int) or not lowest <= number <= highest:
            return None
    try:
        price = float(price)
    except OverflowError:
        return None
    if not 0 <= price <= PRICE_MAX:
        return None
    return Purchase(fields["purchaseId"], fields["userId"], name, fields["productId"], fields["quantity"], price)


def expected_invoice(purchase: Purchase) -> dict[str, Any]:
    return {
        "purchaseId": purchase.purchase_id,
        "userId": purchase.user_id,
        "productId": purchase.product_id,
        "quantity": purchase.quantity,
        "totalPrice": purchase.total_price,
    }


def expected_shipment(purchase: Purchase) -> dict[str, Any]:
    return {
        "shipmentId": f"S-{purchase.purchase_id}",
        "purchaseId": purchase.purchase_id,
        "productId": purchase.product_id,
        "userFullName": purchase.user_full_name,
        "address": expected_address(purchase.user_id),
        "quantity": purchase.quantity,
    }


def expected_address(user_id: int) -> str:
    return f"SomeStreet {user_id % 97 + 1}/{user_id % 18 + 1}, 00-{user_id % 1000:03} Warsaw"


def parse_output(value: bytes | None) -> dict[str, Any] | None:
    """The fields of an invoice or a shipment; None for anything else."""
    fields = _parse(value)
    return fields if fields is not None and type(fields.get("purchaseId")) is int else None


def _is_text(name: str) -> bool:
    """JSON can contain half of a surrogate pair, which has no encoding."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _parse(value: bytes | None) -> dict[str, Any] | None:
    try:
        fields = None if value is None else _DECODER.decode(value.decode())
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
