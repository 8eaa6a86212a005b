"""Checks the running totals: sums over the purchases against the last record of each key.

It computes its own sums, in cents, independently of the pipeline.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal

from fencepost.shop import CUSTOMERS, PRODUCTS
from fencepost.shop.expected import Purchase

#: The fields of a record of each topic: its key, a count, and money.
FIELDS = {CUSTOMERS: ("userId", "purchases", "amount"), PRODUCTS: ("productId", "sold", "revenue")}

Sums = tuple[int, int]  #: a count, and cents


@dataclass(slots=True)
class TotalsBook:
    expected: dict[str, dict[int, Sums]] = field(default_factory=lambda: {name: {} for name in FIELDS})
    found: dict[str, dict[int, Sums]] = field(default_factory=lambda: {name: {} for name in FIELDS})
    records: int = 0

    def purchase(self, purchase: Purchase) -> None:
        cents = _cents(purchase.total_price)
        for topic, key, count in (
            (CUSTOMERS, purchase.user_id, 1),
            (PRODUCTS, purchase.product_id, purchase.quantity),
        ):
            before = self.expected[topic].get(key, (0, 0))
            self.expected[topic][key] = (before[0] + count, before[1] + cents)

    def output(self, topic: str, value: bytes | None) -> None:
        """A key's records are in one partition, so they come in order, and the last one counts."""
        self.records += 1
        name, count, money = FIELDS[topic]
        try:
            fields = json.loads(value or b"")
            self.found[topic][int(fields[name])] = (int(fields[count]), _cents(float(fields[money])))
        except (KeyError, TypeError, ValueError):
            self.found[topic][-1] = (0, 0)  # no purchase has this key, so `wrong` reports it

    def wrong(self) -> Iterator[str]:
        """Every key whose total is not the sum of its purchases; nothing if there are no totals."""
        if not self.records:
            return
        for topic, (name, _, _) in FIELDS.items():
            expected, found = self.expected[topic], self.found[topic]
            for key in sorted(expected.keys() | found.keys()):
                if expected.get(key) != found.get(key):
                    yield f"{name} {key}: {_text(found.get(key))}, expected {_text(expected.get(key))}"


def _cents(money: float) -> int:
    """Rounds half a cent up, like SQL."""
    return int(Decimal(repr(money * 100)).quantize(Decimal(1), ROUND_HALF_UP))


def _text(sums: Sums | None) -> str:
    return "nothing" if sums is None else f"{sums[0]} for {sums[1] / 100:.2f}"
